#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "ingot/base/units.h"
#include "ingot/models/language/family.h"
#include "ingot/train/language/planning/memory_limit.h"

// The context lengths that Unsloth publishes for QLoRA of an 8B model.
namespace ingot {
namespace {

LanguageConfig llama_8b() {
  LanguageConfig c;
  c.model_type = "llama";
  c.vocab_size = 128256;
  c.hidden_size = 4096;
  c.intermediate_size = 14336;
  c.num_hidden_layers = 32;
  c.num_attention_heads = 32;
  c.num_key_value_heads = 8;
  c.head_dim = 128;
  c.max_position_embeddings = 1 << 18;
  c.tie_word_embeddings = false;
  apply_family(c);
  c.validate();
  return c;
}

// Rank 32 on all linear layers, one sequence at a time, AdamW in 8 bits, whose state stays on the GPU.
TrainConfig qlora(std::int64_t tokens) {
  TrainConfig c;
  c.device = "cpu";
  c.dtype = DType::bf16;
  c.adapter.enabled = true;
  c.adapter.base_format = "nf4";
  c.adapter.lora = {.r = 32, .lora_alpha = 32, .target_modules = {"all-linear"}};
  c.optimizer.name = "adamw_8bit";
  c.per_device_train_batch_size = 1;
  c.sequence_len = tokens;
  c.recompute = Recompute::full;
  c.memory_limit = {.limit = "auto", .keeps_recompute = true, .keeps_offload = true};
  return c;
}

struct Row {
  std::size_t gigabytes;
  std::int64_t tokens;
};
constexpr Row kPublished[] = {{8, 3'000}, {12, 22'000}, {16, 41'000}, {24, 79'000}, {40, 154'000}};

// The first that fits, which is told; empty: none.
std::string reaches(const Row& row, const TrainConfig& config) {
  const std::size_t limit = row.gigabytes * 1'000'000'000;
  for (const MemoryChoice& choice : memory_choices(config, llama_8b(), limit, {.gpu_bytes = limit})) {
    if (!choice.fits) continue;
    const MemoryPlan& plan = choice.plan;
    std::printf("%2zu GB %6lld tokens: %s, mlp_chunk: %lld takes %s, and %s elsewhere\n", row.gigabytes,
                static_cast<long long>(config.sequence_len), choice.text().c_str(),
                static_cast<long long>(config.mlp_chunk), human_bytes(plan.needed()).c_str(),
                human_bytes(plan.offloaded_weights + plan.offloaded_activations).c_str());
    return choice.text();
  }
  return {};
}

TEST(LongContext, ThePlanReachesThePublishedLengths) {
  for (const Row& row : kPublished) {
    TrainConfig config = qlora(row.tokens);
    EXPECT_NE(reaches(row, config), "") << row.gigabytes;
    config.mlp_chunk = 4096;
    EXPECT_NE(reaches(row, config), "") << row.gigabytes;
  }
}

}  // namespace
}  // namespace ingot
