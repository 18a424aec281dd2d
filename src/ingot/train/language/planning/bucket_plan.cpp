#include "ingot/train/language/planning/bucket_plan.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ingot/dist/communicator.h"
#include "ingot/models/architecture_check.h"
#include "ingot/models/language/decoder.h"

namespace ingot {
namespace {

constexpr std::size_t kWaiting = 2;  // as DataParallel has them

std::int64_t layer_of(std::string_view name) {
  constexpr std::string_view kLayers = "model.layers.";
  std::int64_t layer = -1;
  if (name.starts_with(kLayers))
    std::from_chars(name.data() + kLayers.size(), name.data() + name.size(), layer);
  return layer;
}

// Matrices of one input lie one behind the other, and stay so.
bool joins(std::string_view before, std::string_view name) {
  const auto is = [](std::string_view text, std::string_view module) {
    return text.find(module) != std::string_view::npos;
  };
  return (is(before, ".q_proj.") && is(name, ".k_proj.")) ||
         (is(before, ".k_proj.") && is(name, ".v_proj.")) ||
         (is(before, ".mlp.gate_proj.") && is(name, ".mlp.up_proj."));
}

// Bytes of the buckets, in the order in which a backward pass fills them.
std::vector<std::size_t> buckets_of(const TrainConfig& config, const LanguageConfig& c) {
  ShapeRecorder recorder;
  const LanguageModel model(c, recorder);
  const std::vector<ParameterShape>& parameters = recorder.parameters();
  const std::size_t size = byte_size(config.dtype);
  std::vector<std::size_t> buckets;
  std::int64_t layer = 0;
  const ParameterShape* last = nullptr;
  for (std::size_t i = parameters.size(); i-- > 0;) {
    const ParameterShape& parameter = parameters[i];
    if (config.shares_experts() && parameter.name.find(".experts.") != std::string::npos) continue;
    const bool apart = config.zero_stage == 3;
    const std::int64_t of = apart && parameter.shape.rank() > 1 ? layer_of(parameter.name) : -1;
    const auto opens = [&] {
      if (last == nullptr || of != layer) return true;
      return buckets.back() >= config.bucket_bytes() && !(apart && joins(parameter.name, last->name));
    };
    if (opens()) buckets.push_back(0);
    buckets.back() += static_cast<std::size_t>(parameter.shape.numel()) * size;
    layer = of;
    last = &parameter;
  }
  return buckets;
}

}  // namespace

BucketPlan plan_buckets(const TrainConfig& config, const LanguageConfig& model, std::size_t own) {
  std::vector<std::size_t> buckets{std::min(own, config.bucket_bytes())};  // adapters are small
  if (!config.adapter.enabled) buckets = buckets_of(config, model);
  BucketPlan plan;
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    const std::size_t received = std::min(buckets[i], dist::kMessageBytes);
    plan.received = std::max(plan.received, received);
    // The first of those that are on their way is received, the last is made.
    std::size_t passing = received;
    const std::size_t last = std::min(i + kWaiting + 1, buckets.size() - 1);
    for (std::size_t k = i; k <= last; ++k) passing += k == last ? 2 * buckets[k] : buckets[k];
    plan.passing = std::max(plan.passing, passing);
  }
  return plan;
}

}  // namespace ingot
