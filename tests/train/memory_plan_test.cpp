#include "ingot/train/memory_plan.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "ingot/autograd/engine.h"
#include "ingot/core/backend.h"
#include "ingot/models/language/decoder.h"
#include "ingot/models/language/family.h"
#include "ingot/nn/param_source.h"

namespace ingot {
namespace {

constexpr std::int64_t kBatch = 2, kSequence = 48;

LanguageConfig tiny(const std::string& family) {
  LanguageConfig c;
  c.model_type = family;
  c.vocab_size = 64;
  c.hidden_size = 64;
  c.intermediate_size = 160;
  c.num_hidden_layers = 3;
  c.num_attention_heads = 4;
  c.num_key_value_heads = family == "gpt2" ? 4 : 2;
  c.max_position_embeddings = 64;
  if (family == "mixtral" || family == "qwen3_moe") {
    c.num_experts = 4;
    c.num_experts_per_tok = 2;
    c.moe_intermediate_size = 96;
  }
  apply_family(c);
  c.validate();
  return c;
}

TrainConfig settings(Recompute recompute, DType dtype) {
  TrainConfig c;
  c.device = "cpu";
  c.per_device_train_batch_size = kBatch;
  c.sequence_len = kSequence;
  c.recompute = recompute;
  c.dtype = dtype;
  return c;
}

DecoderInput tokens() {
  std::vector<std::int32_t> ids, positions;
  for (std::int64_t i = 0; i < kBatch * kSequence; ++i) {
    ids.push_back(static_cast<std::int32_t>(i * 7 % 64));
    positions.push_back(static_cast<std::int32_t>(i % kSequence));
  }
  return {.tokens = Tensor::from(ids, {kBatch, kSequence}),
          .positions = Tensor::from(positions, {kBatch, kSequence})};
}

// Bytes that a forward pass keeps, without the gradient of the head, which it makes already.
std::size_t kept_bytes(const LanguageConfig& config, Recompute recompute, DType dtype) {
  InitSource source(1, dtype);
  LanguageModel model(config, source);
  model.recompute = recompute;
  const DecoderInput input = tokens();
  static_cast<void>(model.rope_tables(kSequence));
  const MemoryTracker& memory = backend(kCpu).memory();
  const auto held = [&] { return memory.allocated() - memory.allocated(MemoryTag::gradient); };
  const std::size_t before = held();
  const Tensor loss = model.loss(input, input.tokens);
  return held() - before;
}

class KeptBytes : public ::testing::TestWithParam<std::string> {};

// Not in the plan: the loss, its denominator, the offsets of the experts' rows.
constexpr std::size_t kOfNoToken = 160;

TEST_P(KeptBytes, AreWhatThePlanSays) {
  const LanguageConfig config = tiny(GetParam());
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const Recompute recompute : {Recompute::none, Recompute::selective}) {
      const std::size_t planned = plan_memory(settings(recompute, dtype), config).activations;
      const std::size_t kept = kept_bytes(config, recompute, dtype);
      EXPECT_GE(kept, planned) << name(recompute) << " " << name(dtype);
      EXPECT_LE(kept, planned + kOfNoToken) << name(recompute) << " " << name(dtype);
    }
  }
}

TEST_P(KeptBytes, AreTheInputsOfTheLayersWhereTheseRunAgain) {
  const LanguageConfig config = tiny(GetParam());
  // Besides the last layer's output and the gradient of the last norm's.
  const auto rows = static_cast<double>((config.num_hidden_layers + 2) * kBatch * kSequence);
  const double bytes = rows * static_cast<double>(config.hidden_size) * 4;
  EXPECT_NEAR(static_cast<double>(kept_bytes(config, Recompute::full, DType::f32)) / bytes, 1, 1e-2);
}

INSTANTIATE_TEST_SUITE_P(Families, KeptBytes,
                         ::testing::Values("gpt2", "llama", "qwen3", "gemma2", "gemma3_text", "mixtral",
                                           "qwen3_moe"),
                         [](const auto& info) { return info.param; });

// The shape of Qwen3-8B. Per token and layer there are 68608 numbers: 2·4096 before the norms and as many
// behind them, 2·5120 of attention (q and its result, k and v), 5120 of q and k before their norms, 3·12288
// of the MLP. Left out are what the norms give, q and k behind RoPE, and silu(gate)·up.
TEST(MemoryPlan, SelectiveRecomputationLeavesOutWhatNormsAndActivationsGive) {
  LanguageConfig c = tiny("qwen3");
  c.vocab_size = 151936;
  c.hidden_size = 4096;
  c.intermediate_size = 12288;
  c.num_hidden_layers = 36;
  c.num_attention_heads = 32;
  c.num_key_value_heads = 8;
  c.head_dim = 128;
  const auto planned = [&](Recompute recompute) {
    return plan_memory(settings(recompute, DType::bf16), c).activations;
  };
  EXPECT_EQ(planned(Recompute::none) - planned(Recompute::selective),
            std::size_t{kBatch * kSequence * 36 * 2} * (2 * 4096 + 5120 + 12288));
}

}  // namespace
}  // namespace ingot
