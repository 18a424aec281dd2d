#include "ingot/tune/sampler.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/base/rng.h"
#include "ingot/tune/random_values.h"

namespace ingot::tune {
namespace {

constexpr std::size_t kLargestGrid = 1'000'000;

class RandomSampler : public Sampler {
 public:
  RandomSampler(std::uint64_t seed, SearchSpace space) : seed_(seed), space_(std::move(space)) {}
  Values sample(std::int64_t number, const std::vector<Trial>&) override {
    return random_values(space_, trial_rng(seed_, number));
  }

 private:
  std::uint64_t seed_;
  SearchSpace space_;
};

std::vector<double> grid_values(const SearchSpace& space, std::size_t i) {
  const Parameter& p = space.parameters[i];
  std::vector<double> values;
  if (p.kind == ParameterKind::categorical) {
    for (std::size_t c = 0; c < p.choices.size(); ++c) values.push_back(static_cast<double>(c));
  } else if (p.points > 0) {
    INGOT_CHECK(
        !p.log || std::isfinite(p.high / p.low),
        InvalidConfig(fmt::format("space.{}", p.name), "its range is too wide for a grid; narrow it"));
    for (std::int64_t k = 0; k < p.points; ++k) {
      const double t = static_cast<double>(k) / static_cast<double>(p.points - 1);
      const double value = p.log ? p.low * std::pow(p.high / p.low, t) : p.low + t * (p.high - p.low);
      const double allowed = space.nearest_allowed(i, value);
      if (values.empty() || values.back() != allowed) values.push_back(allowed);
    }
  } else {
    INGOT_CHECK(p.spacing() > 0,
                InvalidConfig(fmt::format("space.{}", p.name),
                              "a grid needs to know which values: give a step or a number of points"));
    const double steps = std::round((p.last() - p.low) / p.spacing());
    INGOT_CHECK(steps < static_cast<double>(kLargestGrid),
                InvalidConfig(fmt::format("space.{}", p.name),
                              fmt::format("has {:.0f} values, too many for a grid; give a step", steps + 1)));
    for (std::int64_t k = 0; k <= static_cast<std::int64_t>(steps); ++k) {
      values.push_back(p.low + static_cast<double>(k) * p.spacing());
    }
  }
  return values;
}

class GridSampler : public Sampler {
 public:
  explicit GridSampler(const SearchSpace& space) {
    points_.push_back({});
    for (std::size_t i = 0; i < space.size(); ++i) extend(space, i);
    tried_.resize(points_.size());
    left_ = std::ssize(points_);
  }
  Values sample(std::int64_t /*number*/, const std::vector<Trial>& trials) override {
    cross_out(trials);
    while (tried_[first_]) ++first_;
    return points_[first_];
  }
  std::int64_t left(const std::vector<Trial>& trials) override {
    cross_out(trials);
    return left_;
  }

 private:
  // Looks each trial up once.
  void cross_out(const std::vector<Trial>& trials) {
    for (; seen_ < trials.size(); ++seen_) {
      const Values& values = trials[seen_].values;
      const auto at = std::ranges::lower_bound(points_, values, is_before);
      if (at == points_.end() || is_before(values, *at)) continue;  // no point of the grid
      const auto point = static_cast<std::size_t>(at - points_.begin());
      left_ -= tried_[point] ? 0 : 1;
      tried_[point] = true;
    }
  }
  // The order of the points. Values that are absent stand beside absent ones only, and are equal.
  static bool is_before(const Values& a, const Values& b) {
    return std::ranges::lexicographical_compare(a, b);
  }

  // Where a conditional parameter does not exist there is nothing to multiply.
  void extend(const SearchSpace& space, std::size_t i) {
    const std::vector<double> values = grid_values(space, i);
    std::vector<Values> next;
    for (const Values& point : points_) {
      const bool exists = space.exists(i, point);
      for (const double value : exists ? values : std::vector<double>{kAbsent}) {
        next.push_back(point);
        next.back().push_back(value);
      }
      INGOT_CHECK(
          next.size() <= kLargestGrid,
          InvalidConfig("space", fmt::format("the grid has over {} points; leave out a parameter or widen "
                                             "the steps, or use sampler tpe",
                                             kLargestGrid)));
    }
    points_ = std::move(next);
  }
  std::vector<Values> points_;
  std::vector<bool> tried_;  // by point
  std::int64_t left_ = 0;    // points not tried
  std::size_t first_ = 0;    // no point before it is left
  std::size_t seen_ = 0;     // trials looked up
};

}  // namespace

Rng trial_rng(std::uint64_t seed, std::int64_t number) {
  return Rng(RngKey{seed, mix_stream(0x74756e65, static_cast<std::uint64_t>(number))});
}

double random_value(const SearchSpace& space, std::size_t i, Rng& rng) {
  const Parameter& p = space.parameters[i];
  if (p.kind == ParameterKind::categorical) return static_cast<double>(rng.below(p.choices.size()));
  const auto [low, high] = p.range();
  const double drawn = low + rng.uniform_double() * (high - low);
  return space.nearest_allowed(i, p.log ? std::exp(drawn) : drawn);
}

Values random_values(const SearchSpace& space, Rng rng) {
  Values values(space.size(), kAbsent);
  for (std::size_t i = 0; i < space.size(); ++i) {
    if (space.exists(i, values)) values[i] = random_value(space, i, rng);
  }
  return values;
}

void SamplerOptions::validate() const {
  const auto require = [](bool holds, const char* key, const std::string& problem) {
    INGOT_CHECK(holds, InvalidConfig(fmt::format("sampler.{}", key), problem));
  };
  require(type == "tpe" || type == "random" || type == "grid", "type",
          fmt::format("'{}' is not one of tpe, random, grid", type));
  require(startup_trials >= 1, "startup_trials", fmt::format("must be at least 1, got {}", startup_trials));
  require(candidates >= 0 && candidates <= 100'000, "candidates",
          fmt::format("must be 0 (automatic) to 100000, got {}", candidates));
  require(prior_weight > 0 && std::isfinite(prior_weight), "prior_weight",
          fmt::format("must be above 0, got {}", prior_weight));
}

std::unique_ptr<Sampler> make_grid_sampler(const SearchSpace& space) {
  return std::make_unique<GridSampler>(space);
}

std::unique_ptr<Sampler> make_random_sampler(const SamplerOptions& options, const SearchSpace& space) {
  return std::make_unique<RandomSampler>(options.seed, space);
}

std::unique_ptr<Sampler> make_sampler(const SamplerOptions& options, const SearchSpace& space,
                                      Direction direction) {
  options.validate();
  space.validate();
  if (options.type == "grid") return make_grid_sampler(space);
  if (options.type == "random") return make_random_sampler(options, space);
  return make_tpe_sampler(options, space, direction);
}

}  // namespace ingot::tune
