#include "ingot/train/language/step_matmuls.h"

#include <algorithm>

#include "tests/train/language/matmul_launches.h"
#include <gtest/gtest.h>

#include "ingot/base/error.h"

namespace ingot {
namespace {

using test::matmul_config;

TEST(StepMatmuls, AreLaunchedAsOftenAndByTheSameKernelsAsInAStep) {
  for (const std::string family : {"llama", "gpt2", "qwen3", "gemma2"}) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      const LanguageConfig config = matmul_config(family, dtype);
      const test::MatmulLaunches expected = test::launches_of_a_step(config, kCpu);
      EXPECT_FALSE(expected.empty());
      EXPECT_EQ(test::launches_of_matmuls(config, kCpu), expected) << family << " " << name(dtype);
    }
  }
}

// The model's own count without attention's matmuls and the weights of norms, which it counts too.
TEST(StepMatmuls, AreTheOperationsThatTheModelCountsForItsWeights) {
  const LanguageConfig c = matmul_config("llama", DType::f32);
  constexpr std::int64_t kTokens = 48;
  const auto attention = static_cast<double>(6 * c.num_hidden_layers * c.num_attention_heads * c.head_dim);
  const auto norms = static_cast<double>(6 * (2 * c.num_hidden_layers + 1) * c.hidden_size);
  const StepMatmuls products(c, kTokens, kCpu);
  EXPECT_EQ(products.flops(), kTokens * (c.training_flops_per_token(1) - attention - norms));
}

TEST(StepMatmuls, AddWhereAStepAdds) {
  const StepMatmuls work(matmul_config("llama", DType::f32), 48, kCpu);
  const auto adding = [&](StepMatmul::Kind kind) {
    std::vector<std::string> weights;
    for (const StepMatmul& p : work.matmuls())
      if (p.kind == kind && p.accumulate) weights.insert(weights.end(), p.weights.begin(), p.weights.end());
    std::ranges::sort(weights);
    return weights;
  };
  EXPECT_EQ(adding(StepMatmul::Kind::forward), std::vector<std::string>{});
  // The last to pass a gradient to a shared input is the first layer.
  EXPECT_EQ(adding(StepMatmul::Kind::input_gradient),
            (std::vector<std::string>{"gate_proj", "k_proj", "q_proj"}));
  EXPECT_EQ(adding(StepMatmul::Kind::weight_gradient),
            (std::vector<std::string>{"down_proj", "gate_proj", "k_proj", "o_proj", "q_proj", "up_proj",
                                      "v_proj"}));
}

// 600 tokens of 50257 classes in f32 take more than the 96 MiB that their logits may have.
TEST(StepMatmuls, TakeTheHeadInTheChunksOfTheLoss) {
  LanguageConfig c = matmul_config("llama", DType::f32);
  c.vocab_size = 50257;
  c.hidden_size = c.head_dim = 8;
  c.num_hidden_layers = c.num_attention_heads = c.num_key_value_heads = 1;
  const StepMatmuls work(c, 600, kCpu);
  std::vector<std::int64_t> rows;
  for (const StepMatmul& p : work.matmuls()) {
    if (p.out != c.vocab_size) continue;
    EXPECT_EQ(p.count, 1);
    EXPECT_EQ(p.accumulate, p.kind == StepMatmul::Kind::weight_gradient && p.rows == 280);
    rows.push_back(p.rows);
  }
  EXPECT_EQ(rows, (std::vector<std::int64_t>{320, 320, 320, 280, 280, 280}));
}

TEST(StepMatmuls, SustainedWorkIsWholeStepsWithoutAGap) {
  const StepMatmuls work(matmul_config("llama", DType::f32), 48, kCpu);
  std::size_t seen = 0;
  const auto samples = work.sustain(0.2, [&](const StepMatmuls::Sample&) { ++seen; });
  ASSERT_GE(samples.size(), 2U);
  EXPECT_LT(seen, samples.size());
  double flops = 0, end = 0;
  for (const auto& sample : samples) {
    EXPECT_EQ(sample.begin, end);
    EXPECT_GT(sample.end, sample.begin);
    end = sample.end;
    flops += sample.flops;
  }
  EXPECT_GE(end, 0.2);
  EXPECT_TRUE(samples.back().whole);
  EXPECT_EQ(flops, static_cast<double>(samples.back().steps) * work.flops());
  for (const double seconds : work.time_each(0.01)) EXPECT_GT(seconds, 0);
}

TEST(StepMatmuls, RefuseWhatTheyHaveNoMatmulsOf) {
  LanguageConfig c = matmul_config("llama", DType::f32);
  EXPECT_THROW(StepMatmuls(c, 0, kCpu), InvalidConfig);
  c.model_type = "mixtral";
  c.num_experts = 4;
  c.num_experts_per_tok = 2;
  EXPECT_THROW(StepMatmuls(c, 48, kCpu), NotImplemented);
}

}  // namespace
}  // namespace ingot
