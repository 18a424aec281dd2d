#include "ingot/forecast/cross_validate.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace ingot::forecast {
namespace {

// The table without the last `rows` rows of each series.
SeriesTable without_last(const SeriesTable& table, std::int64_t rows) {
  SeriesTable before = table;
  for (Series& series : before.series) {
    const std::size_t length = series.length() - static_cast<std::size_t>(rows);
    series.times.resize(length);
    for (std::vector<double>& column : series.columns) column.resize(length);
    for (std::vector<bool>& column : series.made_up) column.resize(column.empty() ? 0 : length);
  }
  return before;
}

// There is no test part among the rows before an origin: training and validation share them all.
FitConfig without_test_part(FitConfig config) {
  SplitOptions& split = config.split;
  if (split.kind == "ett") split = {.kind = "ratio", .train = 12.0 / 16, .test = 0};
  split.train /= 1 - split.test;
  split.test = 0;
  return config;
}

bool holds_folds(const Series& series, std::int64_t folds, std::int64_t test_rows) {
  return static_cast<std::int64_t>(series.length()) / test_rows > folds;
}

void check_folds(const SeriesTable& table, std::int64_t folds, std::int64_t test_rows, std::int64_t horizon) {
  INGOT_CHECK(folds >= 1, InvalidConfig("folds", fmt::format("must be at least 1, got {}", folds)));
  INGOT_CHECK(test_rows >= horizon,
              InvalidConfig("fold_rows",
                            fmt::format("must be at least the horizon of {}, got {}", horizon, test_rows)));
  const Series& longest = *std::ranges::max_element(table.series, {}, &Series::length);
  INGOT_CHECK(
      holds_folds(longest, folds, test_rows),
      InvalidConfig("folds", fmt::format("{} folds of {} rows leave none of the {} rows{} to fit to", folds,
                                         test_rows, longest.length(),
                                         longest.id.empty() ? "" : " of series '" + longest.id + "'")));
}

// Takes out what the folds leave no row of.
std::vector<LeftOut> take_out_short(SeriesTable& table, std::int64_t folds, std::int64_t test_rows) {
  std::vector<LeftOut> left_out;
  for (const Series& series : table.series) {
    if (holds_folds(series, folds, test_rows)) continue;
    left_out.push_back({series.id, fmt::format("its {} rows are too few for {} folds of {}", series.length(),
                                               folds, test_rows)});
  }
  std::erase_if(table.series, [&](const Series& series) { return !holds_folds(series, folds, test_rows); });
  return left_out;
}

Metrics mean_of(const std::vector<Fold>& folds, std::size_t method) {
  Metrics mean;
  const auto n = static_cast<double>(folds.size());
  double defined = 0, mase = 0;
  for (const Fold& fold : folds) {
    const Metrics& m = fold.evaluation.methods[method];
    mean.method = m.method;
    mean.mse += m.mse / n;
    mean.mae += m.mae / n;
    mean.smape += m.smape / n;
    mean.seconds += m.seconds;
    if (!std::isnan(m.mase)) {
      mase += m.mase;
      ++defined;
    }
    for (const auto& [level, share] : m.coverage) mean.coverage[level] += share / n;
    mean.mae_by_step.resize(m.mae_by_step.size());
    for (std::size_t h = 0; h < m.mae_by_step.size(); ++h) mean.mae_by_step[h] += m.mae_by_step[h] / n;
  }
  mean.mase = mase / defined;
  std::erase_if(mean.coverage, [&](const auto& level) {
    return !std::ranges::all_of(
        folds, [&](const Fold& f) { return f.evaluation.methods[method].coverage.contains(level.first); });
  });
  return mean;
}

}  // namespace

CrossValidation cross_validate(const FitConfig& given, const SeriesTable& all,
                               const CrossValidationOptions& options, const FoldFit& fit) {
  const FitConfig config = without_test_part(given);
  const std::int64_t test_rows = options.test_rows != 0 ? options.test_rows : config.model.horizon;
  check_folds(all, options.folds, test_rows, config.model.horizon);
  SeriesTable table = all;
  CrossValidation result;
  result.left_out = take_out_short(table, options.folds, test_rows);
  const EvaluateOptions evaluation{.stride = options.stride,
                                   .season = options.season,
                                   .levels = options.levels,
                                   .test_rows = test_rows,
                                   .on_batch = options.on_batch};
  for (std::int64_t fold = 0; fold < options.folds; ++fold) {
    const std::int64_t later = (options.folds - 1 - fold) * test_rows;
    const SeriesTable seen = without_last(table, later);
    SeriesTable before = without_last(seen, test_rows);
    before.source = fmt::format("{} before fold {} of {}", table.source, fold + 1, options.folds);
    const Forecaster f = fit ? fit(fold, config, before) : fit_forecaster(config, before);
    if (f.end == TrainEnd::stopped) {
      result.stopped = true;
      break;
    }
    Fold& done = result.folds.emplace_back();
    done.origin = seen.series[0].times[before.series[0].length()];
    for (const Series& series : before.series) done.rows += static_cast<std::int64_t>(series.length());
    done.epochs = static_cast<std::int64_t>(f.epochs.size());
    done.evaluation = evaluate(f, seen, evaluation);
  }
  if (result.folds.empty()) return result;
  for (std::size_t m = 0; m < result.folds[0].evaluation.methods.size(); ++m) {
    result.mean.push_back(mean_of(result.folds, m));
  }
  return result;
}

}  // namespace ingot::forecast
