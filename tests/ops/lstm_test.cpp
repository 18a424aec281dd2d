#include "ingot/ops/lstm.h"

#include "tests/support/op_case.h"
#include <gtest/gtest.h>

#include "ingot/base/error.h"
#include "ingot/kernels/kernel.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/view.h"

namespace ingot {
namespace {

using testing::max_error;
using testing::randn;

LstmState by_parts(const Tensor& gates, const Tensor& c) {
  const std::int64_t hidden = c.dim(1);
  const auto gate = [&](std::int64_t i) { return narrow(gates, 1, i * hidden, hidden); };
  const Tensor next = add(mul(sigmoid(gate(2)), c), mul(sigmoid(gate(0)), tanh(gate(3))));
  return {mul(sigmoid(gate(1)), tanh(next)), next};
}

TEST(LstmCell, IsThatOfItsParts) {
  for (const std::int64_t hidden : {1, 7, 16, 50}) {
    const Tensor gates = scale(randn({3, 4 * hidden}, 1), 3), c = randn({3, hidden}, 2);
    ASSERT_TRUE(takes_lstm_cell(gates));
    const LstmState expected = by_parts(gates, c);
    const auto check = [&](const char* kernel) {
      const LstmState state = lstm_cell(gates, c);
      EXPECT_LT(max_error(state.h, expected.h), 1e-6) << kernel << ", " << hidden;
      EXPECT_LT(max_error(state.c, expected.c), 1e-6) << kernel << ", " << hidden;
    };
    check("simd");
    const kernels::ForceKind reference(kernels::ImplKind::reference);
    check("reference");
  }
}

TEST(LstmCell, GatesFarFromZeroAreOpenOrShut) {
  const Tensor gates = Tensor::from(std::vector<float>{1e4F, -1e4F, -1e4F, 1e4F}, {1, 4}),
               c = Tensor::from(std::vector<float>{5}, {1, 1});
  const LstmState state = lstm_cell(gates, c);
  EXPECT_EQ(state.c.item(), 1);
  EXPECT_NEAR(state.h.item(), 0, 1e-30);
  EXPECT_THROW(lstm_cell(randn({2, 8}, 1), randn({2, 3}, 2)), ShapeMismatch);
}

TEST(LstmCell, RefusesWhatIsNotF32) {
  const auto made = [](DType gates, DType c) {
    return lstm_cell(randn({2, 8}, 1, gates), randn({2, 2}, 2, c));
  };
  EXPECT_THROW(made(DType::f16, DType::f16), DimensionMismatch);
  EXPECT_THROW(made(DType::bf16, DType::f32), DimensionMismatch);
  EXPECT_THROW(made(DType::f32, DType::f64), DimensionMismatch);
}

}  // namespace
}  // namespace ingot
