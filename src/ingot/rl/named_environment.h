#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ingot/rl/environment.h"

namespace ingot {

/// What make_environment() knows: "mahjong".
std::vector<std::string> environment_names();

/// Games of one kind by its name (GameBatch), whose chance comes from `seed`. InvalidConfig for an unknown
/// name, which lists them, and for less than one game.
std::unique_ptr<Environment> make_environment(std::string_view name, std::size_t games, std::uint64_t seed);

}  // namespace ingot
