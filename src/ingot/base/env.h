#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

namespace ingot {

/// A setting found in the environment, and the variable that it was found in.
struct EnvSetting {
  std::string variable;
  std::string value;
};

/// Looks for a setting under each prefix that people may already use: INGOT_<name>, RUST_AI_<name>,
/// AXOLOTL_<name>, VSA_OPTIM_<name>. The first that is set, and not empty, wins; each setting is looked up on
/// its own, so that two settings may come from different prefixes.
std::optional<EnvSetting> env_setting(std::string_view name);

/// The same as a flag: 1, true, yes, on or 0, false, no, off, in any case. Anything else is InvalidConfig,
/// which names the variable.
std::optional<bool> env_flag(std::string_view name);

/// The same as a whole number in [min, max]; anything else is InvalidConfig.
std::optional<std::int64_t> env_int(std::string_view name, std::int64_t min, std::int64_t max);

/// The value of the first of these variables that is set and not empty; else empty.
std::string first_variable(std::initializer_list<const char*> names);

/// Where files are kept that can be made again: INGOT_CACHE_DIR, else ingot/ below XDG_CACHE_HOME or
/// ~/.cache; empty where nothing tells.
std::string cache_directory();

/// Reads "true" and its kin; nothing where the text is not a truth value.
std::optional<bool> parse_bool(std::string_view text);

}  // namespace ingot
