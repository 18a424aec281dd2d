#include "ingot/models/adapter/modules.h"

#include <algorithm>

namespace ingot {
namespace {

constexpr std::string_view kWeight = ".weight";

std::string without_weight(const std::string& name) {
  return name.ends_with(kWeight) ? name.substr(0, name.size() - kWeight.size()) : name;
}

}  // namespace

std::vector<AdaptedWeight> adapted_weights(AdaptedModel model) {
  const auto is_outside = [&model](const std::string& name) {
    return std::ranges::any_of(model.map.outside,
                               [&name](const std::string& glob) { return glob_match(glob, name); });
  };
  std::vector<AdaptedWeight> weights;
  for (const auto& [name, weight] : named_weights(model.module)) {
    const WeightRule rule = model.map.rule_for(name);
    const std::string ours = without_weight(name);
    weights.push_back({.weight = weight,
                       .ours = ours,
                       .module = without_weight(rule.theirs),
                       .first = rule.first,
                       .rows = rule.rows,
                       .groups = rule.groups,
                       .is_head = weight->dense.embedding || is_outside(rule.theirs)});
  }
  return weights;
}

std::vector<AdaptedExperts> adapted_experts(AdaptedModel model) {
  std::vector<AdaptedExperts> all;
  for (const auto& [name, experts] : named_experts(model.module))
    all.push_back({.experts = experts, .ours = name, .rule = model.map.rule_for(name)});
  for (AdaptedExperts& at : all)
    at.is_gated = std::ranges::any_of(
        all, [&](const AdaptedExperts& other) { return other.ours == at.our_container() + ".gate_proj"; });
  return all;
}

std::string AdaptedExperts::module(std::int64_t expert) const {
  const std::string name = without_weight(rule.theirs);
  const std::size_t mark = name.find('#');
  return name.substr(0, mark) + std::to_string(expert) + name.substr(mark + 1);
}

// Checkpoints of Granite have a module for each parameter, "block_sparse_moe.input_linear.weight".
std::string AdaptedExperts::container() const {
  constexpr std::string_view kExperts = ".experts";
  const std::size_t at = rule.theirs.find(std::string(kExperts) + ".");
  if (at != std::string::npos) return rule.theirs.substr(0, at + kExperts.size());
  const std::string module = without_weight(rule.theirs);
  return module.substr(0, module.rfind('.')) + std::string(kExperts);
}

std::string AdaptedExperts::our_container() const { return ours.substr(0, ours.rfind('.')); }

std::string AdaptedExperts::parameter() const {
  return ours.ends_with(".down_proj") ? "down_proj" : "gate_up_proj";
}

bool targets(const LoraConfig& config, const AdaptedExperts& at) {
  for (const std::string& container : {at.container(), at.our_container()})
    if (config.targets_parameter(container + "." + at.parameter())) return true;
  const bool by_name = config.targets_all_linear() || at.is_modules();
  return by_name && !config.excludes(at.container()) && config.targets(at.pattern_name(), false);
}

std::int64_t rank_of(const LoraConfig& config, const AdaptedExperts& at) {
  return config.rank_of(at.pattern_name());
}

float scale_of(const LoraConfig& config, const AdaptedExperts& at, std::int64_t rank) {
  return config.scale_of(at.pattern_name(), rank);
}

}  // namespace ingot
