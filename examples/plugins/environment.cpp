// An environment for reinforcement learning: Nim. Players take 1 to 3 of the sticks in turn; who takes the
// last one wins. make_environment("nim", games, seed) makes it, in C++ and through the C API.
#include "ingot/rl/environment.h"

#include "ingot/plugin/plugin.h"

namespace {

constexpr int kMostSticks = 21;

struct Nim {
  int sticks = 0, to_move = 0;

  static ingot::EnvironmentSpec spec() { return {.players = 2, .actions = 3, .observation = {1}}; }
  void begin(ingot::Rng& random) {
    sticks = 4 + static_cast<int>(random.below(kMostSticks - 3));
    to_move = 0;
  }
  int player() const { return to_move; }
  void observe(std::span<float> out) const { out[0] = static_cast<float>(sticks) / kMostSticks; }
  void legal(std::span<float> out) const {
    for (int taken = 1; taken <= 3; ++taken)
      out[static_cast<std::size_t>(taken - 1)] = taken <= sticks ? 1.0F : 0.0F;
  }
  bool act(std::int32_t action, std::span<float> rewards) {
    sticks -= action + 1;
    if (sticks == 0) {
      rewards[static_cast<std::size_t>(to_move)] = 1;
      rewards[static_cast<std::size_t>(1 - to_move)] = -1;
    }
    to_move = 1 - to_move;
    return sticks == 0;
  }
};

}  // namespace

INGOT_PLUGIN(registrar) {
  registrar.add_environment("nim", [](std::size_t games, std::uint64_t seed) {
    return std::make_unique<ingot::GameBatch<Nim>>(games, seed);
  });
}
