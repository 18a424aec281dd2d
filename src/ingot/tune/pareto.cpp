#include "ingot/tune/pareto.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <limits>

namespace ingot::tune {
namespace {

using Front = std::vector<std::size_t>;

// Of one front, how far each trial is from its neighbours in every objective, as shares of what the front
// spans. The ends count as infinitely far.
std::vector<double> crowding_distances(const std::vector<Trial>& trials, const Front& front,
                                       std::size_t goals) {
  constexpr double kEnd = std::numeric_limits<double>::infinity();
  std::vector<double> distances(front.size());
  std::vector<std::size_t> order(front.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  for (std::size_t g = 0; g < goals; ++g) {
    const auto value = [&](std::size_t i) { return trials[front[i]].objectives[g]; };
    std::ranges::stable_sort(order, {}, value);
    const double span = value(order.back()) - value(order.front());
    distances[order.front()] = distances[order.back()] = kEnd;
    for (std::size_t i = 1; span > 0 && i + 1 < order.size(); ++i)
      distances[order[i]] += (value(order[i + 1]) - value(order[i - 1])) / span;
  }
  return distances;
}

void sort_by_crowding(const std::vector<Trial>& trials, Front& front, std::size_t goals) {
  const std::vector<double> distances = crowding_distances(trials, front, goals);
  std::vector<std::size_t> order(front.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::stable_sort(order, std::ranges::greater(), [&](std::size_t i) { return distances[i]; });
  Front sorted;
  sorted.reserve(front.size());
  for (const std::size_t i : order) sorted.push_back(front[i]);
  front = std::move(sorted);
}

}  // namespace

std::string describe(const std::vector<Goal>& goals) {
  std::string text;
  for (const Goal& goal : goals) {
    if (!text.empty()) text += ", ";
    text += goal.name + " " + std::string(name(goal.direction));
  }
  return text;
}

bool dominates(const std::vector<Goal>& goals, const Trial& a, const Trial& b) {
  bool better_in_one = false;
  for (std::size_t g = 0; g < goals.size(); ++g) {
    if (better(goals[g].direction, b.objectives[g], a.objectives[g])) return false;
    better_in_one = better_in_one || better(goals[g].direction, a.objectives[g], b.objectives[g]);
  }
  return better_in_one;
}

std::vector<std::vector<std::size_t>> pareto_fronts(const std::vector<Trial>& trials,
                                                    const std::vector<Goal>& goals) {
  Front left;
  for (std::size_t i = 0; i < trials.size(); ++i)
    if (trials[i].state == TrialState::complete && trials[i].objectives.size() == goals.size())
      left.push_back(i);
  std::vector<std::size_t> dominators(trials.size());
  std::vector<Front> dominated(trials.size());
  for (const std::size_t a : left) {
    for (const std::size_t b : left) {
      if (!dominates(goals, trials[a], trials[b])) continue;
      dominated[a].push_back(b);
      ++dominators[b];
    }
  }
  std::vector<Front> fronts;
  Front front;
  std::ranges::copy_if(left, std::back_inserter(front), [&](std::size_t i) { return dominators[i] == 0; });
  while (!front.empty()) {
    Front next;
    for (const std::size_t a : front) {
      for (const std::size_t b : dominated[a])
        if (--dominators[b] == 0) next.push_back(b);
    }
    std::ranges::sort(next);
    sort_by_crowding(trials, front, goals.size());
    fronts.push_back(std::move(front));
    front = std::move(next);
  }
  return fronts;
}

std::vector<Trial> pareto_front(const std::vector<Trial>& trials, const std::vector<Goal>& goals) {
  std::vector<Trial> front;
  const auto fronts = pareto_fronts(trials, goals);
  if (fronts.empty()) return front;
  front.reserve(fronts.front().size());
  for (const std::size_t i : fronts.front()) front.push_back(trials[i]);
  std::ranges::sort(front, [&](const Trial& a, const Trial& b) {
    if (a.objectives[0] != b.objectives[0])
      return better(goals[0].direction, a.objectives[0], b.objectives[0]);
    return a.number < b.number;
  });
  return front;
}

std::vector<Trial> ranked_by_front(std::vector<Trial> trials, const std::vector<Goal>& goals) {
  double rank = 0;
  for (const Front& front : pareto_fronts(trials, goals))
    for (const std::size_t i : front) trials[i].value = rank++;
  return trials;
}

}  // namespace ingot::tune
