#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace ingot {

/// One decision of a rollout, whose decisions are in order of time, game by game interleaved.
struct RolloutDecision {
  std::int32_t stream = 0;  ///< game · players + player
  float value = 0;          ///< what the critic expected
  float reward = 0;         ///< what came until the same player decided again, or the game ended
  bool last = false;        ///< the game ended before the player decided again
};

struct AdvantageOptions {
  double gamma = 0.99;
  double lambda = 0.95;
};

struct Advantages {
  std::vector<float> advantage;  ///< Σ (γλ)^k δ_k, δ = reward + γ·(next value) − value
  std::vector<float> target;     ///< advantage + value: what the critic should have said
  /// Whether the next decision of the stream, or the end, is known. Where it is not, that decision only
  /// serves its predecessor as the value to go on from, and there is nothing to learn from it.
  std::vector<std::uint8_t> known;
};

/// Generalized advantage estimation (Schulman et al. 2016) along each stream.
Advantages estimate_advantages(std::span<const RolloutDecision> decisions, std::int64_t streams,
                               const AdvantageOptions& options);

}  // namespace ingot
