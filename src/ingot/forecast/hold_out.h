#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "ingot/forecast/table/series_table.h"

namespace ingot {
struct Report;
}

namespace ingot::forecast {

/// Values [targets][horizon] of a series from row `origin` on; empty where the model cannot tell.
using ForecastFrom =
    std::function<std::vector<std::vector<double>>(const Series& series, std::int64_t origin)>;

/// Adds to a page how far off forecasts of `horizon` rows were that begin `behind` rows before the end of
/// some series, made from the rows before: those of a model and those of naive, seasonal naive and ETS, the
/// best marked. MASE, of measured values. Adds nothing where no series has more rows than that, or the
/// seasonal naive forecast makes no error.
void add_hold_out(Report& report, const std::string& model, const SeriesTable& table,
                  const std::vector<const Series*>& series, std::int64_t behind, std::int64_t horizon,
                  const ForecastFrom& forecast);

}  // namespace ingot::forecast
