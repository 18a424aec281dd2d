#include "ingot/base/env.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstdlib>

#include <fmt/format.h>

#include "ingot/base/error.h"

namespace ingot {

std::optional<EnvSetting> env_setting(std::string_view name) {
  for (const char* prefix : {"INGOT_", "RUST_AI_", "AXOLOTL_", "VSA_OPTIM_"}) {
    std::string variable = prefix + std::string(name);
    const char* value = std::getenv(variable.c_str());
    if (value != nullptr && *value != '\0') return EnvSetting{std::move(variable), value};
  }
  return std::nullopt;
}

std::string first_variable(std::initializer_list<const char*> names) {
  for (const char* name : names) {
    const char* value = std::getenv(name);
    if (value != nullptr && *value != '\0') return value;
  }
  return {};
}

std::optional<bool> parse_bool(std::string_view text) {
  std::string word(text);
  std::transform(word.begin(), word.end(), word.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (word == "1" || word == "true" || word == "yes" || word == "on") return true;
  if (word == "0" || word == "false" || word == "no" || word == "off") return false;
  return std::nullopt;
}

std::optional<bool> env_flag(std::string_view name) {
  const auto setting = env_setting(name);
  if (!setting) return std::nullopt;
  const auto value = parse_bool(setting->value);
  INGOT_CHECK(value, InvalidConfig(setting->variable,
                                   fmt::format("expected 1 or 0 (true, false), got '{}'", setting->value)));
  return value;
}

std::optional<std::int64_t> env_int(std::string_view name, std::int64_t min, std::int64_t max) {
  const auto setting = env_setting(name);
  if (!setting) return std::nullopt;
  const std::string& text = setting->value;
  std::int64_t value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  INGOT_CHECK(failure == std::errc() && end == text.data() + text.size() && value >= min && value <= max,
              InvalidConfig(setting->variable,
                            fmt::format("expected a whole number from {} to {}, got '{}'", min, max, text)));
  return value;
}

std::string cache_directory() {
  // Environment: INGOT_CACHE_DIR | where downloads, prepacked weights and compiled kernels are kept
  // (`$XDG_CACHE_HOME/ingot`, `~/.cache/ingot`)
  if (const auto setting = env_setting("CACHE_DIR")) return setting->value;
  const char* xdg = std::getenv("XDG_CACHE_HOME");
  if (xdg != nullptr && *xdg != '\0') return std::string(xdg) + "/ingot";
  const char* home = std::getenv("HOME");
  return home == nullptr ? "" : std::string(home) + "/.cache/ingot";
}

}  // namespace ingot
