// The tree-structured Parzen estimator: split the trials into good and bad, draw from the density of the good
// ones, keep the draw that is most likely under it and least under that of the bad ones.
#include <algorithm>
#include <cmath>
#include <limits>

#include "ingot/tune/parzen.h"
#include "ingot/tune/random_values.h"
#include "ingot/tune/sampler.h"

namespace ingot::tune {
namespace {

constexpr std::size_t kMostGood = 25;
constexpr std::int64_t kCandidates = 24, kCandidatesPerNumber = 20, kMostCandidates = 128;
constexpr std::int64_t kKernelBudget =
    15'000;  // candidates times trials: keeps a suggestion below a millisecond

// Parameters that exist together are modelled together; a conditional one only with its siblings. One that
// has a single value stands alone: it says nothing, and its density has no width.
std::vector<std::vector<std::size_t>> group_parameters(const SearchSpace& space, bool multivariate) {
  std::vector<std::vector<std::size_t>> groups;
  for (std::size_t i = 0; i < space.size(); ++i) {
    const Parameter& p = space.parameters[i];
    const auto together = std::ranges::find_if(groups, [&](const std::vector<std::size_t>& group) {
      const Parameter& first = space.parameters[group.front()];
      return multivariate && !first.fixed() && !p.fixed() && first.parent == p.parent &&
             first.parent_choices == p.parent_choices;
    });
    if (together == groups.end()) {
      groups.push_back({i});
    } else {
      together->push_back(i);
    }
  }
  return groups;
}

// Of pruned trials, those that came farther, and of those, the better.
bool pruned_better(Direction direction, const Trial& a, const Trial& b) {
  if (a.reports.empty() || b.reports.empty()) return !a.reports.empty() && b.reports.empty();
  const Report &last_a = a.reports.back(), &last_b = b.reports.back();
  if (last_a.step != last_b.step) return last_a.step > last_b.step;
  return better(direction, last_a.value, last_b.value);
}

struct TrialSplit {
  std::vector<const Trial*> good, bad;  // by number: the newest weigh most
};

// Moves the `count` best in front of the others; of equal ones the older is better.
template <class Better>
void rank_best(std::vector<const Trial*>& trials, std::size_t count, Better&& better) {
  std::ranges::partial_sort(trials, trials.begin() + static_cast<std::ptrdiff_t>(count),
                            [&](const Trial* a, const Trial* b) {
                              if (better(*a, *b)) return true;
                              return !better(*b, *a) && a->number < b->number;
                            });
}

TrialSplit split_trials(const std::vector<Trial>& trials, std::int64_t number, Direction direction) {
  std::vector<const Trial*> complete, pruned;
  for (const Trial& trial : trials) {
    if (trial.number == number) continue;
    if (trial.state == TrialState::complete) complete.push_back(&trial);
    if (trial.state == TrialState::pruned) pruned.push_back(&trial);
  }
  const std::size_t count = std::min((complete.size() + pruned.size() + 9) / 10, kMostGood);
  const std::size_t from_complete = std::min(count, complete.size()), from_pruned = count - from_complete;
  rank_best(complete, from_complete,
            [&](const Trial& a, const Trial& b) { return better(direction, a.value, b.value); });
  rank_best(pruned, from_pruned,
            [&](const Trial& a, const Trial& b) { return pruned_better(direction, a, b); });
  TrialSplit split;
  split.good.assign(complete.begin(), complete.begin() + static_cast<std::ptrdiff_t>(from_complete));
  split.good.insert(split.good.end(), pruned.begin(),
                    pruned.begin() + static_cast<std::ptrdiff_t>(from_pruned));
  std::ranges::sort(split.good, {}, &Trial::number);
  // Those that still run are bad, too, and so are those that failed: left out, they would make where trials
  // fail look unexplored, and a study would go there again and again.
  for (const Trial& trial : trials) {
    if (trial.number == number) continue;
    if (!std::ranges::binary_search(split.good, trial.number, {}, &Trial::number))
      split.bad.push_back(&trial);
  }
  return split;
}

class TpeSampler : public Sampler {
 public:
  TpeSampler(const SamplerOptions& options, SearchSpace space, Direction direction)
      : options_(options),
        space_(std::move(space)),
        direction_(direction),
        groups_(group_parameters(space_, options.multivariate)) {}

  Values sample(std::int64_t number, const std::vector<Trial>& trials) override {
    Rng rng = trial_rng(options_.seed, number);
    const auto done = std::ranges::count_if(trials, [](const Trial& trial) {
      return trial.state == TrialState::complete || trial.state == TrialState::pruned;
    });
    if (done < options_.startup_trials) return random_values(space_, rng);
    const TrialSplit split = split_trials(trials, number, direction_);
    Values values(space_.size(), kAbsent);
    for (const std::vector<std::size_t>& group : groups_) {
      if (!space_.exists(group.front(), values)) continue;
      if (const Parameter& p = space_.parameters[group.front()]; p.fixed()) {
        values[group.front()] = p.kind == ParameterKind::categorical ? 0 : p.low;
      } else {
        choose(group, split, rng, values);
      }
    }
    return values;
  }

 private:
  ParzenEstimator estimator(const std::vector<std::size_t>& group,
                            const std::vector<const Trial*>& trials) const {
    std::vector<std::vector<double>> observations(group.size());
    for (const Trial* trial : trials) {
      if (std::isnan(trial->values[group.front()])) continue;
      for (std::size_t d = 0; d < group.size(); ++d) observations[d].push_back(trial->values[group[d]]);
    }
    return {space_, group, observations, options_.prior_weight};
  }

  std::int64_t candidates(const std::vector<std::size_t>& group, std::int64_t trials) const {
    if (options_.candidates > 0) return options_.candidates;
    const bool numbers = std::ranges::none_of(
        group, [&](std::size_t i) { return space_.parameters[i].kind == ParameterKind::categorical; });
    if (!numbers) return kCandidates;
    const std::int64_t affordable =
        std::min(kMostCandidates, kKernelBudget / std::max<std::int64_t>(trials, 1));
    return std::clamp(kCandidatesPerNumber * std::ssize(group), kCandidates,
                      std::max(kCandidates, affordable));
  }

  void choose(const std::vector<std::size_t>& group, const TrialSplit& split, Rng& rng,
              Values& values) const {
    ParzenEstimator good = estimator(group, split.good), bad = estimator(group, split.bad);
    const std::int64_t count = candidates(group, std::ssize(split.good) + std::ssize(split.bad));
    double best_score = -std::numeric_limits<double>::infinity();
    for (std::int64_t i = 0; i < count; ++i) {
      const std::vector<double> candidate = good.sample(rng);
      const double score = good.log_density(candidate) - bad.log_density(candidate);
      if (i > 0 && !(score > best_score)) continue;
      best_score = score;
      for (std::size_t d = 0; d < group.size(); ++d) values[group[d]] = candidate[d];
    }
  }

  SamplerOptions options_;
  SearchSpace space_;
  Direction direction_;
  std::vector<std::vector<std::size_t>> groups_;
};

}  // namespace

std::unique_ptr<Sampler> make_tpe_sampler(const SamplerOptions& options, const SearchSpace& space,
                                          Direction direction) {
  return std::make_unique<TpeSampler>(options, space, direction);
}

}  // namespace ingot::tune
