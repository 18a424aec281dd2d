#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "ingot/core/tensor.h"
#include "ingot/rl/environment.h"

namespace ingot {

namespace dist {
class Communicator;
}

/// Of a rank: as many as the other ranks play, or one more. InvalidConfig, naming `key`, where there are
/// fewer games than ranks.
GameShare game_share(std::size_t games, const dist::Communicator& ranks, const std::string& key);

/// Arrays with an element for each game, as bytes, by name.
using GameArrays = std::map<std::string, std::vector<std::byte>>;

/// Splits bytes that hold several arrays, one behind the other, of elements of these sizes: "games.0", ...
void add_game_arrays(GameArrays& arrays, const std::string& name, std::span<const std::byte> bytes,
                     std::span<const std::size_t> sizes);
/// The reverse.
std::vector<std::byte> join_game_arrays(const GameArrays& arrays, const std::string& name, std::size_t count);

/// Those of a share, for a checkpoint that all ranks write together: by names under which they do not meet.
std::map<std::string, Tensor> named_by_share(const GameArrays& arrays, const GameShare& share);
/// Those of all games, out of what named_by_share() gave on every rank.
GameArrays of_all_shares(const std::map<std::string, Tensor>& named);
/// Of the games of a share, out of those of all games. FormatError, naming `place`, where they do not have an
/// element for each game.
GameArrays of_share(const GameArrays& all, const GameShare& share, const std::string& place);

}  // namespace ingot
