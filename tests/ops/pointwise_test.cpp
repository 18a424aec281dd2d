#include "ingot/ops/pointwise.h"

#include "tests/support/op_case.h"
#include <gtest/gtest.h>

#include "ingot/autograd/engine.h"
#include "ingot/ops/cast.h"

namespace ingot {
namespace {

using testing::check_op;
using testing::max_error;
using testing::randn;

// On a device that compiles kernels every case here is one kernel; on the CPU a formula is its operations.
const auto kGeglu = [](const auto& gate, const auto& up) { return gelu_tanh(gate) * up; };
const auto kSoftcap = [](const auto& x) { return tanh(x / 30.0) * 30.0; };
// Uses of a value twice, both operands of every binary operation.
const auto kTangle = [](const auto& a, const auto& b) {
  const auto s = a * b - silu(a);
  return maximum(s, b) / (square(s) + 2.0) + minimum(a, -s);
};

// One formula only: the emulated device has a compiler make each of its kernels.
TEST(Pointwise, HoldsForAFormula) {
  const FusionScope all(true);
  check_op({.name = "tangle",
            .op = [](std::span<const Tensor> in) { return pointwise(kTangle, in[0], in[1]); },
            .inputs = {{Shape{5, 9}}, {Shape{5, 9}}},
            .half_tolerance = 4e-2});
}

// The kernel's contract, on the CPU: a chain is its steps, also in bits.
TEST(Pointwise, TheReferenceIsOneKernelAfterTheOther) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f64}) {
    const Tensor gate = randn({3, 1111}, 1, dtype), up = randn({3, 1111}, 2, dtype);
    const Tensor y = clone(gate);
    PointwiseTrace trace(2);
    static_cast<void>(kGeglu(Symbol{&trace, 0}, Symbol{&trace, 1}));
    const View inputs[] = {gate.view(), up.view()};
    kernels::launch(kernels::pointwise, {}, {.inputs = inputs, .y = y.view(), .steps = trace.steps()});
    EXPECT_EQ(max_error(y, kGeglu(gate, up)), 0.0);
    kernels::launch(kernels::pointwise, {},
                    {.inputs = inputs, .y = y.view(), .steps = trace.steps(), .accumulate = true});
    EXPECT_LE(max_error(y, kGeglu(gate, up) * 2.0), dtype == DType::bf16 ? 1e-2 : 1e-6);
  }
}

TEST(Pointwise, OnTheCpuAFormulaIsItsOperations) {
  const FusionScope all(true);
  const Tensor x = randn({4, 4}, 1);
  EXPECT_FALSE(fuses(std::array{&x}));
  EXPECT_EQ(max_error(pointwise(kSoftcap, x), kSoftcap(x)), 0.0);
}

}  // namespace
}  // namespace ingot
