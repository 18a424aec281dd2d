#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

// What of a step's candidate tokens is left to draw from, where that is not simply the most probable ones.
namespace ingot {

/// A token and its probability, up to a common factor.
struct WeightedToken {
  std::int32_t id;
  double weight;
};

double total_weight(const std::vector<WeightedToken>& tokens);

/// Keeps the tokens whose surprise is nearest to what is expected (the entropy), until their probabilities
/// reach `mass` (locally typical sampling, Meister et al. 2022), and those as near as the last of them;
/// `least` tokens at least.
void keep_typical(std::vector<WeightedToken>& tokens, double mass, std::size_t least = 0);

/// "Exclude top choices": of the tokens with a probability of `threshold` or more only the least likely
/// stays; all do where fewer than `least` tokens would. `tokens` stand most probable first.
void exclude_top_choices(std::vector<WeightedToken>& tokens, double threshold, std::size_t least = 0);

/// Mirostat 2 (Basu et al. 2021): keeps what is no more surprising than a bound that moves, so that the
/// surprise of what is drawn comes to `tau` bits.
class Mirostat {
 public:
  Mirostat(double tau, double eta) : tau_(tau), eta_(eta), bound_(2 * tau) {}
  /// Keeps at least one of `tokens`, which stand most probable first.
  void keep(std::vector<WeightedToken>& tokens) const;
  /// A token of this probability, among those kept, was drawn.
  void drawn(double probability);
  double bound() const { return bound_; }

 private:
  double tau_, eta_, bound_;
};

}  // namespace ingot
