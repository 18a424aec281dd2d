#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ingot/rl/environment.h"

namespace ingot {

using EnvironmentMaker = std::function<std::unique_ptr<Environment>(std::size_t games, std::uint64_t seed)>;
/// Makes `name` known. InvalidConfig where it is taken.
void register_environment(const std::string& name, EnvironmentMaker make);
/// What make_environment() knows: "connect_four", "mahjong", and what plugins registered.
std::vector<std::string> environment_names();

/// Games of one kind by its name (GameBatch), whose chance comes from `seed`. InvalidConfig for an unknown
/// name, which lists them, and for less than one game.
std::unique_ptr<Environment> make_environment(std::string_view name, std::size_t games, std::uint64_t seed);

}  // namespace ingot
