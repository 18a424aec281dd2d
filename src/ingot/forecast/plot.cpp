#include "ingot/forecast/plot.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "ingot/base/units.h"

namespace ingot::forecast {
namespace {

ReportSeries line(std::string name, std::span<const Moment> times, std::span<const double> values) {
  ReportSeries series{.name = std::move(name), .x = {}, .y = {values.begin(), values.end()}};
  for (const Moment t : times) series.x.push_back(static_cast<double>(t));
  return series;
}

ReportChart series_chart(const Forecaster& f, const SeriesTable& table, const Series& series,
                         std::size_t target, const SeriesForecast& forecast, std::int64_t origin,
                         const PlotOptions& options) {
  const std::string& column = table.column_names[target];
  ReportChart chart{
      .title = series.id.empty() ? column : series.id + (table.targets > 1 ? " · " + column : ""),
      .x_label = table.date_style.number ? "row" : "date (UTC)",
      .y_label = column,
      .right_label = {},
      .dates = !table.date_style.number,
      .series = {}};
  const std::int64_t history = options.history > 0 ? options.history : 3 * f.config.model.horizon;
  const std::int64_t first = std::max<std::int64_t>(0, origin - history);
  const std::int64_t last =
      std::min(static_cast<std::int64_t>(series.length()), origin + f.config.model.horizon);
  const auto rows = [&](const auto& values) {
    return std::span(values).subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(last - first));
  };
  chart.series.push_back(line("actual", rows(series.times), rows(series.columns[target])));
  chart.series.push_back(line("forecast", forecast.times, forecast.values[target]));
  if (forecast.low.contains(options.level)) {
    ReportSeries low =
        line(fmt::format("{} % from", options.level), forecast.times, forecast.low.at(options.level)[target]);
    low.band = true;
    chart.series.push_back(std::move(low));
    chart.series.push_back(
        line(fmt::format("{} % to", options.level), forecast.times, forecast.high.at(options.level)[target]));
  }
  return chart;
}

std::string written(double value) { return fmt::format("{:.4f}", value); }

}  // namespace

ReportChart training_chart(const std::vector<EpochReport>& epochs, const std::string& loss) {
  ReportChart chart{.title = "Training",
                    .x_label = "epoch",
                    .y_label = loss + " of scaled values",
                    .right_label = {},
                    .series = {}};
  ReportSeries train{.name = "training", .x = {}, .y = {}},
      validation{.name = "validation", .x = {}, .y = {}};
  for (const EpochReport& e : epochs) {
    train.x.push_back(static_cast<double>(e.epoch));
    train.y.push_back(e.train_loss);
    validation.x.push_back(static_cast<double>(e.epoch));
    validation.y.push_back(e.validation_loss);
  }
  chart.series = {std::move(train), std::move(validation)};
  return chart;
}

Report forecast_report(const Forecaster& f, const SeriesTable& table, std::int64_t hold_out,
                       const PlotOptions& options) {
  f.check(table);
  Report report;
  report.title = fmt::format("{} steps ahead", f.config.model.horizon);
  report.subtitle = fmt::format("{} · {} · look-back {} · one row per {}", table.source, f.config.model.model,
                                f.config.model.lookback, table.frequency.name());
  report.figures = {
      {"model", f.config.model.model,
       fmt::format("{} parameters", human_count(static_cast<double>(count_parameters(*f.model))))},
      {"series", std::to_string(table.series.size() * table.targets),
       fmt::format("{} rows", table.series[0].length())}};
  if (!f.epochs.empty()) {
    double best = f.epochs[0].validation_loss;
    for (const EpochReport& e : f.epochs) best = std::min(best, e.validation_loss);
    report.figures.push_back(
        {"validation " + f.config.loss, written(best), fmt::format("{} epochs", f.epochs.size())});
  }
  const std::vector<int> levels =
      f.calibration.quantiles.defined() ? std::vector<int>{options.level} : std::vector<int>{};
  if (!levels.empty()) {
    report.figures.push_back({"interval", fmt::format("{} %", options.level),
                              fmt::format("conformal, from {} windows", f.calibration.windows)});
  }
  for (const Series& series : table.series) {
    const std::int64_t origin = static_cast<std::int64_t>(series.length()) - hold_out;
    const SeriesForecast forecast = predict_at(f, table, series, origin, levels);
    for (std::size_t t = 0; t < table.targets; ++t) {
      if (static_cast<std::int64_t>(report.charts.size()) >= options.most_charts) break;
      report.charts.push_back(series_chart(f, table, series, t, forecast, origin, options));
    }
  }
  if (f.epochs.size() > 1) report.charts.push_back(training_chart(f.epochs, f.config.loss));
  return report;
}

std::string metrics_table(const std::vector<Metrics>& methods) {
  std::string text = fmt::format("{:<16}{:>9}{:>9}{:>9}{:>9}", "", "MSE", "MAE", "MASE", "sMAPE");
  for (const auto& [level, unused] : methods[0].coverage)
    text += fmt::format("{:>10}", fmt::format("in {} %", level));
  text += "\n";
  for (const Metrics& m : methods) {
    text += fmt::format("{:<16}{:>9.4f}{:>9.4f}{:>9.3f}{:>8.1f}%", m.method, m.mse, m.mae, m.mase, m.smape);
    for (const auto& [level, share] : m.coverage) text += fmt::format("{:>9.1f}%", share);
    text += "\n";
  }
  return text;
}

Report comparison_report(const std::string& data, std::int64_t windows,
                         const std::vector<Compared>& methods) {
  Report report;
  report.title = "Forecasts compared";
  report.subtitle = fmt::format("{} · {} test windows", data, windows);
  ReportChart chart{.title = "Error by step ahead",
                    .x_label = "steps ahead",
                    .y_label = "MAE of scaled values",
                    .right_label = {},
                    .series = {}};
  for (const Compared& c : methods) {
    report.figures.push_back(
        {c.metrics.method, written(c.metrics.mse), fmt::format("MSE; MAE {:.4f}", c.metrics.mae)});
    std::string row = fmt::format("MSE {:.4f} · MAE {:.4f} · MASE {:.3f} · sMAPE {:.1f} %", c.metrics.mse,
                                  c.metrics.mae, c.metrics.mase, c.metrics.smape);
    for (const auto& [level, share] : c.metrics.coverage)
      row += fmt::format(" · {:.1f} % in {} %", share, level);
    if (c.fit_seconds > 0) row += fmt::format(" · fitted in {}", human_duration(c.fit_seconds));
    report.config.emplace_back(c.metrics.method, row);
    if (c.mae_by_step.empty()) continue;
    ReportSeries series{.name = c.metrics.method, .x = {}, .y = c.mae_by_step, .dashed = c.fit_seconds == 0};
    for (std::size_t h = 0; h < c.mae_by_step.size(); ++h) series.x.push_back(static_cast<double>(h + 1));
    chart.series.push_back(std::move(series));
  }
  report.charts.push_back(std::move(chart));
  return report;
}

}  // namespace ingot::forecast
