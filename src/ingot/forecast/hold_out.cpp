#include "ingot/forecast/hold_out.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>

#include <fmt/format.h>

#include "ingot/base/report.h"
#include "ingot/forecast/error_sums.h"
#include "ingot/forecast/statistical/local_model.h"

namespace ingot::forecast {
namespace {

// Of one method over all columns: errors over those of the seasonal naive forecast in the rows before.
struct HoldOutErrors {
  std::string method;
  double sum = 0, count = 0;

  void add(const Series& series, std::size_t target, std::int64_t origin, std::int64_t rows, double naive,
           std::span<const double> forecast) {
    for (std::int64_t h = 0; h < rows; ++h) {
      const auto row = static_cast<std::size_t>(origin + h);
      if (!series.measured(target, row)) continue;
      sum += std::abs(series.columns[target][row] - forecast[static_cast<std::size_t>(h)]) / naive;
      count += 1;
    }
  }
  double mase() const { return sum / count; }
};

}  // namespace

void add_hold_out(Report& report, const std::string& model, const SeriesTable& table,
                  const std::vector<const Series*>& series, std::int64_t behind, std::int64_t horizon,
                  const ForecastFrom& forecast) {
  constexpr std::size_t kMostSeries = 24;  // as many as are drawn
  constexpr std::array<const char*, 3> kSimple{"naive", "seasonal_naive", "ets"};
  const std::int64_t rows = std::min(behind, horizon);
  std::vector<HoldOutErrors> methods{{.method = model}};
  for (const char* name : kSimple) {
    if (name != model) methods.push_back({.method = name});
  }
  for (std::size_t s = 0; s < std::min(kMostSeries, series.size()); ++s) {
    const Series& one = *series[s];
    const std::int64_t origin = static_cast<std::int64_t>(one.length()) - behind;
    if (origin < 2) continue;
    const std::int64_t usual = table.frequency.season(), season = usual < origin ? usual : 1;
    const std::vector<std::vector<double>> own = forecast(one, origin);
    for (std::size_t t = 0; t < own.size(); ++t) {
      const double naive = seasonal_error(one, t, origin, season);
      if (!(naive > 0)) continue;
      const std::span<const double> history(one.columns[t].data(), static_cast<std::size_t>(origin));
      methods[0].add(one, t, origin, rows, naive, own[t]);
      for (std::size_t m = 1; m < methods.size(); ++m) {
        methods[m].add(one, t, origin, rows, naive,
                       local_model(methods[m].method)(history, season, rows).mean);
      }
    }
  }
  if (!(methods[0].count > 0)) return;
  ReportTable scores{.title = behind == rows
                                  ? fmt::format("The last {} rows, forecast from those before", rows)
                                  : fmt::format("{} rows from {} before the end on", rows, behind),
                     .columns = {"model", "MASE"},
                     .rows = {}};
  const auto best = std::ranges::min_element(methods, {}, &HoldOutErrors::mase);
  for (const HoldOutErrors& m : methods) scores.rows.push_back({m.method, fmt::format("{:.3f}", m.mase())});
  scores.best = {static_cast<std::size_t>(best - methods.begin())};
  report.figures.push_back({"hold-out error", fmt::format("{:.3f}", methods[0].mase()),
                            best == methods.begin()
                                ? "MASE; the least of those compared"
                                : fmt::format("MASE; {} has the least, {:.3f}", best->method, best->mase())});
  report.tables.push_back(std::move(scores));
}

}  // namespace ingot::forecast
