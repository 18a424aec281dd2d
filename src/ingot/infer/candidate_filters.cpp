#include "ingot/infer/candidate_filters.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace ingot {

double total_weight(const std::vector<WeightedToken>& tokens) {
  return std::accumulate(tokens.begin(), tokens.end(), 0.0,
                         [](double sum, const WeightedToken& token) { return sum + token.weight; });
}

void keep_typical(std::vector<WeightedToken>& tokens, double mass) {
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
  for (const Distance& distance : distances) {
    furthest = distance.value;
    reached += distance.weight;
    if (reached >= mass * total) break;
  }
  std::erase_if(tokens,
                [&](const WeightedToken& token) { return std::abs(surprise(token) - entropy) > furthest; });
}

void exclude_top_choices(std::vector<WeightedToken>& tokens, double threshold) {
  const double least = threshold * total_weight(tokens);
  const auto top = std::ranges::find_if(tokens, [least](const auto& token) { return token.weight < least; });
  if (top - tokens.begin() > 1) tokens.erase(tokens.begin(), top - 1);
}

void Mirostat::keep(std::vector<WeightedToken>& tokens) const {
  const double total = total_weight(tokens);
  const auto end = std::ranges::find_if(
      tokens, [&](const WeightedToken& token) { return -std::log2(token.weight / total) > bound_; });
  tokens.erase(std::max(end, tokens.begin() + 1), tokens.end());
}

void Mirostat::drawn(double probability) { bound_ -= eta_ * (-std::log2(probability) - tau_); }

}  // namespace ingot
