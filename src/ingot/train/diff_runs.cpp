#include "ingot/train/diff_runs.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "ingot/base/units.h"

namespace ingot {
namespace {

using Pairs = std::vector<std::pair<std::string, std::string>>;

constexpr const char* kAbsent = "–";

const std::string& value_of(const Pairs& pairs, const std::string& name) {
  static const std::string absent = kAbsent;
  const auto found = std::ranges::find(pairs, name, &Pairs::value_type::first);
  return found == pairs.end() ? absent : found->second;
}

// In the order of the left, then what only the right has.
std::vector<RunDifference> differences(const Pairs& left, const Pairs& right, bool equal_ones = false) {
  std::vector<RunDifference> rows;
  const auto add = [&](const std::string& name) {
    const RunDifference row{name, value_of(left, name), value_of(right, name)};
    if (equal_ones || row.left != row.right) rows.push_back(row);
  };
  for (const auto& [name, value] : left) add(name);
  for (const auto& [name, value] : right)
    if (value_of(left, name) == kAbsent) add(name);
  return rows;
}

// Without what has a part of its own.
Pairs machine_of(const FinishedRun& run) {
  if (!run.metadata) return {};
  RunMetadata metadata = *run.metadata;
  metadata.data.clear();
  metadata.configuration_hash.clear();
  return metadata.rows();
}

// As both have them: run.json spells lists otherwise than config.yaml does.
Pairs settings_of(const FinishedRun& run, bool from_metadata) {
  Pairs settings = run.config;
  if (from_metadata) {
    settings.clear();
    for (const Setting& setting : run.metadata->configuration)
      settings.emplace_back(setting.name, setting.value);
  }
  std::erase_if(settings, [](const auto& pair) { return pair.first == "output_dir"; });
  return settings;
}

Pairs metrics_of(const FinishedRun& run) {
  Pairs metrics;
  const std::vector<StepRecord>& steps = run.history.steps();
  if (!steps.empty()) {
    metrics.emplace_back("steps", std::to_string(steps.back().step));
    metrics.emplace_back("training loss", fmt::format("{:.6g}", steps.back().loss));
  }
  if (const auto best = run.best_validation())
    metrics.emplace_back("best validation loss", fmt::format("{:.6g}", *best));
  if (const auto last = run.last_validation())
    metrics.emplace_back("last validation loss", fmt::format("{:.6g}", *last));
  if (!steps.empty()) {
    for (const auto& [name, value] : steps.back().values)
      metrics.emplace_back(name, fmt::format("{:.6g}", value));
    if (const double rate = run.history.median(&StepRecord::tokens_per_second); rate > 0)
      metrics.emplace_back("tokens/s (median)", human_count(rate));
  }
  return metrics;
}

}  // namespace

RunDiff diff_runs(const FinishedRun& left, const FinishedRun& right) {
  const auto data = [](const FinishedRun& run) { return run.metadata ? run.metadata->data : Pairs{}; };
  const bool both = left.metadata.has_value() && right.metadata.has_value();
  return {.machine = differences(machine_of(left), machine_of(right)),
          .configuration = differences(settings_of(left, both), settings_of(right, both)),
          .data = differences(data(left), data(right)),
          .metrics = differences(metrics_of(left), metrics_of(right), true)};
}

}  // namespace ingot
