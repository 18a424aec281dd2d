#include "ingot/cli/config_keys.h"

#include <algorithm>
#include <cctype>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "ingot/base/error.h"
#include "ingot/base/json.h"
#include "ingot/base/printable.h"
#include "ingot/base/suggest.h"

namespace ingot::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

bool tells_of(const ConfigKey& key, const std::string& word) {
  const auto has = [&](const std::string& text) { return lower(text).find(word) != std::string::npos; };
  return has(key.key) || std::ranges::any_of(key.aliases, has) || has(key.doc);
}

std::vector<ConfigSection> matching(std::vector<ConfigSection> sections, const std::string& word) {
  std::vector<std::string> names;
  for (ConfigSection& section : sections) {
    for (const ConfigKey& key : section.keys) names.push_back(key.key);
    std::erase_if(section.keys, [&](const ConfigKey& key) { return !tells_of(key, lower(word)); });
  }
  std::erase_if(sections, [](const ConfigSection& section) { return section.keys.empty(); });
  INGOT_CHECK(!sections.empty(), InvalidConfig("--keys", fmt::format("no key has '{}' in its name or text{}",
                                                                     word, did_you_mean(word, names))));
  return sections;
}

void print_key(const ConfigKey& key) {
  fmt::print("  {}", key.key);
  if (!key.aliases.empty()) fmt::print(" (also {})", fmt::join(key.aliases, ", "));
  fmt::print(": {}{}{}\n", key.kind, key.unit.empty() ? "" : ", in " + key.unit,
             key.default_value.empty() ? "" : "; default " + key.default_value);
  fmt::print("      {}\n", key.doc);
}

Json to_json(const ConfigKey& key) {
  Json json{{"key", key.key}, {"kind", key.kind}, {"default", key.default_value}, {"doc", key.doc}};
  if (!key.aliases.empty()) json["aliases"] = key.aliases;
  if (!key.unit.empty()) json["unit"] = key.unit;
  return json;
}

}  // namespace

int print_config_keys(const std::vector<ConfigSection>& sections, const std::string& word, bool json) {
  const std::vector<ConfigSection> shown = matching(sections, word);
  if (json) {
    Json all = Json::array();
    for (const ConfigSection& section : shown) {
      Json keys = Json::array();
      for (const ConfigKey& key : section.keys) keys.push_back(to_json(key));
      all.push_back({{"section", section.heading}, {"keys", keys}});
    }
    fmt::print("{}\n", printable_json(dump_json(all, 2)));
    return 0;
  }
  for (const ConfigSection& section : shown) {
    fmt::print("{}{}\n", &section == shown.data() ? "" : "\n", section.heading);
    for (const ConfigKey& key : section.keys) print_key(key);
  }
  return 0;
}

}  // namespace ingot::cli
