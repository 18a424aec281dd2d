#include "ingot/rl/named_environment.h"

#include "ingot/base/error.h"
#include "ingot/rl/mahjong_game.h"

namespace ingot {

std::vector<std::string> environment_names() { return {"mahjong"}; }

std::unique_ptr<Environment> make_environment(std::string_view name, std::size_t games, std::uint64_t seed) {
  INGOT_CHECK(games >= 1, InvalidConfig("games", "has to be at least 1"));
  if (name == "mahjong") return std::make_unique<GameBatch<MahjongGame>>(games, seed);
  std::string known;
  for (const std::string& one : environment_names()) known += (known.empty() ? "" : ", ") + one;
  throw InvalidConfig("name", "'" + std::string(name) + "' is not an environment; there are: " + known);
}

}  // namespace ingot
