#pragma once

#include <array>
#include <cmath>

#include "ingot/rl/environment.h"

namespace ingot::test {

/// Barto, Sutton and Anderson 1983, with Gymnasium's constants: 1 for each step, at most 500.
struct CartPole {
  std::array<double, 4> state;  // position, speed, angle, angular speed
  int steps;

  static EnvironmentSpec spec() { return {.players = 1, .actions = 2, .observation = {4}}; }
  void begin(Rng& random) {
    for (double& x : state) x = random.uniform_double() * 0.1 - 0.05;
    steps = 0;
  }
  int player() const { return 0; }
  void observe(std::span<float> out) const { std::ranges::copy(state, out.begin()); }
  void legal(std::span<float> out) const { std::ranges::fill(out, 1.0F); }
  bool act(std::int32_t action, std::span<float> rewards) {
    auto& [x, speed, angle, turn] = state;
    const double force = action == 1 ? 10 : -10, cosine = std::cos(angle), sine = std::sin(angle);
    const double push = (force + 0.05 * turn * turn * sine) / 1.1;
    const double turning = (9.8 * sine - cosine * push) / (0.5 * (4.0 / 3.0 - 0.1 * cosine * cosine / 1.1));
    const double moving = push - 0.05 * turning * cosine / 1.1;
    x += 0.02 * speed;
    speed += 0.02 * moving;
    angle += 0.02 * turn;
    turn += 0.02 * turning;
    rewards[0] = 1;
    return std::abs(x) > 2.4 || std::abs(angle) > 12 * 2 * 3.14159265358979 / 360 || ++steps >= 500;
  }
};

}  // namespace ingot::test
