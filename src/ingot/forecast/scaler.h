#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ingot/forecast/table/series_table.h"

namespace ingot::forecast {

enum class ScalerKind : std::uint8_t {
  standard,  ///< (x - mean) / standard deviation (of the population, as scikit-learn)
  min_max,   ///< (x - min) / (max - min)
  none,
};
ScalerKind parse_scaler(std::string_view text, std::string_view key = "scaler");
std::string_view name(ScalerKind kind);

/// y = (x - shift) / scale for every column of one series.
struct ColumnScales {
  std::vector<double> shift, scale;
};

enum class ConstantColumns : std::uint8_t {
  refuse,      ///< DataError that names a column where every target is so: nothing can be learnt from it
  unit_scale,  ///< only shifted: to continue it is not harder than another
};

/// What is wrong with a target over the first `rows` rows: "is constant (7) over the 70 rows ...". Empty
/// where it can be scaled.
std::string scaling_problem(ScalerKind kind, const Series& series, std::size_t target, std::int64_t rows);

/// Fits on what was measured in the first `rows` rows of a series, in f64. A constant input, and a constant
/// target beside others, is only shifted.
ColumnScales fit_scales(ScalerKind kind, const Series& series, std::int64_t rows, const SeriesTable& table,
                        ConstantColumns constant = ConstantColumns::refuse);

}  // namespace ingot::forecast
