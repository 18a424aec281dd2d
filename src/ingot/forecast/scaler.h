#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ingot/forecast/series_table.h"

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
  refuse,      ///< DataError that names the column: nothing can be learnt from it
  unit_scale,  ///< only shifted: to continue it is no harder than another
};

/// Fits on what was measured in the first `rows` rows of a series, in f64.
ColumnScales fit_scales(ScalerKind kind, const Series& series, std::int64_t rows, const SeriesTable& table,
                        ConstantColumns constant = ConstantColumns::refuse);

}  // namespace ingot::forecast
