#include "ingot/base/trace.h"

#include <algorithm>

#include "tests/kernels/cuda/device.h"
#include "tests/support/temporary_directory.h"
#include "tests/support/trace_file.h"
#include <gtest/gtest.h>

#include "ingot/core/backend.h"
#include "ingot/ops/elementwise.h"

namespace ingot {
namespace {

using test::kDevice;

// Each kernel is there twice: on the row of its thread, where it was launched, and on that of its stream.
TEST(CudaTrace, ShowsKernelsOnTheRowsOfTheirStreams) {
  const test::TemporaryDirectory folder;
  const Tensor x = Tensor::zeros({64}, DType::f32, kDevice);
  const Stream stream = backend(kDevice).create_stream();
  Trace trace(folder.at("trace.json"));
  {
    const StreamGuard guard(stream);
    static_cast<void>(x + x);
  }
  trace.finish();
  backend(kDevice).destroy_stream(stream);
  const test::TraceFile file = test::read_trace(folder.at("trace.json"));
  EXPECT_EQ(file.count({"op add", "kernel binary"}), 1);
  EXPECT_EQ(file.count({"kernel binary"}), 2);
  EXPECT_TRUE(
      std::ranges::any_of(file.threads, [](const auto& name) { return name.starts_with("stream "); }));
  EXPECT_TRUE(file.counters.contains("memory cuda:0 (bytes)"));
}

}  // namespace
}  // namespace ingot
