#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tests/train/cuda/training_run.h"
#include <gtest/gtest.h>

#include "ingot/autograd/engine.h"
#include "ingot/base/config.h"
#include "ingot/base/error.h"
#include "ingot/models/language/decoder.h"
#include "ingot/models/language/family.h"
#include "ingot/nn/param_source.h"

// MLPs through which some tokens go at a time.
namespace ingot {
namespace {

class MlpChunk : public test::TrainingRun {
 protected:
  std::vector<double> losses_with(TrainConfig c, std::int64_t chunk) {
    c.mlp_chunk = chunk;
    c.max_steps = 2;
    c.validation_split_ratio = 0;
    c.output_dir += std::to_string(chunk);
    return losses_of(c);
  }
};

// 32 tokens go through in parts of 12. The first loss is of the weights that both begin with.
TEST_F(MlpChunk, LearnsWhatAllTokensAtOnceLearn) {
  for (const Recompute recompute : {Recompute::none, Recompute::selective, Recompute::full}) {
    TrainConfig c = config("cpu", "whole" + std::string(name(recompute)));
    c.recompute = recompute;
    const std::vector<double> expected = losses_with(c, 0), actual = losses_with(c, 12);
    EXPECT_EQ(actual.front(), expected.front()) << name(recompute);
    expect_near(actual, expected, 1e-4);
  }
}

TEST_F(MlpChunk, TrainsAdaptersOnAQuantizedBase) {
  TrainConfig c = tuning("cpu", "adapters", DType::f32, "nf4");
  c.recompute = Recompute::full;
  const std::vector<double> expected = losses_with(c, 0), actual = losses_with(c, 10);
  EXPECT_EQ(actual.front(), expected.front());
  expect_near(actual, expected, 1e-4);
}

TEST_F(MlpChunk, AChunkThatHoldsAllTokensChangesNoBit) {
  TrainConfig c = config("cpu", "all");
  EXPECT_EQ(losses_with(c, 0), losses_with(c, 32));
}

LanguageConfig mixture(const std::string& family) {
  LanguageConfig c;
  c.model_type = family;
  c.vocab_size = 64;
  c.hidden_size = c.intermediate_size = c.moe_intermediate_size = 32;
  c.num_hidden_layers = 3;
  c.num_attention_heads = c.num_key_value_heads = 2;
  c.num_experts = 4;
  c.num_experts_per_tok = family == "llama4_text" ? 1 : 2;
  apply_family(c);
  if (family == "qwen2_moe") c.shared_expert_intermediate_size = 32;
  c.validate();
  return c;
}

struct Pass {
  double loss;
  std::map<std::string, std::vector<float>> gradients;
};

Pass pass_of(const LanguageConfig& config, Recompute recompute, std::int64_t chunk) {
  InitSource source(1, DType::f32);
  LanguageModel model(config, source);
  model.recompute = recompute;
  model.set_mlp_chunk(chunk);
  std::vector<std::int32_t> ids, positions;
  for (std::int32_t i = 0; i < 50; ++i) {
    ids.push_back(i * 7 % 64);
    positions.push_back(i % 25);
  }
  const Tensor tokens = Tensor::from(ids, {2, 25});
  const Tensor loss = model.loss({.tokens = tokens, .positions = Tensor::from(positions, {2, 25})}, tokens);
  backward(loss);
  Pass pass{.loss = loss.item(), .gradients = {}};
  for (const Parameter* parameter : parameters(model))
    if (parameter->value.grad().defined())
      pass.gradients[parameter->name] = parameter->value.grad().to_vector<float>();
  return pass;
}

// Experts with softmax, beside a shared one, with biases, and with weights for what they read.
TEST(ExpertChunks, HaveTheLossOfAllTokensAtOnceAndItsGradientsInOtherSums) {
  for (const char* family : {"mixtral", "qwen2_moe", "gpt_oss", "llama4_text"}) {
    const LanguageConfig config = mixture(family);
    for (const Recompute recompute : {Recompute::none, Recompute::full}) {
      const Pass whole = pass_of(config, recompute, 0), chunks = pass_of(config, recompute, 12);
      EXPECT_EQ(chunks.loss, whole.loss) << family;
      ASSERT_EQ(chunks.gradients.size(), whole.gradients.size()) << family;
      for (const auto& [name, expected] : whole.gradients) {
        const std::vector<float>& actual = chunks.gradients.at(name);
        for (std::size_t i = 0; i < expected.size(); ++i)
          ASSERT_NEAR(actual[i], expected[i], 1e-6) << family << " " << name;
      }
    }
  }
}

TEST(MlpChunkKeys, ReadWhatAxolotlWrites) {
  const auto read = [](const std::string& text) {
    Config config = Config::parse(
        "model: x\nadapter: lora\ndatasets: [{path: a.txt}]\nmicro_batch_size: 2\nsequence_len: 3000\n" +
        text);
    return read_train_config(config).mlp_chunk;
  };
  EXPECT_EQ(read(""), 0);
  EXPECT_EQ(read("mlp_chunk: 512\n"), 512);
  EXPECT_EQ(read("tiled_mlp: true\n"), 4096);
  EXPECT_EQ(read("tiled_mlp: true\ntiled_mlp_num_shards: 4\n"), 1500);
  EXPECT_EQ(read("tiled_mlp: false\ntiled_mlp_num_shards: 4\n"), 0);
  EXPECT_EQ(read("tiled_mlp: true\nmlp_chunk: 100\n"), 100);
  EXPECT_THROW(read("mlp_chunk: -1\n"), InvalidConfig);
  EXPECT_THROW(read("tiled_mlp: true\ntiled_mlp_num_shards: few\n"), InvalidConfig);
}

}  // namespace
}  // namespace ingot
