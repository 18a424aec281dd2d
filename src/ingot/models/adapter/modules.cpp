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

}  // namespace ingot
