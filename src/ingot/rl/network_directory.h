#pragma once

#include <string>
#include <vector>

#include "ingot/mahjong/arena.h"

namespace ingot {

/// Networks of a directory, as players.
struct FoundNetworks {
  struct LeftOut {
    std::string directory, error;
  };
  std::vector<mahjong::Entrant> players;  ///< named by their path below the directory, sorted
  std::vector<LeftOut> left_out;          ///< that cannot play mahjong, with the reason
};

/// Opens every network below `directory`, at any depth: what has a config.json. Links are not followed.
/// `settings` are those behind a player's name: ",temperature=0.5". A network of another game, shape or kind,
/// or one that is damaged, is left out and named. Throws IoError where the directory does not exist.
FoundNetworks networks_under(const std::string& directory, const std::string& settings = "");

}  // namespace ingot
