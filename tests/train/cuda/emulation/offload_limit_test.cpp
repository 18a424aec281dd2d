#include "tests/emulated_gpu/queue.h"
#include "tests/kernels/cuda/device.h"
#include "tests/optim/every_optimizer.h"
#include "tests/support/thorough.h"

#include "ingot/base/error.h"
#include "ingot/core/backend.h"

namespace ingot {
namespace {

namespace emulation = kernels::cuda::emulation;

using emulation::OtherStreams;
using test::every_optimizer;
using test::kDevice;
using test::Trial;

// Copies that run ahead of the steps, or behind them, would change bits.
TEST(OffloadLimit, ADeviceThatWorksLateStepsTheSame) {
  const auto all = every_optimizer();
  for (const auto& [label, make] : test::first_or_all(all, 2)) {
    Trial without(make, DType::bf16, kDevice);
    without.steps(0, 2);
    for (const OtherStreams others : {OtherStreams::behind, OtherStreams::ahead}) {
      Trial with(make, DType::bf16, kDevice);
      with.optimizer->offload({.to = Offload::cpu, .window_bytes = std::size_t{16} << 10});
      const emulation::Deferred deferred(others);
      with.steps(0, 2);
      EXPECT_TRUE(with.bits() == without.bits()) << label;
    }
  }
}

// 4 MB of moments of a parameter that has 2 MB, where 2.5 MB are left.
TEST(OffloadLimit, StepsFitWhereTheStateWouldNot) {
  constexpr std::int64_t kCount = 500'000;
  MemoryTracker& memory = backend(kDevice).memory();
  const std::size_t limit = memory.limit();
  const auto step_within = [&](Offload to) {
    Parameter w("w", Tensor::zeros({kCount}, DType::f32, kDevice), true, true);
    AdamW optimizer({&w}, {});
    optimizer.offload({.to = to});
    const Tensor grad = Tensor::zeros({kCount}, DType::f32, kDevice);
    memory.set_limit(memory.allocated() + 2'500'000);
    for (int i = 0; i < 2; ++i) {
      w.value.set_grad(grad);
      optimizer.step();
    }
    backend(kDevice).synchronize(current_stream(kDevice));
  };
  EXPECT_THROW(step_within(Offload::none), OutOfMemory);
  memory.set_limit(limit);
  EXPECT_NO_THROW(step_within(Offload::cpu));
  memory.set_limit(limit);
}

}  // namespace
}  // namespace ingot
