#include "ingot/train/memory_plan.h"

#include <algorithm>

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/base/units.h"
#include "ingot/core/memory.h"
#include "ingot/ops/loss.h"

namespace ingot {
namespace {

// Floats that one layer saves per token: the inputs of both norms, what they give (the inputs of the
// projections), q, k, v and the mixed values of attention, and of the MLP what the products and the
// activation need.
std::int64_t saved_per_token(const LanguageConfig& c) {
  const std::int64_t query = c.num_attention_heads * c.head_dim,
                     key_value = c.num_key_value_heads * c.head_dim;
  std::int64_t floats = 4 * c.hidden_size + 2 * query + 2 * key_value;
  floats += (c.mlp == MlpKind::gelu ? 2 : 3) * c.intermediate_size;
  if (c.qk_norm) floats += query + key_value;  // what the head norms read
  return floats;
}

}  // namespace

std::vector<std::pair<std::string, std::size_t>> MemoryPlan::parts() const {
  std::vector<std::pair<std::string, std::size_t>> list{
      {"parameters", parameters},   {"gradients", gradients},  {"optimizer", optimizer}, {"ema", ema},
      {"activations", activations}, {"transients", transients}};
  std::ranges::sort(list, [](const auto& a, const auto& b) { return a.second > b.second; });
  std::erase_if(list, [](const auto& part) { return part.second == 0; });
  return list;
}

namespace {

MemoryPlan plan_with(const TrainConfig& config, const LanguageConfig& model, std::int64_t logits) {
  const auto count = static_cast<std::size_t>(model.parameter_count());
  const std::size_t size = byte_size(config.dtype);
  const auto tokens = static_cast<std::size_t>(config.per_device_train_batch_size * config.sequence_len);
  const auto hidden = static_cast<std::size_t>(model.hidden_size);
  const auto layers = static_cast<std::size_t>(model.num_hidden_layers);
  const auto per_layer = static_cast<std::size_t>(saved_per_token(model));
  MemoryPlan plan;
  plan.parameters = count * size;
  plan.gradients = count * size;
  const std::size_t moments = config.optimizer.name == "sgd" ? (config.optimizer.momentum > 0 ? 1 : 0) : 2;
  plan.optimizer =
      count * 4 * (moments + (is_half_precision(config.dtype) ? 1 : 0));  // master weights for halves
  plan.ema = config.ema_decay > 0 ? count * 4 : 0;
  const std::size_t kept = config.recompute ? layers * hidden + per_layer : layers * per_layer;
  plan.activations =
      tokens * (kept + 3 * hidden) * size;  // and the embeddings, the last norm, the loss's gradient
  const auto widest = static_cast<std::size_t>(std::max(model.intermediate_size, model.hidden_size));
  const auto chunk_tokens = static_cast<std::size_t>(
      linear_cross_entropy_chunk(static_cast<std::int64_t>(tokens), model.vocab_size, config.dtype, logits));
  const std::size_t chunk = std::min(tokens, chunk_tokens) * static_cast<std::size_t>(model.vocab_size);
  // The fused loss makes the head's gradient in the forward pass; tied or not, one [vocab, hidden] matrix
  // more.
  const std::size_t head = static_cast<std::size_t>(model.vocab_size) * hidden;
  plan.transients = std::max(tokens * (3 * widest + 2 * hidden), chunk + head) * size;
  return plan;
}

}  // namespace

std::size_t MemoryPlan::needed() const {
  const std::size_t moving = on_card ? activations + transients : total();
  return total() + moving / 10;
}

MemoryPlan plan_memory(const TrainConfig& config, const LanguageConfig& model) {
  const Device device = config.training_device();
  MemoryPlan plan = plan_with(config, model, logits_budget(device));
  plan.on_card = !device.is_cpu();
  return plan;
}

MemoryPlan plan_memory_of_card(const TrainConfig& config, const LanguageConfig& model, std::size_t memory) {
  MemoryPlan plan = plan_with(config, model, logits_budget_of_card(memory));
  plan.on_card = true;
  return plan;
}

void check_memory(const MemoryPlan& plan, const TrainConfig& config, std::size_t available) {
  const std::size_t needed = plan.needed();
  if (needed <= available) return;
  std::string parts;
  for (const auto& [what, bytes] : plan.parts()) {
    parts += fmt::format("{}{} {}", parts.empty() ? "" : ", ", human_bytes(bytes), what);
  }
  std::string advice = "a smaller model or sequence_len";
  if (plan.activations + plan.transients > needed / 3) {
    advice = config.recompute ? "a smaller per_device_train_batch_size with more gradient_accumulation_steps"
                              : "recompute: true, or a smaller per_device_train_batch_size with more "
                                "gradient_accumulation_steps";
  }
  throw OutOfMemory(fmt::format("this run needs about {} ({}) and {} are free; to make it fit: {}",
                                human_bytes(needed), parts, human_bytes(available), advice),
                    needed, 0, available);
}

}  // namespace ingot
