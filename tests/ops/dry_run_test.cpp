#include "ingot/kernels/dry_run.h"

#include <vector>

#include <gtest/gtest.h>

#include "ingot/autograd/engine.h"
#include "ingot/base/error.h"
#include "ingot/core/tensor.h"
#include "ingot/kernels/watched_launch.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/loss.h"
#include "ingot/ops/matmul.h"
#include "ingot/ops/reduce.h"

namespace ingot {
namespace {

using kernels::DeviceProfile;
using kernels::DryRun;

TEST(DryRun, HasTheMetaDeviceWhileItLivesAndNoOtherTime) {
  EXPECT_EQ(BackendRegistry::instance().find(kMeta), nullptr);
  EXPECT_THROW(static_cast<void>(Tensor::empty({2}, DType::f32, kMeta)), DeviceNotAvailable);
  {
    const DryRun run(DeviceProfile::of(kCpu));
    EXPECT_EQ(Tensor::empty({2}, DType::f32, kMeta).device(), kMeta);
    for (const ComputeBackend* each : BackendRegistry::instance().all()) EXPECT_NE(each->device(), kMeta);
  }
  EXPECT_EQ(BackendRegistry::instance().find(kMeta), nullptr);
}

TEST(DryRun, ReadsZerosWhateverWasWritten) {
  const DryRun run(DeviceProfile::of(kCpu));
  const Tensor x = Tensor::from(std::vector<float>{1, 2, 3}, {3}, kMeta);
  EXPECT_EQ((x + x).to_vector<float>(), std::vector<float>(3));
}

// 4 TB, of which nothing is taken from the machine.
TEST(DryRun, MultipliesWhatNoMachineHolds) {
  const DryRun run(DeviceProfile::of(kCpu));
  constexpr std::int64_t kWide = std::int64_t{1} << 20;
  const std::size_t before = run.memory().allocated();
  Tensor x = Tensor::empty({kWide, kWide}, DType::f32, kMeta);
  x.set_requires_grad(true);
  backward(sum(matmul(x, x)));
  EXPECT_EQ(x.grad().shape(), Shape({kWide, kWide}));
  EXPECT_EQ(run.memory().allocated() - before, 2 * sizeof(float) * kWide * kWide);
}

// Of a loss that makes its own logits: their chunk, its head's gradient and what it keeps.
TEST(DryRun, TakesWhatTheSameRunTakesOnTheDeviceItImitates) {
  const auto peak_of = [](Device device, MemoryTracker& memory) {
    Tensor x = Tensor::zeros({130, 24}, DType::bf16, device),
           w = Tensor::zeros({50, 24}, DType::bf16, device);
    x.set_requires_grad(true);
    w.set_requires_grad(true);
    const Tensor targets = Tensor::zeros({130}, DType::i32, device);
    const std::size_t before = memory.allocated();
    memory.reset_peak();
    backward(linear_cross_entropy(relu(x), w, targets, {}));
    return memory.peak() - before;
  };
  const std::size_t real = peak_of(kCpu, backend(kCpu).memory());
  const DryRun run(DeviceProfile::of(kCpu));
  EXPECT_EQ(peak_of(kMeta, run.memory()), real);
}

TEST(DryRun, ShowsLaunchesToWhoLooks) {
  struct Counter final : kernels::LaunchObserver {
    bool launching(const kernels::Launch& launch) override {
      flops += launch.work.flops;
      return true;
    }
    double flops = 0;
  };
  const DryRun run(DeviceProfile::of_gpu(std::size_t{8} << 30));
  const Tensor a = Tensor::empty({3, 5}, DType::f32, kMeta), b = Tensor::empty({5, 7}, DType::f32, kMeta);
  Counter counter;
  static_cast<void>(matmul(a, b));
  EXPECT_EQ(counter.flops, 2 * 3 * 5 * 7);
}

}  // namespace
}  // namespace ingot
