#pragma once

#include <map>
#include <string>
#include <vector>

#include "ingot/forecast/evaluate.h"

// What evaluations add up, whatever makes the forecasts.
namespace ingot::forecast {

/// One target of one series, and what its errors are measured against.
struct ErrorColumn {
  const Series* series;
  std::size_t index;  // of the column
  std::int64_t target;
  double shift, scale;
  std::int64_t season;
  double naive_error;        // mean |x[t] - x[t - season]| over the training part
  std::int64_t first, last;  // origins
};

/// Mean |x[t] - x[t - season]| of measured values among the first `rows` rows; 0 where there are none.
double seasonal_error(const Series& series, std::size_t column, std::int64_t rows, std::int64_t season);

/// Where training, validation and test part end: as the split says, or with so many rows of test part (not
/// 0).
Borders test_borders(const SplitOptions& split, const Series& series, const SeriesTable& table,
                     std::int64_t test_rows);

/// Of a table whose test part holds no horizon in any series, which only models without training can be
/// compared on: so many last rows that the longest series keeps a history. 0 elsewhere. DataError where its
/// rows do not suffice for that either.
std::int64_t test_rows_of_short_table(const SplitOptions& split, const SeriesTable& table,
                                      std::int64_t horizon);

/// What errors of one method add up to, where there is a measured value to err from.
struct ErrorSums {
  double squares = 0, absolute = 0, relative = 0, symmetric = 0, count = 0;
  double relative_count = 0;  // of the columns that the seasonal naive forecast errs on
  std::map<int, double> inside;
  std::vector<double> by_step, count_by_step;

  /// No errors yet of forecasts so many steps ahead.
  static ErrorSums of(std::int64_t horizon);
  void merge(const ErrorSums& o);
  /// `actual` and `forecast` in the table's units.
  void add(const ErrorColumn& c, std::size_t step, double actual, double forecast);
  Metrics metrics(std::string method, double seconds) const;
};

}  // namespace ingot::forecast
