#include <string>
#include <vector>

#include "tests/kernels/cuda/device.h"
#include "tests/support/op_case.h"
#include "tests/support/temporary_directory.h"
#include <gtest/gtest.h>

#include "ingot/autograd/engine.h"
#include "ingot/autograd/grad_mode.h"
#include "ingot/base/error.h"
#include "ingot/core/backend.h"
#include "ingot/core/graph_cache.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/matmul.h"
#include "ingot/ops/reduce.h"

namespace ingot {
namespace {

using test::message_of;
using testing::max_error;
using testing::randn;

using test::kDevice;

void overwrite(const Tensor& to, const Tensor& from) {
  ComputeBackend& cuda = backend(kDevice);
  cuda.copy(to.view().data, from.view().data, from.nbytes(), current_stream(kDevice));
  cuda.synchronize(current_stream(kDevice));
}

/// Memory that somebody else has and writes into while a captured graph waits for its replay.
void disturb_memory() {
  backend(kDevice).trim();
  for (const std::int64_t n : {1, 40, 400, 4000}) {
    const Tensor other = Tensor::empty({n}, DType::f32, kDevice);
    backend(kDevice).fill_bytes(other.view().data, 0xff, other.nbytes(), current_stream(kDevice));
  }
}

Tensor chain(const Tensor& x, const Tensor& w) { return gelu_tanh(matmul(x, w)) + x; }

TEST(CudaCapture, RunsAgainOnWhatItsInputsHoldThen) {
  const NoGrad no_grad;
  const Tensor x = to(randn({6, 40}, 1), kDevice), w = to(randn({40, 40}, 2), kDevice);
  Tensor y;
  const auto work = backend(kDevice).capture([&] { y = chain(x, w); });
  for (const std::uint64_t seed : {3, 4, 5}) {
    const Tensor next = randn({6, 40}, seed);
    overwrite(x, next);
    disturb_memory();
    work->launch(current_stream(kDevice));
    EXPECT_EQ(max_error(to(y, kCpu), to(chain(to(next, kDevice), w), kCpu)), 0.0) << seed;
  }
}

TEST(CudaCapture, RunsAForwardAndBackwardPass) {
  const Tensor x = to(randn({6, 40}, 1), kDevice);
  Tensor w = to(randn({40, 40}, 2), kDevice);
  w.set_requires_grad(true);
  const auto step = [&](const Tensor& in) {
    w.set_grad({});
    backward(mean(square(chain(in, w))));
    return w.grad();
  };
  Tensor gradient;
  const auto work = backend(kDevice).capture([&] { gradient = step(x); });
  for (const std::uint64_t seed : {3, 4}) {
    const Tensor next = randn({6, 40}, seed);
    overwrite(x, next);
    disturb_memory();
    work->launch(current_stream(kDevice));
    const Tensor found = to(gradient, kCpu), expected = to(step(to(next, kDevice)), kCpu);
    EXPECT_EQ(max_error(found, expected), 0.0) << seed;
  }
}

TEST(CudaCapture, GivesItsMemoryBack) {
  const NoGrad no_grad;
  const Tensor x = to(randn({6, 40}, 1), kDevice), w = to(randn({40, 40}, 2), kDevice);
  const auto once = [&] {
    Tensor y;
    const auto work = backend(kDevice).capture([&] { y = chain(x, w); });
    work->launch(current_stream(kDevice));
    backend(kDevice).synchronize(current_stream(kDevice));
  };
  once();  // libraries and kernels that are loaded now stay
  constexpr std::size_t kTimes = 32, kLeast = std::size_t{2} << 20;  // what one recording holds, at least
  const auto keeps = [&] {
    backend(kDevice).trim();
    const std::size_t before = backend(kDevice).memory_info().free;
    for (std::size_t i = 0; i < kTimes; ++i) once();
    backend(kDevice).trim();
    // Half of that is left to the driver, which takes memory in pieces.
    return backend(kDevice).memory_info().free + kTimes * kLeast / 2 <= before;
  };
  // Other processes take memory of the GPU too; what recordings keep is missing each time.
  bool kept = true;
  for (int i = 0; i < 5 && kept; ++i) kept = keeps();
  EXPECT_FALSE(kept);
}

TEST(CudaCapture, RefusesToWaitOrToReachTheHostAndGoesOn) {
  const NoGrad no_grad;
  const Tensor x = to(randn({6, 40}, 1), kDevice);
  EXPECT_NE(message_of<Error>([&] { backend(kDevice).capture([&] { to(square(x), kCpu); }); }), "");
  EXPECT_NE(message_of<Error>([&] {
              backend(kDevice).capture([&] { backend(kDevice).synchronize(current_stream(kDevice)); });
            }),
            "");
  EXPECT_EQ(message_of<InvalidConfig>([&] {
              backend(kDevice).capture([] { throw InvalidConfig("key", "made up"); });
            }).empty(),
            false);
  EXPECT_LE(max_error(to(square(x), kCpu), square(to(x, kCpu))), 1e-6);
}

TEST(CudaCapture, TheCpuHasNone) {
  EXPECT_FALSE(backend(kCpu).capabilities().graph_capture);
  EXPECT_NE(message_of<NotImplemented>([] { backend(kCpu).capture([] {}); }), "");
}

TEST(CudaWorkCache, RunsThenRecordsThenRepeats) {
  const NoGrad no_grad;
  const Tensor x = to(randn({6, 40}, 1), kDevice), w = to(randn({40, 40}, 2), kDevice);
  const Tensor result = Tensor::empty({6, 40}, DType::f32, kDevice);
  GraphCache cache(kDevice);
  int calls = 0;
  for (const std::uint64_t seed : {3, 4, 5, 6}) {
    const Tensor next = randn({6, 40}, seed);
    overwrite(x, next);
    disturb_memory();
    cache.run("chain", [&] {
      ++calls;
      const Tensor y = chain(x, w);
      backend(kDevice).copy(result.view().data, y.view().data, y.nbytes(), current_stream(kDevice));
    });
    EXPECT_EQ(max_error(to(result, kCpu), to(chain(to(next, kDevice), w), kCpu)), 0.0) << seed;
  }
  EXPECT_EQ(calls, 2);
  cache.run("another", [&] { ++calls; });
  cache.clear();
  cache.run("chain", [&] { ++calls; });
  EXPECT_EQ(calls, 4);
}

TEST(CudaWorkCache, TriesAgainAfterAFailure) {
  GraphCache cache(kDevice);
  int calls = 0;
  for (int i = 0; i < 2; ++i) {
    message_of<InvalidConfig>([&] {
      cache.run("key", [&] {
        ++calls;
        throw InvalidConfig("key", "made up");
      });
    });
  }
  EXPECT_EQ(calls, 2);
}

TEST(CudaWorkCache, RunsEveryTimeOnTheCpu) {
  GraphCache cache(kCpu);
  int calls = 0;
  for (int i = 0; i < 3; ++i) cache.run("key", [&] { ++calls; });
  EXPECT_EQ(calls, 3);
}

}  // namespace
}  // namespace ingot
