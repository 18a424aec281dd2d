#include "ingot/forecast/plot.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include <fmt/format.h>

#include "ingot/base/plural.h"
#include "ingot/base/units.h"
#include "ingot/forecast/hold_out.h"
#include "ingot/forecast/statistical/local_forecaster.h"
#include "ingot/forecast/table/civil.h"
#include "ingot/forecast/table/future_columns.h"

namespace ingot::forecast {
namespace {

ReportSeries line(std::string name, std::span<const Moment> times, std::span<const double> values) {
  ReportSeries series{.name = std::move(name), .x = {}, .y = {values.begin(), values.end()}};
  for (const Moment t : times) series.x.push_back(static_cast<double>(t));
  return series;
}

// Charts write moments as they are, whatever clock they count by.
std::string x_label(const DateStyle& style) {
  if (style.number) return "row";
  if (style.local) return fmt::format("date ({})", style.zone_name);
  if (style.zone.empty() && style.epoch == 0) return "date";
  const bool utc = !style.own_clock || style.offset == 0;
  return utc ? "date (UTC)" : fmt::format("date (UTC{})", format_offset(style.offset));
}

// What a row stands for, as charts write it; empty: a moment.
std::string date_unit(const SeriesTable& table) {
  const Frequency& f = table.frequency;
  if (table.date_style.number) return "";
  if (f.unit == Frequency::Unit::business_days) return "day";
  if (f.unit == Frequency::Unit::seconds) return f.step % kDay == 0 ? "day" : "";
  if (f.step % 12 == 0) return "year";
  // Quarters of the calendar begin or end with the row's month.
  const std::int64_t month = civil_of(table.series.front().times.front()).month;
  const bool quarters = f.step % 3 == 0 && (month % 3 == 1 || month % 3 == 0);
  return quarters ? "quarter" : "month";
}

// Rows of months lie at their beginnings, where the ticks are.
void to_beginnings(ReportChart& chart) {
  if (chart.date_unit != "month" && chart.date_unit != "quarter" && chart.date_unit != "year") return;
  const std::int64_t months = chart.date_unit == "month" ? 1 : chart.date_unit == "quarter" ? 3 : 12;
  for (ReportSeries& series : chart.series) {
    for (double& x : series.x) {
      Civil c = civil_of(static_cast<Moment>(x));
      c.month -= (c.month - 1) % months;
      x = static_cast<double>(days_of(c.year, c.month, 1) * kDay);
    }
  }
}

std::int64_t rows_of_history(std::int64_t horizon, const SeriesTable& table, const PlotOptions& options) {
  constexpr std::int64_t kLeast = 40;
  if (options.history > 0) return options.history;
  return std::max({kLeast, 5 * horizon, 4 * table.frequency.season()});
}

ReportChart series_chart(std::int64_t horizon, const SeriesTable& table, const Series& series,
                         std::size_t target, const SeriesForecast& forecast, std::int64_t origin,
                         const PlotOptions& options) {
  const std::string& column = table.column_names[target];
  ReportChart chart{
      .title = series.id.empty() ? column : series.id + (table.targets > 1 ? " · " + column : ""),
      .x_label = x_label(table.date_style),
      .y_label = column,
      .right_label = {},
      .dates = !table.date_style.number,
      .date_unit = date_unit(table),
      .series = {}};
  const std::int64_t first = std::max<std::int64_t>(0, origin - rows_of_history(horizon, table, options));
  const std::int64_t last = std::min(static_cast<std::int64_t>(series.length()), origin + horizon);
  const auto rows = [&](const auto& values) {
    return std::span(values).subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(last - first));
  };
  chart.series.push_back(line("actual", rows(series.times), rows(series.columns[target])));
  for (std::int64_t i = first; i < last; ++i) {
    if (series.measured(target, static_cast<std::size_t>(i))) continue;
    chart.series.back().y[static_cast<std::size_t>(i - first)] = std::numeric_limits<double>::quiet_NaN();
  }
  // Lines begin at the last row that was measured, so that nothing seems to be missing between.
  std::vector<Moment> times = forecast.times;
  auto before = static_cast<std::size_t>(origin - 1);
  while (before > static_cast<std::size_t>(first) && !series.measured(target, before)) --before;
  const bool joined = origin > 0 && series.measured(target, before);
  if (joined) times.insert(times.begin(), series.times[before]);
  const auto add = [&](std::string name, std::vector<double> values) {
    if (joined) values.insert(values.begin(), series.columns[target][before]);
    chart.series.push_back(line(std::move(name), times, values));
  };
  add("forecast", forecast.values[target]);
  for (const auto& [level, low] : forecast.low) {
    add(fmt::format("{} % interval", level), low[target]);
    chart.series.back().band = true;
    add(fmt::format("{} % interval", level), forecast.high.at(level)[target]);
  }
  to_beginnings(chart);
  return chart;
}

std::string written(double value) { return fmt::format("{:.4f}", value); }

std::string written_mase(double mase) { return std::isnan(mase) ? "-" : fmt::format("{:.3f}", mase); }

ReportFigure series_figure(const SeriesTable& table, std::int64_t drawn, bool some_too_short) {
  const auto all = static_cast<std::int64_t>(table.series.size() * table.targets);
  const auto [shortest, longest] = std::ranges::minmax_element(table.series, {}, &Series::length);
  std::string note = shortest->length() == longest->length()
                         ? fmt::format("{} rows", longest->length())
                         : fmt::format("{} to {} rows", shortest->length(), longest->length());
  if (drawn < all) {
    note += fmt::format("; the first {}{} are drawn", drawn, some_too_short ? " that are long enough" : "");
  }
  return {"series", std::to_string(all), note};
}

void check_hold_out(const SeriesTable& table, std::int64_t hold_out, std::int64_t lookback) {
  const auto longest =
      static_cast<std::int64_t>(std::ranges::max_element(table.series, {}, &Series::length)->length());
  INGOT_CHECK(hold_out >= 0 && (hold_out == 0 || longest - hold_out >= lookback),
              InvalidConfig("hold_out",
                            fmt::format("must be from 0 to {}, which leaves the model its look-back of "
                                        "{} rows, got {}",
                                        std::max<std::int64_t>(0, longest - lookback), lookback, hold_out)));
}

// Those that leave the model its look-back; all where none does, so that the error names one.
std::vector<const Series*> series_to_draw(const SeriesTable& table, std::int64_t rows_needed) {
  std::vector<const Series*> long_enough, all;
  for (const Series& series : table.series) {
    all.push_back(&series);
    if (static_cast<std::int64_t>(series.length()) >= rows_needed) long_enough.push_back(&series);
  }
  return long_enough.empty() ? all : long_enough;
}

}  // namespace

ReportChart training_chart(const std::vector<EpochReport>& epochs, const std::string& loss) {
  ReportChart chart{.title = "Training",
                    .x_label = "epoch",
                    .y_label = loss + " of scaled values",
                    .right_label = {},
                    .whole_x = true,
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
  if (hold_out == 0 && !known_ahead(table, f.config.model.horizon)) hold_out = f.config.model.horizon;
  check_hold_out(table, hold_out, f.config.model.lookback);
  const std::vector<const Series*> series_drawn = series_to_draw(table, f.config.model.lookback + hold_out);
  const std::int64_t drawn =
      std::min(options.most_charts, static_cast<std::int64_t>(series_drawn.size() * table.targets));
  Report report;
  report.title = counted(f.config.model.horizon, "step") + " ahead";
  report.subtitle = fmt::format("{} · {} · look-back {} · one row per {}", table.source, f.config.model.model,
                                f.config.model.lookback, table.frequency.in_words());
  report.environment = f.metadata.rows();
  report.figures = {
      {"model", f.config.model.model,
       fmt::format("{} parameters", human_count(static_cast<double>(count_parameters(*f.model))))},
      series_figure(table, drawn, series_drawn.size() < table.series.size())};
  if (!f.epochs.empty()) {
    double best = f.epochs[0].validation_loss;
    for (const EpochReport& e : f.epochs) best = std::min(best, e.validation_loss);
    report.figures.push_back(
        {"validation " + f.config.loss, written(best), counted(std::ssize(f.epochs), "epoch")});
  }
  std::vector<int> levels = options.level ? std::vector{*options.level} : f.calibration.usual_levels();
  if (levels.size() > 1) levels.erase(levels.begin(), levels.end() - 1);
  if (f.calibration.quantiles.defined()) {
    report.figures.push_back({"interval", levels.empty() ? "none" : fmt::format("{} %", levels[0]),
                              "conformal, from " + counted(f.calibration.windows, "window")});
  }
  for (const Series* series : series_drawn) {
    if (static_cast<std::int64_t>(report.charts.size()) == drawn) break;
    const std::int64_t origin = static_cast<std::int64_t>(series->length()) - hold_out;
    const SeriesForecast forecast = predict_at(f, table, *series, origin, levels);
    for (std::size_t t = 0; t < table.targets; ++t) {
      if (static_cast<std::int64_t>(report.charts.size()) == drawn) break;
      report.charts.push_back(
          series_chart(f.config.model.horizon, table, *series, t, forecast, origin, options));
    }
  }
  if (f.epochs.size() > 1) report.charts.push_back(training_chart(f.epochs, f.config.loss));
  if (f.config.refit) {
    report.subtitle += " · fitted to all rows";
    return report;  // which it has seen, so nothing is held out
  }
  add_hold_out(report, f.config.model.model, table, series_drawn,
               hold_out == 0 ? f.config.model.horizon : hold_out, f.config.model.horizon,
               [&](const Series& series, std::int64_t origin) {
                 if (origin < f.config.model.lookback) return std::vector<std::vector<double>>{};
                 return predict_at(f, table, series, origin, {}).values;
               });
  return report;
}

Report local_report(const LocalForecaster& f, const SeriesTable& table, std::int64_t hold_out,
                    const PlotOptions& options) {
  f.check(table);
  if (hold_out == 0 && !known_ahead(table, f.horizon)) hold_out = f.horizon;
  check_hold_out(table, hold_out, 1);
  const std::vector<const Series*> series_drawn = series_to_draw(table, 1 + hold_out);
  const std::int64_t drawn =
      std::min(options.most_charts, static_cast<std::int64_t>(series_drawn.size() * table.targets));
  Report report;
  report.title = counted(f.horizon, "step") + " ahead";
  report.subtitle = fmt::format("{} · {} · season {} · one row per {}", table.source, f.model, f.season,
                                table.frequency.in_words());
  report.environment = f.metadata.rows();
  report.figures = {{"model", f.model, f.scores.empty() ? "" : "the best of those compared"},
                    series_figure(table, drawn, series_drawn.size() < table.series.size())};
  for (const Series* series : series_drawn) {
    if (static_cast<std::int64_t>(report.charts.size()) == drawn) break;
    const std::int64_t origin = static_cast<std::int64_t>(series->length()) - hold_out;
    const SeriesForecast forecast = predict_local_at(f, table, *series, origin, {options.level.value_or(90)});
    for (std::size_t t = 0; t < table.targets && static_cast<std::int64_t>(report.charts.size()) < drawn;
         ++t) {
      report.charts.push_back(series_chart(f.horizon, table, *series, t, forecast, origin, options));
    }
  }
  if (!f.scores.empty()) {
    ReportTable scores{
        .title = "Rolling cross-validation", .columns = {"model", "MASE"}, .rows = {}, .best = {0}};
    for (const LocalScore& score : f.scores) scores.rows.push_back({score.model, written_mase(score.mase)});
    report.tables.push_back(std::move(scores));
  }
  add_hold_out(report, f.model, table, series_drawn, hold_out == 0 ? f.horizon : hold_out, f.horizon,
               [&](const Series& series, std::int64_t origin) {
                 return predict_local_at(f, table, series, origin, {}).values;
               });
  return report;
}

namespace {

// Of the intervals that any of the methods tells of.
std::set<int> levels_of(const std::vector<Metrics>& methods) {
  std::set<int> levels;
  for (const Metrics& m : methods) {
    for (const auto& [level, unused] : m.coverage) levels.insert(level);
  }
  return levels;
}

std::string share_inside(const Metrics& m, int level, const char* percent) {
  const auto share = m.coverage.find(level);
  return share == m.coverage.end() ? "" : fmt::format("{:.1f}{}", share->second, percent);
}

}  // namespace

std::string metrics_table(const std::vector<Metrics>& methods) {
  const std::set<int> levels = levels_of(methods);
  std::size_t width = 10;  // 40 columns hold the first three errors
  for (const Metrics& m : methods) width = std::max(width, m.method.size() + 2);
  std::string text = fmt::format("{:<{}}{:>8}{:>8}{:>8}{:>9}", "", width, "MSE", "MAE", "MASE", "sMAPE");
  for (const int level : levels) text += fmt::format("{:>10}", fmt::format("in {} %", level));
  text += "\n";
  for (const Metrics& m : methods) {
    text += fmt::format("{:<{}} {:>7.4f} {:>7.4f} {:>7}{:>8.1f}%", m.method, width, m.mse, m.mae,
                        written_mase(m.mase), m.smape);
    std::string shares;
    for (const int level : levels) shares += fmt::format("{:>10}", share_inside(m, level, "%"));
    text += shares.substr(0, shares.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

namespace {

double error_of(const Compared& c) { return std::isnan(c.metrics.mase) ? c.metrics.mae : c.metrics.mase; }

// A row of metrics; the table has all.
void add_best(Report& report, std::vector<Compared> methods) {
  constexpr std::size_t kMost = 6;
  std::ranges::stable_sort(methods, {}, error_of);
  methods.resize(std::min(kMost, methods.size()));
  for (const Compared& c : methods) {
    const bool scaled = std::isnan(c.metrics.mase);
    report.figures.push_back({c.metrics.method,
                              scaled ? written(c.metrics.mae) : written_mase(c.metrics.mase),
                              fmt::format("{}; MSE {:.4f}", scaled ? "MAE" : "MASE", c.metrics.mse)});
  }
}

ReportTable comparison_table(const std::vector<Compared>& methods) {
  ReportTable table{.title = "Errors", .columns = {"", "MSE", "MAE", "MASE", "sMAPE"}, .rows = {}};
  std::vector<Metrics> metrics;
  metrics.reserve(methods.size());
  for (const Compared& c : methods) metrics.push_back(c.metrics);
  const std::set<int> levels = levels_of(metrics);
  for (const int level : levels) table.columns.push_back(fmt::format("in {} %", level));
  const bool networks = std::ranges::any_of(methods, [](const Compared& c) { return c.parameters > 0; });
  if (networks) table.columns.insert(table.columns.end(), {"parameters", "fitted in"});
  for (const Compared& c : methods) {
    const Metrics& m = c.metrics;
    std::vector<std::string> row{m.method, written(m.mse), written(m.mae), written_mase(m.mase),
                                 fmt::format("{:.1f} %", m.smape)};
    for (const int level : levels) row.push_back(share_inside(m, level, " %"));
    if (networks) {
      row.push_back(c.parameters > 0 ? human_count(static_cast<double>(c.parameters)) : "");
      row.push_back(c.fit_seconds > 0 ? human_duration(c.fit_seconds) + (c.stopped ? ", stopped" : "") : "");
    }
    table.rows.push_back(std::move(row));
  }
  table.best = {best_of(methods)};
  return table;
}

}  // namespace

std::size_t best_of(const std::vector<Compared>& methods) {
  return static_cast<std::size_t>(std::ranges::min_element(methods, {}, error_of) - methods.begin());
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
  add_best(report, methods);
  for (const Compared& c : methods) {
    const Metrics& m = c.metrics;
    ReportSeries series{.name = m.method, .x = {}, .y = m.mae_by_step, .dashed = c.fit_seconds == 0};
    for (std::size_t h = 0; h < series.y.size(); ++h) series.x.push_back(static_cast<double>(h + 1));
    chart.series.push_back(std::move(series));
  }
  report.charts.push_back(std::move(chart));
  report.tables.push_back(comparison_table(methods));
  return report;
}

}  // namespace ingot::forecast
