#include "ingot/train/language/objective_config.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "ingot/base/config.h"

namespace ingot {
namespace {

constexpr std::array kObjectives{
    std::pair{ObjectiveKind::supervised, "sft"}, std::pair{ObjectiveKind::dpo, "dpo"},
    std::pair{ObjectiveKind::ipo, "ipo"},        std::pair{ObjectiveKind::orpo, "orpo"},
    std::pair{ObjectiveKind::simpo, "simpo"},    std::pair{ObjectiveKind::kto, "kto"},
    std::pair{ObjectiveKind::grpo, "grpo"},
};

ObjectiveKind read_kind(const ConfigReader& root) {
  std::vector<std::string> names;
  names.reserve(kObjectives.size() + 1);
  for (const auto& [kind, word] : kObjectives) names.emplace_back(word);
  names.emplace_back("gdpo");
  const std::string wanted = root.choice("rl", "sft", names);
  if (wanted == "gdpo") return ObjectiveKind::grpo;  // which sums rewards in another way
  return std::ranges::find(kObjectives, wanted, [](const auto& row) { return std::string(row.second); })
      ->first;
}

// A key of some objectives. Others refuse it, as they would not heed it.
class KeyOf {
 public:
  KeyOf(const ConfigReader& root, ObjectiveKind kind) : root_(root), kind_(kind) {}

  void operator()(const char* key, std::initializer_list<ObjectiveKind> kinds, double& value,
                  Bounds bounds) const {
    if (heeds(key, kinds)) value = root_.get(key, value, bounds);
  }
  bool heeds(const char* key, std::initializer_list<ObjectiveKind> kinds) const {
    if (std::ranges::find(kinds, kind_) != kinds.end()) return true;
    if (root_.has(key))
      root_.fail(key, kind_ == ObjectiveKind::supervised
                          ? fmt::format("needs rl, as in rl: {}", name(*kinds.begin()))
                          : fmt::format("is not a key of rl: {}; leave it out", name(kind_)));
    static_cast<void>(root_.skip(key));  // null counts as read
    return false;
  }

 private:
  const ConfigReader& root_;
  ObjectiveKind kind_;
};

// axolotl takes a list, of one here.
DpoLoss read_dpo_loss(const ConfigReader& root, ObjectiveConfig& objective) {
  const auto losses = root.get("dpo_loss_type", std::vector<std::string>{"sigmoid"});
  if (losses.size() != 1) root.fail("dpo_loss_type", "must be one loss: sums of losses are not available");
  const std::string& loss = losses.front();
  if (loss == "sigmoid") return DpoLoss::sigmoid;
  if (loss == "hinge") return DpoLoss::hinge;
  if (loss == "robust") return DpoLoss::robust;
  if (loss == "ipo")
    objective.kind = ObjectiveKind::ipo;
  else
    root.fail("dpo_loss_type", fmt::format("must be one of sigmoid, hinge, robust, ipo, got '{}'", loss));
  return DpoLoss::sigmoid;
}

}  // namespace

std::string_view name(ObjectiveKind kind) {
  return std::ranges::find(kObjectives, kind, [](const auto& row) { return row.first; })->second;
}

std::optional<data::PreferenceKind> ObjectiveConfig::preferences() const {
  if (kind == ObjectiveKind::supervised || kind == ObjectiveKind::grpo) return std::nullopt;
  return kind == ObjectiveKind::kto ? data::PreferenceKind::verdict : data::PreferenceKind::pair;
}

bool ObjectiveConfig::has_reference() const {
  return kind == ObjectiveKind::dpo || kind == ObjectiveKind::ipo || kind == ObjectiveKind::kto ||
         (kind == ObjectiveKind::grpo && grpo.beta > 0);
}

ObjectiveConfig read_objective(const ConfigReader& root) {
  ObjectiveConfig objective;
  objective.kind = read_kind(root);
  for (const char* key : {"dpo_beta", "kto_beta", "simpo_beta"}) root.alias(key, "rl_beta");
  root.alias("orpo_beta", "orpo_alpha");
  using enum ObjectiveKind;
  const KeyOf key(root, objective.kind);
  key("rl_beta", {dpo, ipo, simpo, kto}, objective.beta, positive());
  key("orpo_alpha", {orpo}, objective.beta, at_least(0));
  key("dpo_label_smoothing", {dpo, simpo}, objective.label_smoothing,
      Bounds{.min = 0, .max = 0.5, .below_max = true});
  key("simpo_gamma", {simpo}, objective.simpo_gamma, at_least(0));
  key("cpo_alpha", {simpo}, objective.cpo_alpha, at_least(0));
  key("kto_desirable_weight", {kto}, objective.desirable_weight, at_least(0));
  key("kto_undesirable_weight", {kto}, objective.undesirable_weight, at_least(0));
  const bool sums_later = root.get("rl", std::string("sft")) == "gdpo";
  const bool rewarded = key.heeds("trl", {grpo}) & key.heeds("rewards", {grpo});
  if (rewarded) objective.grpo = read_grpo(root, sums_later);
  if (key.heeds("dpo_loss_type", {dpo})) objective.dpo_loss = read_dpo_loss(root, objective);
  return objective;
}

}  // namespace ingot
