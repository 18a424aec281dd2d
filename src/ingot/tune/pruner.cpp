#include "ingot/tune/pruner.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "ingot/base/error.h"

namespace ingot::tune {
namespace {

bool median_prunes(const PrunerOptions& o, Direction direction, const Trial& trial,
                   const std::vector<Trial>& trials) {
  const Report& now = trial.reports.back();
  if (now.step <= o.warmup_steps) return false;
  std::int64_t complete = 0;
  std::vector<double> others;
  for (const Trial& other : trials) {
    if (other.state != TrialState::complete || other.number == trial.number) continue;
    ++complete;
    const auto same = std::ranges::lower_bound(other.reports, now.step, {}, &Report::step);
    if (same != other.reports.end() && same->step == now.step && !std::isnan(same->value)) {
      others.push_back(same->value);
    }
  }
  if (complete < o.startup_trials || others.empty()) return false;
  std::ranges::sort(others);
  const std::size_t n = others.size();
  const double median = n % 2 == 1 ? others[n / 2] : 0.5 * (others[n / 2 - 1] + others[n / 2]);
  double best = trial.reports.front().value;
  for (const Report& report : trial.reports) {
    if (better(direction, report.value, best)) best = report.value;
  }
  return better(direction, median, best);
}

std::int64_t first_rung(const PrunerOptions& o, const Trial& trial, const std::vector<Trial>& trials) {
  if (o.min_resource > 0) return o.min_resource;
  std::int64_t first = trial.reports.front().step;
  for (const Trial& other : trials) {
    if (!other.reports.empty()) first = std::min(first, other.reports.front().step);
  }
  return std::max<std::int64_t>(first, 1);
}

// A trial's value on a rung is what it reported first at or after that step.
const Report* on_rung(const Trial& trial, std::int64_t rung) {
  const auto report = std::ranges::lower_bound(trial.reports, rung, {}, &Report::step);
  return report == trial.reports.end() ? nullptr : &*report;
}

bool leaves_rung(const PrunerOptions& o, Direction direction, const Trial& trial, std::int64_t rung,
                 const std::vector<Trial>& trials) {
  const double own = trial.reports.back().value;
  std::int64_t there = 1, ahead = 0;
  for (const Trial& other : trials) {
    if (other.number == trial.number) continue;
    const Report* report = on_rung(other, rung);
    if (report == nullptr) continue;
    ++there;
    if (better(direction, report->value, own)) ++ahead;
  }
  return ahead >= std::max<std::int64_t>(1, there / o.reduction_factor);
}

bool asha_prunes(const PrunerOptions& o, Direction direction, const Trial& trial,
                 const std::vector<Trial>& trials) {
  const std::int64_t now = trial.reports.back().step;
  const std::size_t n = trial.reports.size();
  const std::int64_t before = n > 1 ? trial.reports[n - 2].step : std::numeric_limits<std::int64_t>::min();
  for (std::int64_t rung = first_rung(o, trial, trials); rung <= now; rung *= o.reduction_factor) {
    if (before < rung && leaves_rung(o, direction, trial, rung, trials)) return true;
    if (rung > std::numeric_limits<std::int64_t>::max() / o.reduction_factor) break;
  }
  return false;
}

}  // namespace

void PrunerOptions::validate() const {
  const auto require = [](bool holds, const char* key, const std::string& problem) {
    INGOT_CHECK(holds, InvalidConfig(fmt::format("pruner.{}", key), problem));
  };
  require(type == "none" || type == "median" || type == "asha", "type",
          fmt::format("'{}' is not one of none, median, asha", type));
  require(startup_trials >= 1, "startup_trials", fmt::format("must be at least 1, got {}", startup_trials));
  require(warmup_steps >= 0, "warmup_steps", fmt::format("must not be negative, got {}", warmup_steps));
  require(min_resource >= 0, "min_resource", fmt::format("must not be negative, got {}", min_resource));
  require(reduction_factor >= 2, "reduction_factor",
          fmt::format("must be at least 2, got {}", reduction_factor));
}

bool should_prune(const PrunerOptions& options, Direction direction, const Trial& trial,
                  const std::vector<Trial>& trials) {
  if (options.type == "none" || trial.reports.empty()) return false;
  if (std::isnan(trial.reports.back().value)) return true;
  return options.type == "median" ? median_prunes(options, direction, trial, trials)
                                  : asha_prunes(options, direction, trial, trials);
}

}  // namespace ingot::tune
