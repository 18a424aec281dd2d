#include "ingot/infer/candidate_filters.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace ingot {

double total_weight(const std::vector<WeightedToken>& tokens) {
  return std::accumulate(tokens.begin(), tokens.end(), 0.0,
                         [](double sum, const WeightedToken& token) { return sum + token.weight; });
}

void keep_typical(std::vector<WeightedToken>& tokens, double mass, std::size_t least) {
  const double total = total_weight(tokens);
  std::erase_if(tokens, [](const WeightedToken& token) { return token.weight <= 0; });
  const auto surprise = [total](const WeightedToken& token) { return -std::log(token.weight / total); };
  double entropy = 0;
  for (const WeightedToken& token : tokens) entropy += token.weight / total * surprise(token);
  struct Distance {
    double value, weight;
  };
  std::vector<Distance> distances;
  distances.reserve(tokens.size());
  for (const WeightedToken& token : tokens)
    distances.push_back({std::abs(surprise(token) - entropy), token.weight});
  std::ranges::stable_sort(distances, {}, &Distance::value);
  double reached = 0, furthest = 0;
  std::size_t count = 0;
  for (const Distance& distance : distances) {
    furthest = distance.value;
    reached += distance.weight;
    ++count;
    if (reached >= mass * total && count >= least) break;
  }
  std::erase_if(tokens,
                [&](const WeightedToken& token) { return std::abs(surprise(token) - entropy) > furthest; });
}

void exclude_top_choices(std::vector<WeightedToken>& tokens, double threshold, std::size_t least) {
  const double choice = threshold * total_weight(tokens);
  const auto top =
      std::ranges::find_if(tokens, [choice](const auto& token) { return token.weight < choice; });
  const std::ptrdiff_t excluded = top - tokens.begin() - 1;
  if (excluded > 0 && std::ssize(tokens) - excluded >= static_cast<std::ptrdiff_t>(least))
    tokens.erase(tokens.begin(), top - 1);
}

void Mirostat::keep(std::vector<WeightedToken>& tokens) const {
  const double total = total_weight(tokens);
  const auto end = std::ranges::find_if(
      tokens, [&](const WeightedToken& token) { return -std::log2(token.weight / total) > bound_; });
  tokens.erase(std::max(end, tokens.begin() + 1), tokens.end());
}

void Mirostat::drawn(double probability) { bound_ -= eta_ * (-std::log2(probability) - tau_); }

}  // namespace ingot
