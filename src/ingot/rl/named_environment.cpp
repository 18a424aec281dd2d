#include "ingot/rl/named_environment.h"

#include <algorithm>
#include <utility>

#include "ingot/base/error.h"
#include "ingot/rl/connect_four.h"
#include "ingot/rl/mahjong_game.h"

namespace ingot {
namespace {

struct NamedEnvironment {
  std::string name;
  EnvironmentMaker make;
};

template <Game G>
std::unique_ptr<Environment> batch_of(std::size_t games, std::uint64_t seed) {
  return std::make_unique<GameBatch<G>>(games, seed);
}

std::vector<NamedEnvironment>& environments() {
  static std::vector<NamedEnvironment> list{{"connect_four", batch_of<ConnectFour>},
                                            {"mahjong", batch_of<MahjongGame>}};
  return list;
}

}  // namespace

void register_environment(const std::string& name, EnvironmentMaker make) {
  INGOT_CHECK(std::ranges::find(environments(), name, &NamedEnvironment::name) == environments().end(),
              InvalidConfig("environment", "'" + name + "' is there already"));
  environments().push_back({name, std::move(make)});
}

std::vector<std::string> environment_names() {
  std::vector<std::string> names;
  for (const NamedEnvironment& one : environments()) names.push_back(one.name);
  return names;
}

std::unique_ptr<Environment> make_environment(std::string_view name, std::size_t games, std::uint64_t seed) {
  INGOT_CHECK(games >= 1, InvalidConfig("games", "must be at least 1, got " + std::to_string(games)));
  std::string known;
  for (const NamedEnvironment& one : environments()) {
    if (one.name == name) return one.make(games, seed);
    known += (known.empty() ? "" : ", ") + one.name;
  }
  throw InvalidConfig("name", "'" + std::string(name) + "' is not an environment; there are: " + known);
}

}  // namespace ingot
