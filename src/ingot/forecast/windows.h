#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ingot/base/parallel.h"
#include "ingot/core/tensor.h"
#include "ingot/forecast/scaler.h"
#include "ingot/models/forecast/model.h"

namespace ingot::forecast {

/// How rows are divided into training, validation and test: by time, in this order.
struct SplitOptions {
  /// "ratio", or "ett": 12, 4 and 4 months of 30 days (hours and minutes), rows after them unused. That is
  /// the split of every published result on ETTh1, ETTh2, ETTm1 and ETTm2.
  std::string kind = "ratio";
  double train = 0.7, test = 0.2;  ///< shares of the rows; validation is the rest
  void validate() const;
};

/// The first row after each part.
struct Borders {
  std::int64_t train = 0, validation = 0, test = 0;
};
/// DataError where a series is too short for the preset.
Borders borders_of(const SplitOptions& split, const Series& series, const SeriesTable& table);

/// A series as models see it: scaled, f32, column-major.
struct ScaledSeries {
  std::string id;
  Tensor values;  ///< [columns, rows]
  Tensor marks;   ///< calendar features [rows, features]; undefined where the frequency has none
  Tensor inputs;  ///< what is known ahead [rows, inputs], as the table has it; undefined where nothing is
  /// 1 where a value was measured, 0 where it was made up, [columns, rows]; undefined where all were
  /// measured.
  Tensor measured;
  ColumnScales scales;
};
ScaledSeries scaled(const Series& series, ColumnScales scales, const Frequency& frequency);

struct Batch {
  ForecastInput input;  ///< what a model reads
  Tensor target;        ///< [B, targets, horizon], scaled
  Tensor measured;      ///< 1 where the target was measured, else 0, as `target`; undefined where all were
};

/// Windows of look-back plus horizon over rows [first, last) of several series. Only positions are kept: a
/// window's values are read from the series when a batch is made.
class WindowSet {
 public:
  WindowSet(std::int64_t lookback, std::int64_t horizon, std::int64_t targets)
      : lookback_(lookback), horizon_(horizon), targets_(targets) {}
  /// Adds every window that fits into rows [first, last), `stride` rows apart. Returns how many.
  std::int64_t add(std::shared_ptr<const ScaledSeries> series, std::int64_t first, std::int64_t last,
                   std::int64_t stride = 1);

  std::int64_t size() const { return size_; }
  std::int64_t lookback() const { return lookback_; }
  std::int64_t horizon() const { return horizon_; }
  std::int64_t targets() const { return targets_; }
  struct Position {
    const ScaledSeries* series;
    std::int64_t first;  ///< row of the look-back's first value
  };
  Position at(std::int64_t window) const;
  /// Copies the windows' values next to each other.
  Batch batch(std::span<const std::int64_t> windows) const;
  /// visit(first, batch) for all windows, in order and some at a time: windows first, first + 1, ... Or only
  /// for every `step`-th of these batches, from number `begin` on.
  void for_each_batch(FunctionRef<void(std::int64_t first, const Batch& batch)> visit, std::int64_t begin = 0,
                      std::int64_t step = 1) const;
  /// How many of them there are.
  std::int64_t batches() const { return (size_ + kAtOnce - 1) / kAtOnce; }

 private:
  // The largest model's layers then take some hundred MB, not gigabytes.
  static constexpr std::int64_t kAtOnce = 32;

  struct Range {
    std::shared_ptr<const ScaledSeries> series;
    std::int64_t first, stride, before, count;
  };
  std::int64_t lookback_, horizon_, targets_, size_ = 0;
  std::vector<Range> ranges_;
};

/// The ids of the series of which a part holds no window.
std::vector<std::string> series_too_short(const SeriesTable& table, const SplitOptions& split,
                                          std::int64_t lookback, std::int64_t horizon);

/// The series that a fit leaves out where others are there: those without a window in a part, and those whose
/// targets are constant or have no value in the training part.
std::vector<LeftOut> series_not_fitted(const SeriesTable& table, const SplitOptions& split, ScalerKind scaler,
                                       std::int64_t lookback, std::int64_t horizon);

/// Takes columns out of a wide table that are constant in its training part, or have no value there, and
/// returns them; none where every target is so.
std::vector<LeftOut> take_out_constant_columns(SeriesTable& table, const SplitOptions& split,
                                               ScalerKind scaler);

/// Rows to forecast where nobody said how many: a season, 52 at most, or 10 where there is none, and no more
/// than half of the longest series.
std::int64_t usual_horizon(const SeriesTable& table);
/// The same, or as many as the parts of a table hold that is too short for it; 1 at least.
std::int64_t short_table_horizon(const SeriesTable& table, const SplitOptions& split);

/// A look-back for a table that is too short for a model's usual one: a third of what the training part of
/// the longest series leaves, in whole seasons where that has one. 0 where the horizon leaves none.
std::int64_t short_table_lookback(const SeriesTable& table, const SplitOptions& split, std::int64_t horizon);

/// The three parts of a table, scaled by what the training part says.
struct DataSplit {
  std::vector<std::shared_ptr<const ScaledSeries>> series;  ///< without series_not_fitted()
  WindowSet train, validation, test;
};
/// series_not_fitted() take no part. DataError that names the longest and its rows where all are too short,
/// or what is wrong with the first that is not; one that says so where no value to forecast was measured in
/// the validation part.
DataSplit split_windows(const SeriesTable& table, const SplitOptions& split, ScalerKind scaler,
                        std::int64_t lookback, std::int64_t horizon);

}  // namespace ingot::forecast
