#include "tests/emulated_gpu/queue.h"
#include "tests/kernels/cuda/device.h"
#include "tests/support/op_case.h"
#include <gtest/gtest.h>

#include "ingot/autograd/grad_mode.h"
#include "ingot/core/backend.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/elementwise.h"

// Two emulated devices work in no order, but for the one that copies between them need.
namespace ingot {
namespace {

using kernels::cuda::emulation::Deferred;
using kernels::cuda::emulation::OtherStreams;
using testing::max_error;
using testing::randn;

constexpr Device kFirst = test::kDevice, kSecond{DeviceType::cuda, 1};

TEST(CudaTwoDevicesOrder, ACopyReadsWhatWasComputedBefore) {
  const NoGrad no_grad;
  const Tensor x = randn({1000}, 1);
  for (const OtherStreams others : {OtherStreams::behind, OtherStreams::ahead}) {
    const Deferred deferred(others);
    const Tensor y = to(to(x, kFirst) * 3.0F, kSecond);
    EXPECT_EQ(max_error(to(y, kCpu), x * 3.0F), 0.0);
  }
}

TEST(CudaTwoDevicesOrder, ACopyIsMadeBeforeItsSourceChanges) {
  const NoGrad no_grad;
  const Tensor x = randn({1000}, 1);
  for (const OtherStreams others : {OtherStreams::behind, OtherStreams::ahead}) {
    const Deferred deferred(others);
    const Tensor source = to(x, kFirst);
    const Tensor y = to(source, kSecond);
    backend(kFirst).fill_bytes(source.view().data, 0xff, source.nbytes(), current_stream(kFirst));
    backend(kFirst).synchronize(current_stream(kFirst));
    EXPECT_EQ(max_error(to(y, kCpu), x), 0.0);
  }
}

}  // namespace
}  // namespace ingot
