#include "ingot/autograd/provenance.h"

#include <cmath>

#include "tests/support/op_case.h"
#include "tests/support/temporary_directory.h"
#include <gtest/gtest.h>

#include "ingot/autograd/engine.h"
#include "ingot/autograd/grad_mode.h"
#include "ingot/base/error.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/reduce.h"
#include "ingot/ops/view.h"

namespace ingot {
namespace {

Tensor row(std::vector<float> values) {
  const auto count = static_cast<std::int64_t>(values.size());
  return Tensor::from(values, {1, count});
}

TEST(Provenance, TellsOpModuleStepAndOperandsOfATensor) {
  const NoGrad no_grad;
  const RecordOrigins record;
  const Tensor x = row({1, 2});
  Tensor y;
  {
    const Scope step(ScopeKind::step, "step", 7);
    const Scope module(ScopeKind::module, "model.layers.0.mlp");
    y = exp(x) * x;
  }
  const auto origin = origin_of(y);
  ASSERT_NE(origin, nullptr);
  EXPECT_EQ(origin->op, "mul");
  EXPECT_EQ(origin->module, "model.layers.0.mlp");
  EXPECT_EQ(origin->step, 7);
  EXPECT_EQ(origin->shape, Shape({1, 2}));
  ASSERT_EQ(origin->inputs.size(), 2U);
  ASSERT_NE(origin->inputs[0], nullptr);
  EXPECT_EQ(origin->inputs[0]->op, "exp");
  EXPECT_EQ(origin->inputs[1], nullptr) << "x was not made by an op";
  EXPECT_EQ(describe(*origin),
            "mul in model.layers.0.mlp, step 7: f32[1, 2]\n"
            "  exp in model.layers.0.mlp, step 7: f32[1, 2]");
}

TEST(Provenance, TellsAViewFromWhatItIsAViewOf) {
  const RecordOrigins record;
  const Tensor y = exp(row({1, 2}));
  const Tensor flat = reshape(y, {2});
  EXPECT_EQ(origin_of(y)->op, "exp");
  EXPECT_EQ(origin_of(flat)->op, "reshape");
  EXPECT_EQ(origin_of(flat)->inputs[0], origin_of(y));
}

TEST(Provenance, ForgetsMemoryThatSomebodyElseHas) {
  const RecordOrigins record;
  for (int i = 0; i < 10; ++i) {
    { const Tensor gone = exp(row({1, 2})); }
    EXPECT_EQ(origin_of(row({1, 2})), nullptr);
  }
}

TEST(Provenance, KeepsNoEndlessChain) {
  const NoGrad no_grad;
  const RecordOrigins record;
  Tensor state = row({0, 0});
  for (int i = 0; i < 2000; ++i) state = state + 1.0;
  int length = 0;
  for (auto origin = origin_of(state); origin != nullptr;
       origin = origin->inputs.empty() ? nullptr : origin->inputs.front())
    ++length;
  EXPECT_GT(length, 10);
  EXPECT_LT(length, 1000);
}

TEST(Provenance, RecordsNothingOnceItEnds) {
  Tensor y;
  {
    const RecordOrigins record(true);
    y = exp(row({0, 1}));
    EXPECT_NEAR(origin_of(y)->values->largest, std::exp(1), 1e-5);
    EXPECT_EQ(origin_of(y)->values->least, 1);
  }
  EXPECT_EQ(origin_of(y), nullptr);
  EXPECT_FALSE(scopes_watched());
}

TEST(ValueRange, CountsWhatIsNotFiniteAndSpansTheRest) {
  const ValueRange range = value_range(row({1, NAN, -3, INFINITY}));
  EXPECT_EQ(range.least, -3);
  EXPECT_EQ(range.largest, 1);
  EXPECT_EQ(range.not_finite, 2);
  EXPECT_EQ(value_range(Tensor::zeros({2}, DType::i64)).elements, 0);
  const ValueRange half = value_range(Tensor::zeros({3, 2}, DType::bf16));
  EXPECT_EQ(half.elements, 6);
  EXPECT_EQ(half.largest, 0);
}

TEST(ListOrigins, KeepsResultsAndGradientsInOrderWithTheirLeaves) {
  ListOrigins list;
  Tensor x = row({0, 1});
  x.set_requires_grad(true);
  backward(sum(exp(x)));
  const auto ops = list.take();
  ASSERT_EQ(ops.size(), 4U);
  for (std::size_t i = 1; i < ops.size(); ++i) EXPECT_GT(ops[i]->number, ops[i - 1]->number);
  EXPECT_EQ(ops[0]->op, "exp");
  ASSERT_NE(ops[0]->inputs.at(0), nullptr);
  EXPECT_EQ(ops[0]->inputs[0]->op, "");
  EXPECT_EQ(ops[0]->inputs[0]->values->largest, 1);
  EXPECT_EQ(ops[3]->op, "exp (backward)");
  EXPECT_EQ(ops[3]->inputs.at(0), ops[2]);
  EXPECT_NEAR(ops[3]->values->largest, std::exp(1), 1e-5);
  EXPECT_TRUE(list.take().empty());
}

class AnomalyReport : public ::testing::Test {
 protected:
  void SetUp() override { set_detect_anomaly(true); }
  void TearDown() override { set_detect_anomaly(false); }
};

TEST_F(AnomalyReport, TellsTheModuleAndTheValuesThatLedToANan) {
  const std::string message = test::message_of<NonFinite>([] {
    const Scope module(ScopeKind::module, "model.layers.1.mlp");
    const Tensor x = row({-1, 4});
    static_cast<void>(sqrt(x * 2.0));
  });
  EXPECT_NE(message.find("sqrt in model.layers.1.mlp: made 1 of 2 values NaN or infinite"), std::string::npos)
      << message;
  EXPECT_NE(message.find("input 0: f32[1, 2], -2 to 8, from\n"), std::string::npos) << message;
  EXPECT_NE(message.find("in model.layers.1.mlp: f32[1, 2], -2 to 8"), std::string::npos) << message;
}

TEST_F(AnomalyReport, TellsTheGradientThatArrivedWhereABackwardPassMadeTheNan) {
  Tensor x = row({0, 4});
  x.set_requires_grad(true);
  const std::string message = test::message_of<NonFinite>([&] {
    Tensor y;
    {
      const Scope module(ScopeKind::module, "encoder.0");
      y = sqrt(x);
    }
    backward(sum(y));
  });
  EXPECT_NE(message.find("sqrt (backward) in encoder.0: made 1 of 2"), std::string::npos) << message;
  EXPECT_NE(message.find("input 0: f32[1, 2], 1 to 1"), std::string::npos) << message;
}

}  // namespace
}  // namespace ingot
