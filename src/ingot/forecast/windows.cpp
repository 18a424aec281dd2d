#include "ingot/forecast/windows.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include <fmt/format.h>

#include "ingot/base/parallel.h"
#include "ingot/ops/elementwise.h"

namespace ingot::forecast {
namespace {

std::string of_series(const Series& series) {
  return series.id.empty() ? "the table" : fmt::format("series '{}'", series.id);
}

// [columns, rows] of 1 and 0; undefined where all values were measured.
Tensor measured_of(const Series& series) {
  if (std::ranges::all_of(series.made_up, &std::vector<bool>::empty)) return {};
  const std::size_t rows = series.length();
  Tensor measured =
      Tensor::empty({static_cast<std::int64_t>(series.columns.size()), static_cast<std::int64_t>(rows)});
  for (std::size_t c = 0; c < series.columns.size(); ++c) {
    float* to = measured.data<float>() + c * rows;
    for (std::size_t row = 0; row < rows; ++row) to[row] = series.measured(c, row) ? 1.0F : 0.0F;
  }
  return measured;
}

// [rows, inputs] of what is known ahead.
Tensor inputs_of(const Series& series) {
  if (series.future.empty()) return {};
  const std::size_t inputs = series.future.size(), rows = series.length();
  Tensor out = Tensor::empty({static_cast<std::int64_t>(rows), static_cast<std::int64_t>(inputs)});
  for (std::size_t i = 0; i < inputs; ++i) {
    for (std::size_t row = 0; row < rows; ++row) {
      out.data<float>()[row * inputs + i] = static_cast<float>(series.future[i][row]);
    }
  }
  return out;
}

// Whether each part has a window; but for the test part of a split without one. Validation and test look back
// into the part before them, so they need `horizon` rows of their own.
bool parts_have_windows(const Borders& b, const SplitOptions& split, std::int64_t lookback,
                        std::int64_t horizon) {
  const std::int64_t fitted = std::min(b.train - lookback, b.validation - b.train);
  const bool untested = split.test == 0 && split.kind == "ratio";
  return fitted >= horizon && (untested || b.test - b.validation >= horizon);
}

bool can_be_scaled(const Series& series, const SeriesTable& table, ScalerKind scaler, std::int64_t rows) {
  for (std::size_t t = 0; t < table.targets; ++t) {
    if (scaling_problem(scaler, series, t, rows).empty()) return true;
  }
  return false;
}

[[noreturn]] void fail_too_short(const Series& series, const SeriesTable& table, const SplitOptions& split,
                                 std::int64_t lookback, std::int64_t horizon) {
  const Borders b = borders_of(split, series, table);
  const std::int64_t most = b.train - horizon, fitting = short_table_lookback(table, split, horizon);
  const std::string advice =
      fitting == 0 ? "a smaller --horizon, or other fractions"
                   : fmt::format(
                         "a shorter --lookback ({} leaves {} windows to learn from; at most {} fits), or "
                         "other fractions",
                         fitting, most - fitting + 1, most);
  throw DataError(
      table.source, 0, "",
      fmt::format("{} is too short: its {} rows give {} for training (look-back {} plus horizon {} "
                  "are needed), {} for validation and {} for testing ({} needed each); choose {}",
                  of_series(series), series.length(), b.train, lookback, horizon, b.validation - b.train,
                  b.test - b.validation, horizon, advice));
}

const Series& longest_of(const SeriesTable& table) {
  return *std::ranges::max_element(table.series, {}, &Series::length);
}

bool any_target_measured(const Series& series, std::size_t targets, std::int64_t first, std::int64_t last) {
  for (std::size_t t = 0; t < targets; ++t) {
    if (series.any_measured(t, static_cast<std::size_t>(first), static_cast<std::size_t>(last))) return true;
  }
  return false;
}

}  // namespace

void SplitOptions::validate() const {
  INGOT_CHECK(kind == "ratio" || kind == "ett",
              InvalidConfig("split", fmt::format("is '{}', expected ratio or ett", kind)));
  INGOT_CHECK(
      train > 0 && test >= 0 && train + test < 1,
      InvalidConfig(
          "train_fraction",
          fmt::format("{} for training and {} for testing leave nothing for validation; their sum must "
                      "be below 1",
                      train, test)));
}

Borders borders_of(const SplitOptions& split, const Series& series, const SeriesTable& table) {
  const auto rows = static_cast<std::int64_t>(series.length());
  if (split.kind == "ett") {
    const std::int64_t day =
        table.frequency.unit == Frequency::Unit::seconds ? 86400 / table.frequency.step : 0;
    const std::int64_t month = 30 * day;
    INGOT_CHECK(
        month > 0 && rows >= 20 * month,
        DataError(table.source, 0, "",
                  fmt::format(
                      "split 'ett' needs 20 months of hours or minutes ({} rows at frequency {}), {} has {}; "
                      "use split 'ratio'",
                      20 * month, table.frequency.name(), of_series(series), rows)));
    return {12 * month, 16 * month, 20 * month};
  }
  // int(n * 0.7), as the published code has it.
  const auto train = static_cast<std::int64_t>(static_cast<double>(rows) * split.train);
  const auto test = static_cast<std::int64_t>(static_cast<double>(rows) * split.test);
  return {train, rows - test, rows};
}

ScaledSeries scaled(const Series& series, ColumnScales scales, const Frequency& frequency) {
  ScaledSeries out{.id = series.id,
                   .values = {},
                   .marks = {},
                   .inputs = inputs_of(series),
                   .measured = measured_of(series),
                   .scales = std::move(scales)};
  const auto rows = static_cast<std::int64_t>(series.length());
  const auto columns = static_cast<std::int64_t>(series.columns.size());
  out.values = Tensor::empty({columns, rows});
  for (std::size_t c = 0; c < series.columns.size(); ++c) {
    float* to = out.values.data<float>() + static_cast<std::int64_t>(c) * rows;
    for (const double v : series.columns[c]) {
      *to++ = static_cast<float>((v - out.scales.shift[c]) / out.scales.scale[c]);
    }
  }
  const auto features = time_feature_names(frequency).size();
  if (features == 0) return out;
  out.marks = Tensor::empty({rows, static_cast<std::int64_t>(features)});
  for (std::size_t i = 0; i < series.length(); ++i) {
    time_features(series.times[i], frequency, {out.marks.data<float>() + i * features, features});
  }
  return out;
}

std::int64_t WindowSet::add(std::shared_ptr<const ScaledSeries> series, std::int64_t first, std::int64_t last,
                            std::int64_t stride) {
  const std::int64_t starts = last - first - lookback_ - horizon_ + 1;
  const std::int64_t count = starts > 0 ? (starts + stride - 1) / stride : 0;
  if (count > 0) ranges_.push_back({std::move(series), first, stride, size_, count});
  size_ += count;
  return count;
}

WindowSet::Position WindowSet::at(std::int64_t window) const {
  INGOT_ASSERT(window >= 0 && window < size_);
  const auto after = std::ranges::upper_bound(ranges_, window, {}, &Range::before);
  const Range& range = *std::prev(after);
  return {range.series.get(), range.first + (window - range.before) * range.stride};
}

Batch WindowSet::batch(std::span<const std::int64_t> windows) const {
  const auto n = static_cast<std::int64_t>(windows.size());
  const Position first = at(windows[0]);
  const std::int64_t columns = first.series->values.dim(0);
  const std::int64_t features = first.series->marks.defined() ? first.series->marks.dim(1) : 0;
  const std::int64_t inputs = first.series->inputs.defined() ? first.series->inputs.dim(1) : 0;
  Batch b;
  b.input.x = Tensor::empty({n, columns, lookback_});
  b.target = Tensor::empty({n, targets_, horizon_});
  if (features > 0) {
    b.input.past_marks = Tensor::empty({n, lookback_, features});
    b.input.future_marks = Tensor::empty({n, horizon_, features});
  }
  if (inputs > 0) {
    b.input.past_inputs = Tensor::empty({n, lookback_, inputs});
    b.input.future_inputs = Tensor::empty({n, horizon_, inputs});
  }
  const bool all_measured = std::ranges::all_of(
      windows, [&](std::int64_t window) { return !at(window).series->measured.defined(); });
  if (!all_measured) {
    b.measured = Tensor::empty({n, targets_, horizon_});
    fill_(b.measured, 1);
  }
  const auto copy = [](float* to, const float* from, std::int64_t count) {
    std::memcpy(to, from, static_cast<std::size_t>(count) * sizeof(float));
  };
  parallel_for(
      n, std::max<std::int64_t>(1, 65536 / (columns * (lookback_ + horizon_))),
      [&](std::int64_t i0, std::int64_t i1) {
        for (std::int64_t i = i0; i < i1; ++i) {
          const Position position = at(windows[static_cast<std::size_t>(i)]);
          const std::int64_t rows = position.series->values.dim(1);
          const float* values = position.series->values.data<float>() + position.first;
          for (std::int64_t c = 0; c < columns; ++c) {
            copy(b.input.x.data<float>() + (i * columns + c) * lookback_, values + c * rows, lookback_);
            if (c >= targets_) continue;
            const std::int64_t to = (i * targets_ + c) * horizon_, from = c * rows + lookback_;
            copy(b.target.data<float>() + to, values + from, horizon_);
            if (!position.series->measured.defined()) continue;
            copy(b.measured.data<float>() + to,
                 position.series->measured.data<float>() + position.first + from, horizon_);
          }
          const auto copy_steps = [&](Tensor& past, Tensor& future, const Tensor& steps, std::int64_t width) {
            if (width == 0) return;
            const float* at = steps.data<float>() + position.first * width;
            copy(past.data<float>() + i * lookback_ * width, at, lookback_ * width);
            copy(future.data<float>() + i * horizon_ * width, at + lookback_ * width, horizon_ * width);
          };
          copy_steps(b.input.past_marks, b.input.future_marks, position.series->marks, features);
          copy_steps(b.input.past_inputs, b.input.future_inputs, position.series->inputs, inputs);
        }
      });
  return b;
}

void WindowSet::for_each_batch(FunctionRef<void(std::int64_t, const Batch&)> visit, std::int64_t begin,
                               std::int64_t step) const {
  for (std::int64_t first = begin * kAtOnce; first < size_; first += step * kAtOnce) {
    std::vector<std::int64_t> positions(static_cast<std::size_t>(std::min(kAtOnce, size_ - first)));
    std::iota(positions.begin(), positions.end(), first);
    visit(first, batch(positions));
  }
}

std::vector<std::string> series_too_short(const SeriesTable& table, const SplitOptions& split,
                                          std::int64_t lookback, std::int64_t horizon) {
  std::vector<std::string> ids;
  for (const Series& series : table.series) {
    if (!parts_have_windows(borders_of(split, series, table), split, lookback, horizon)) {
      ids.push_back(series.id);
    }
  }
  return ids;
}

std::vector<LeftOut> series_not_fitted(const SeriesTable& table, const SplitOptions& split, ScalerKind scaler,
                                       std::int64_t lookback, std::int64_t horizon) {
  std::vector<LeftOut> left_out;
  for (const Series& series : table.series) {
    const Borders b = borders_of(split, series, table);
    if (!parts_have_windows(b, split, lookback, horizon)) {
      left_out.push_back({series.id, fmt::format("its {} rows are too few for look-back {} and horizon {}",
                                                 series.length(), lookback, horizon)});
    } else if (!can_be_scaled(series, table, scaler, b.train)) {
      left_out.push_back({series.id, "it is constant in the training part, or has no value there"});
    }
  }
  return left_out;
}

std::vector<LeftOut> take_out_constant_columns(SeriesTable& table, const SplitOptions& split,
                                               ScalerKind scaler) {
  if (table.long_layout) return {};
  Series& series = table.series.front();
  const std::int64_t train = borders_of(split, series, table).train;
  const std::size_t columns = series.columns.size(), all_targets = table.targets;
  std::vector<LeftOut> left_out;
  std::vector<std::size_t> kept;
  for (std::size_t c = 0; c < columns; ++c) {
    if (train > 0 && !scaling_problem(scaler, series, c, train).empty()) {
      left_out.push_back(
          {table.column_names[c], "it is constant in the training part, or has no value there"});
    } else {
      kept.push_back(c);
    }
  }
  const auto targets = std::ranges::count_if(kept, [&](std::size_t c) { return c < all_targets; });
  if (left_out.empty() || targets == 0) return {};
  for (std::size_t i = 0; i < kept.size(); ++i) {
    if (i == kept[i]) continue;
    table.column_names[i] = std::move(table.column_names[kept[i]]);
    series.columns[i] = std::move(series.columns[kept[i]]);
    series.made_up[i] = std::move(series.made_up[kept[i]]);
  }
  table.column_names.resize(kept.size());
  series.columns.resize(kept.size());
  series.made_up.resize(kept.size());
  table.targets = static_cast<std::size_t>(targets);
  return left_out;
}

std::int64_t usual_horizon(const SeriesTable& table) {
  const std::int64_t season = table.frequency.season(), usual = season > 1 ? season : 10;
  const auto half = static_cast<std::int64_t>(longest_of(table).length()) / 2;
  return std::clamp<std::int64_t>(usual, 1, std::clamp<std::int64_t>(half, 1, 52));
}

std::int64_t short_table_horizon(const SeriesTable& table, const SplitOptions& split) {
  std::int64_t horizon = usual_horizon(table);
  while (horizon > 1 && short_table_lookback(table, split, horizon) == 0) --horizon;
  return horizon;
}

std::int64_t short_table_lookback(const SeriesTable& table, const SplitOptions& split, std::int64_t horizon) {
  const Borders b = borders_of(split, longest_of(table), table);
  if (!parts_have_windows(b, split, 1, horizon)) return 0;
  const std::int64_t third = std::max<std::int64_t>(1, (b.train - horizon) / 3),
                     season = table.frequency.season();
  return third < season ? third : third / season * season;
}

DataSplit split_windows(const SeriesTable& table, const SplitOptions& split, ScalerKind scaler,
                        std::int64_t lookback, std::int64_t horizon) {
  split.validate();
  const auto targets = static_cast<std::int64_t>(table.targets);
  DataSplit out{{}, {lookback, horizon, targets}, {lookback, horizon, targets}, {lookback, horizon, targets}};
  bool validation_measured = false;
  const Series* unscaled = nullptr;
  for (const Series& series : table.series) {
    const Borders b = borders_of(split, series, table);
    if (!parts_have_windows(b, split, lookback, horizon)) continue;
    if (!can_be_scaled(series, table, scaler, b.train)) {
      if (unscaled == nullptr) unscaled = &series;
      continue;
    }
    const auto scaled_series = std::make_shared<const ScaledSeries>(
        scaled(series, fit_scales(scaler, series, b.train, table), table.frequency));
    out.train.add(scaled_series, 0, b.train);
    out.validation.add(scaled_series, b.train - lookback, b.validation);
    out.test.add(scaled_series, b.validation - lookback, b.test);
    out.series.push_back(scaled_series);
    validation_measured |= any_target_measured(series, table.targets, b.train, b.validation);
  }
  if (out.series.empty() && unscaled != nullptr) {  // says what is wrong with it
    fit_scales(scaler, *unscaled, borders_of(split, *unscaled, table).train, table);
  }
  if (out.series.empty()) {
    fail_too_short(longest_of(table), table, split, lookback, horizon);
  }
  INGOT_CHECK(validation_measured,
              DataError(table.source, 0, "",
                        "has no value of what is to be forecast in its validation part, which chooses the "
                        "weights to keep; fit to other columns or rows, or set other fractions"));
  return out;
}

}  // namespace ingot::forecast
