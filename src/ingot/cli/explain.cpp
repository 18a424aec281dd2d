#include "ingot/cli/explain.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/base/json.h"
#include "ingot/base/printable.h"
#include "ingot/base/shell.h"
#include "ingot/train/language/explain.h"

namespace ingot::cli {
namespace {

using Json = nlohmann::ordered_json;
using Keys = std::vector<ConfigExplanation::Key>;

Json as_json(const Keys& keys, const char* means) {
  Json list = Json::array();
  for (const auto& key : keys) {
    list.push_back({{"key", key.key}, {"value", key.value}});
    if (!key.means.empty()) list.back()[means] = key.means;
  }
  return list;
}

void print_json(const ConfigExplanation& e) {
  Json defaults = Json::array();
  for (const auto& other : e.defaults)
    defaults.push_back({{"key", other.key}, {"here", other.here}, {"axolotl", other.axolotl}});
  Json json{
      {"understood", as_json(e.understood, "means")},  {"without_effect", as_json(e.without_effect, "means")},
      {"missing", as_json(e.missing, "advice")},       {"refused", as_json(e.refused, "advice")},
      {"unknown", as_json(e.unknown, "did_you_mean")}, {"defaults", defaults}};
  if (!e.problem.empty()) json["problem"] = e.problem;
  fmt::print("{}\n", printable_json(dump_json(json, 2)));
}

// One key to a line, what it means in a column of its own.
void print_keys(const char* heading, const Keys& keys, const char* before) {
  if (keys.empty()) return;
  std::size_t width = 0;
  for (const auto& key : keys) width = std::max(width, key.key.size() + key.value.size() + 2);
  fmt::print("{}\n", heading);
  for (const auto& key : keys) {
    const std::string given = printable(fmt::format("{}: {}", key.key, key.value));
    const std::string means = key.means.empty() ? "" : fmt::format("{}{}", before, key.means);
    fmt::print("  {:<{}}{}\n", given, means.empty() ? 0 : std::min<std::size_t>(width, 48) + 2, means);
  }
  fmt::print("\n");
}

void print_defaults(const ConfigExplanation& e) {
  if (e.defaults.empty()) return;
  fmt::print("Not given, and other than in axolotl\n  {:<30}{:<16}{}\n", "key", "here", "axolotl");
  for (const auto& other : e.defaults) fmt::print("  {:<30}{:<16}{}\n", other.key, other.here, other.axolotl);
  fmt::print("\n");
}

}  // namespace

int explain_config(const std::string& path, const std::vector<std::string>& set, bool json) {
  const ConfigExplanation e = explain_train_config([&] {
    Config config = Config::load(path);
    for (const std::string& assignment : set) config.set(assignment);
    return config;
  });
  const int exit_code = e.problem.empty() ? 0 : 1;
  if (json) return print_json(e), exit_code;
  print_keys("Understood", e.understood, "is ");
  print_keys("Without effect on the result", e.without_effect, "");
  print_keys("Not available; the run does without", e.missing, "");
  print_keys("Refused, as it would change what is learned", e.refused, "");
  print_keys("Unknown", e.unknown, "did you mean ");
  print_defaults(e);
  if (e.problem.empty())
    fmt::print("This configuration can be trained: ingot train {}\n", shell_word(path));
  else
    fmt::print("It would be refused: {}\n", printable(e.problem));
  return exit_code;
}

}  // namespace ingot::cli
