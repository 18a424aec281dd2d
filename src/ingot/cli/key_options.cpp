#include "ingot/cli/key_options.h"

#include <algorithm>
#include <memory>
#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/base/error.h"
#include "ingot/base/json.h"

namespace ingot::cli {
namespace {

const ConfigKey& key_of(const std::vector<ConfigSection>& reference, const std::string& name) {
  for (const ConfigSection& section : reference)
    for (const ConfigKey& key : section.keys)
      if (key.key == name) return key;
  throw Error("no key is called " + name);
}

// Text stays text whatever YAML would read in it.
std::string value_of(const ConfigKey& key, const std::string& word) {
  const bool bare = key.kind.starts_with("a whole number") || key.kind.starts_with("a number");
  return bare ? word : dump_json(nlohmann::json(word));
}

}  // namespace

std::string help_of(const std::vector<ConfigSection>& reference, const std::string& key) {
  std::string text = key_of(reference, key).doc;
  if (text.ends_with('.') && !text.ends_with("...")) text.pop_back();
  return text;
}

Command& KeyOptions::option(const std::string& name) {
  std::string field = name.substr(name.starts_with("--") ? 2 : 0);
  field.resize(std::min(field.size(), field.find(',')));
  std::ranges::replace(field, '-', '_');
  const ConfigKey key = key_of(reference_, field);
  const auto given = std::make_shared<std::optional<std::string>>();
  command_.option(name, *given, help_of(reference_, field)).shows_default(key.default_value);
  settings_.emplace_back([given, key, name](Config& config) {
    if (given->has_value()) config.set(key.key + "=" + value_of(key, **given), name);
  });
  return command_;
}

Command& KeyOptions::list(const std::string& name, const std::string& key) {
  const auto given = std::make_shared<std::vector<std::string>>();
  command_.option(name, *given, help_of(reference_, key) + "; repeatable");
  settings_.emplace_back([given, key, name](Config& config) {
    if (!given->empty()) config.set(key + "=" + dump_json(nlohmann::json(*given)), name);
  });
  return command_;
}

void KeyOptions::flag(const std::string& name, const std::string& assignment, const std::string& help) {
  const auto given = std::make_shared<bool>(false);
  command_.flag(name, *given, help);
  settings_.emplace_back([given, assignment, name](Config& config) {
    if (*given) config.set(assignment, name);
  });
}

void KeyOptions::apply(Config& config) const {
  for (const auto& set : settings_) set(config);
}

}  // namespace ingot::cli
