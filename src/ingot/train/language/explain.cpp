#include "ingot/train/language/explain.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "ingot/base/error.h"
#include "ingot/base/suggest.h"
#include "ingot/train/language/config.h"
#include "ingot/train/language/other_keys.h"
#include "ingot/train/language/train_keys.h"

namespace ingot {
namespace {

// Our names of keys, by all names that rows have.
std::map<std::string, std::string> names_of_keys() {
  std::map<std::string, std::string> names;
  for (const ConfigSection& section : train_reference()) {
    for (const ConfigKey& key : section.keys) {
      const std::string own = key.key.substr(0, key.key.find('.'));
      names.try_emplace(own, own);
      if (own != key.key) continue;
      for (const std::string& alias : key.aliases) names.try_emplace(alias, own);
    }
  }
  return names;
}

// What axolotl does where a key is missing. Keys that say the same in other words count as it.
struct Axolotl {
  std::string_view key, value;
  std::vector<std::string_view> instead;
};
const std::vector<Axolotl>& axolotl_defaults() {
  static const std::vector<Axolotl> all{
      {"per_device_train_batch_size", "1", {}},
      {"torch_dtype", "bf16 where the GPU has it", {"bf16", "bfloat16", "fp16", "float16"}},
      {"weight_decay", "0", {}},
      {"warmup_steps", "3 % of the steps, at most 100", {"warmup_ratio"}},
      {"sample_packing", "false", {}},
      {"validation_split_ratio", "0", {"validation_datasets", "test_datasets"}},
      {"eval_steps", "once an epoch", {"evals_per_epoch", "eval_strategy", "evaluation_strategy"}},
      {"save_steps", "once an epoch", {"saves_per_epoch", "save_strategy"}},
      {"save_total_limit", "4", {}},
      {"logging_steps", "0.5 % of the steps, at most 10", {}},
      {"train_seed", "42", {}},
  };
  return all;
}

using Key = ConfigExplanation::Key;

class Explainer {
 public:
  ConfigExplanation explain(const std::function<Config()>& load) {
    const std::vector<Key> keys = given_keys(load().root());
    try {
      Config read = load();
      static_cast<void>(read_train_config(read));
    } catch (const InvalidConfig& error) {
      result_.problem = error.what();
    }
    for (const Key& key : keys) add(key);
    add_defaults();
    return std::move(result_);
  }

 private:
  std::vector<Key> given_keys(const ConfigReader& root) {
    std::vector<Key> keys;
    for (const std::string& key : root.keys()) {
      if (!root.has(key)) continue;  // null asks for nothing
      keys.push_back({.key = key, .value = root.skip(key), .means = {}});
      given_.insert(key);
      given_.insert(name_of(key));
    }
    return keys;
  }

  std::string name_of(const std::string& key) const {
    const auto found = names_.find(key);
    return found == names_.end() ? key : found->second;
  }

  void add(Key key) {
    if (names_.contains(key.key)) {
      if (const std::string own = name_of(key.key); own != key.key) key.means = own;
      return result_.understood.push_back(std::move(key));
    }
    const OtherKey other = find_other_key(key.key, key.value);
    key.means = other.advice;
    list_of(other.fate, key).push_back(std::move(key));
  }

  std::vector<Key>& list_of(OtherKey::Fate fate, Key& key) {
    switch (fate) {
      case OtherKey::Fate::translated:
        return result_.understood;
      case OtherKey::Fate::without_effect:
        return result_.without_effect;
      case OtherKey::Fate::missing:
        return result_.missing;
      case OtherKey::Fate::refused:
        return result_.refused;
      case OtherKey::Fate::none:
        break;
    }
    // What no table tells of is known where a run reads it without complaint.
    if (result_.problem.empty()) return result_.understood;
    key.means = suggestion(key.key);
    return result_.unknown;
  }

  std::string suggestion(const std::string& key) const {
    std::vector<std::string> all;
    all.reserve(names_.size());
    for (const auto& [name, own] : names_) all.push_back(name);
    return nearest(key, all);
  }

  void add_defaults() {
    std::map<std::string, std::string> ours;
    for (const ConfigSection& section : train_reference())
      for (const ConfigKey& key : section.keys) ours.try_emplace(key.key, key.default_value);
    for (const Axolotl& theirs : axolotl_defaults()) {
      const std::string key(theirs.key);
      const bool said =
          given_.contains(key) || std::ranges::any_of(theirs.instead, [&](std::string_view other) {
            return given_.contains(std::string(other));
          });
      if (!said) result_.defaults.push_back({key, ours.at(key), std::string(theirs.value)});
    }
  }

  std::map<std::string, std::string> names_ = names_of_keys();
  std::set<std::string> given_;  // under the file's names and ours
  ConfigExplanation result_;
};

}  // namespace

ConfigExplanation explain_train_config(const std::function<Config()>& load) {
  return Explainer().explain(load);
}

}  // namespace ingot
