// What keeps routers of mixtures in order, and what is told of them.
#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "ingot/autograd/engine.h"
#include "ingot/autograd/grad_mode.h"
#include "ingot/models/language/decoder.h"
#include "ingot/models/language/family.h"
#include "ingot/models/language/router_statistics.h"
#include "ingot/nn/param_source.h"
#include "ingot/ops/view.h"

namespace ingot {
namespace {

constexpr std::int64_t kTokens = 24, kExperts = 4;

LanguageConfig mixture(const std::string& family) {
  LanguageConfig c;
  c.model_type = family;
  c.vocab_size = 64;
  c.hidden_size = c.intermediate_size = c.moe_intermediate_size = 32;
  c.num_hidden_layers = 3;
  c.num_attention_heads = c.num_key_value_heads = 2;
  c.num_experts = kExperts;
  c.num_experts_per_tok = family == "llama4_text" ? 1 : 2;
  apply_family(c);
  c.validate();
  return c;
}

Tensor numbers(const Shape& shape, double scale) {
  std::vector<float> values(static_cast<std::size_t>(shape.numel()));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(scale * std::sin(1.7 * static_cast<double>(i) + 0.3));
  return Tensor::from(values, shape);
}

DecoderInput input() {
  std::vector<std::int64_t> tokens;
  for (std::int64_t i = 0; i < kTokens; ++i) tokens.push_back((i * 13 + 5) % 64);
  return {.tokens = Tensor::from(tokens, {2, kTokens / 2})};
}

// log Σ exp of each row.
std::vector<double> logsumexp_of(const std::vector<float>& logits) {
  std::vector<double> result;
  for (std::size_t row = 0; row < logits.size(); row += kExperts) {
    double sum = 0;
    for (std::size_t e = 0; e < kExperts; ++e) sum += std::exp(static_cast<double>(logits[row + e]));
    result.push_back(std::log(sum));
  }
  return result;
}

class RouterScores : public ::testing::TestWithParam<const char*> {};

TEST_P(RouterScores, TheZLossAndItsGradientAreTheirDefinition) {
  const LanguageConfig config = mixture(GetParam());
  InitSource source(3, DType::f32);
  const MoeMlp mlp(source, config);
  const Tensor x = numbers({1, kTokens, config.hidden_size}, 2);
  RouterLoad load;
  static_cast<void>(mlp(x, &load));
  const std::vector<float> logits = mlp.router(reshape(x, {kTokens, -1})).logits.detach().to_vector<float>();
  const std::vector<double> lse = logsumexp_of(logits);
  double expected = 0;
  for (const double value : lse) expected += value * value / kTokens;
  const Tensor loss = router_z_loss(std::vector{load}, kTokens);
  EXPECT_NEAR(loss.item(), expected, 1e-5 * expected);
  backward(loss);
  const std::vector<float> gradient = mlp.router.gate.weight.dense.grad().to_vector<float>();
  const std::vector<float> rows = x.to_vector<float>();
  const auto width = static_cast<std::size_t>(config.hidden_size);
  for (std::size_t e = 0; e < kExperts; ++e) {
    for (std::size_t i = 0; i < width; ++i) {
      double sum = 0;  // of 2 · lse / T · softmax · x
      for (std::size_t t = 0; t < kTokens; ++t)
        sum += 2 * lse[t] / kTokens * std::exp(static_cast<double>(logits[t * kExperts + e]) - lse[t]) *
               static_cast<double>(rows[t * width + i]);
      EXPECT_NEAR(gradient[e * width + i], sum, 1e-5) << e << ' ' << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Scores, RouterScores, ::testing::Values("mixtral", "llama4_text", "phimoe"));

TEST(RouterLosses, AreAddedOverAllLayersWithTheirWeightsAndTheShareOfABatch) {
  const LanguageConfig config = mixture("mixtral");
  InitSource source(3, DType::f32);
  const LanguageModel model(config, source);
  const NoGrad no_grad;
  std::vector<RouterLoad> loads;
  static_cast<void>(model.hidden(input(), &loads));
  ASSERT_EQ(loads.size(), 3U);
  double z = 0;
  for (const RouterLoad& load : loads) z += load.squares.item() / (3 * kTokens);
  const double aux = load_balancing_loss(loads, kTokens).item();
  const Tensor targets = input().tokens;
  const double plain = model.loss(input(), targets).item();
  EXPECT_NEAR(model.loss(input(), targets, {.router_z_loss = 0.5F}).item(), plain + 0.5 * z, 1e-5);
  const LossOptions both{.router_aux_loss = 0.25F,
                         .router_z_loss = 0.5F,
                         .router_share = Tensor::from(std::vector<float>{0.5F}, {1})};
  EXPECT_NEAR(model.loss(input(), targets, both).item(), plain + 0.5 * (0.25 * aux + 0.5 * z), 1e-5);
}

TEST(RouterStatistics, AreOfPassesWithGradientsAloneAndChangeNoBit) {
  const LanguageConfig config = mixture("mixtral");
  const auto gradients = [&](Recompute recompute, bool counted) {
    InitSource source(3, DType::f32);
    LanguageModel model(config, source);
    model.recompute = recompute;
    RouterStatistics statistics(model);
    if (counted) model.router_statistics = &statistics;
    for (int step = 0; step < 2; ++step) {  // what the first one counts is forgotten
      statistics.begin();
      zero_grad(model);
      backward(model.loss(input(), input().tokens));
      const NoGrad no_grad;
      static_cast<void>(model.loss(input(), input().tokens));
    }
    std::vector<std::vector<float>> bits;
    for (const Parameter* parameter : parameters(model)) bits.push_back(parameter->grad().to_vector<float>());
    return std::pair(bits, statistics.sums().to_vector<float>());
  };
  const auto [plain, nothing] = gradients(Recompute::none, false);
  EXPECT_EQ(nothing, std::vector<float>(nothing.size()));
  const auto [bits, sums] = gradients(Recompute::none, true);
  EXPECT_EQ(bits, plain);
  ASSERT_EQ(sums.size(), 3U * (2 * kExperts + 1));
  for (std::size_t layer = 0; layer < 3; ++layer) {
    const float* of_layer = sums.data() + layer * (2 * kExperts + 1);
    EXPECT_EQ(of_layer[0] + of_layer[1] + of_layer[2] + of_layer[3], 2 * kTokens) << "two choices a token";
    EXPECT_NEAR(of_layer[4] + of_layer[5] + of_layer[6] + of_layer[7], kTokens, 1e-4) << "probabilities";
    EXPECT_GT(of_layer[8], 0);
  }
  const auto [again_bits, again] = gradients(Recompute::full, true);
  EXPECT_EQ(again_bits, plain);
  EXPECT_EQ(again, sums) << "a layer that runs again is counted once";
}

TEST(RouterUse, IsThatOfItsDefinitions) {
  // Eight tokens with two choices; one expert has none, one half of all pairs.
  const std::vector<float> uneven{8, 4, 4, 0, 4, 2, 1, 1, 16};
  const RouterUse use = router_use(uneven, 2);
  EXPECT_DOUBLE_EQ(use.imbalance, 2);
  EXPECT_DOUBLE_EQ(use.unused, 0.25);
  EXPECT_DOUBLE_EQ(use.entropy, 0.75);  // 1.5 bits of 2
  EXPECT_DOUBLE_EQ(use.aux_loss, 4 * (1 * 0.5 + 0.5 * 0.25 + 0.5 * 0.125));
  EXPECT_DOUBLE_EQ(use.z_loss, 2);
  const RouterUse even = router_use(std::vector<float>{4, 4, 4, 4, 2, 2, 2, 2, 0}, 2);
  EXPECT_DOUBLE_EQ(even.imbalance, 1);
  EXPECT_DOUBLE_EQ(even.entropy, 1);
  EXPECT_DOUBLE_EQ(even.unused, 0);
  EXPECT_DOUBLE_EQ(even.aux_loss, 2) << "the number of choices";
  EXPECT_EQ(router_use(std::vector<float>(9), 2).imbalance, 0) << "nothing was routed";
}

}  // namespace
}  // namespace ingot
