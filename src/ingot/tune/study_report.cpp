#include "ingot/tune/study_report.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "ingot/base/report.h"
#include "ingot/base/units.h"
#include "ingot/tune/failures.h"
#include "ingot/tune/importance.h"

namespace ingot::tune {
namespace {

constexpr std::size_t kMostCurves = 12, kMostSlices = 12, kMostFailures = 100;

ReportChart history_chart(const std::vector<Trial>& trials, Direction direction) {
  ReportSeries values{.name = "trial", .points = true}, best{.name = "best so far"};
  const Trial* leader = nullptr;
  for (const Trial& trial : trials) {
    if (trial.state != TrialState::complete) continue;
    const auto x = static_cast<double>(trial.number);
    if (leader == nullptr || better(direction, trial.value, leader->value)) leader = &trial;
    values.x.push_back(x);
    values.y.push_back(trial.value);
    best.x.push_back(x);
    best.y.push_back(leader->value);
  }
  return {.title = "History", .x_label = "trial", .y_label = "value", .series = {values, best}};
}

ReportChart importance_chart(const SearchSpace& space, const std::vector<double>& shares) {
  ReportChart chart{.title = "What each parameter explains alone", .x_label = "% of the variance"};
  std::vector<std::size_t> order(shares.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, [&](std::size_t a, std::size_t b) { return shares[a] > shares[b]; });
  ReportSeries bars{.name = "share"};
  for (const std::size_t i : order) {
    chart.categories.push_back(space.parameters[i].name);
    bars.x.push_back(static_cast<double>(bars.x.size()));
    bars.y.push_back(100 * shares[i]);
  }
  chart.categories.push_back("several together");
  bars.x.push_back(static_cast<double>(bars.x.size()));
  bars.y.push_back(100 * std::max(0.0, 1 - std::accumulate(shares.begin(), shares.end(), 0.0)));
  chart.series.push_back(std::move(bars));
  return chart;
}

// One chart per parameter; of choices, one series per choice, side by side.
ReportChart slice_chart(const SearchSpace& space, std::size_t i, const std::vector<Trial>& trials) {
  const Parameter& p = space.parameters[i];
  ReportChart chart{.title = p.name, .x_label = p.name, .y_label = "value", .log_x = p.log};
  const bool choice = p.kind == ParameterKind::categorical;
  chart.series.resize(choice ? p.choices.size() : 1);
  for (std::size_t s = 0; s < chart.series.size(); ++s) {
    chart.series[s] = {.name = choice ? p.choices[s] : "trial", .points = true};
  }
  std::vector<const Trial*> sorted;
  for (const Trial& trial : trials) {
    if (trial.state == TrialState::complete && !std::isnan(trial.values[i])) sorted.push_back(&trial);
  }
  std::ranges::sort(sorted, {}, [&](const Trial* trial) { return trial->values[i]; });
  for (const Trial* trial : sorted) {
    ReportSeries& series = chart.series[choice ? static_cast<std::size_t>(trial->values[i]) : 0];
    series.x.push_back(trial->values[i]);
    series.y.push_back(trial->value);
  }
  if (choice) chart.x_label += " (a column per choice)";
  return chart;
}

ReportChart curve_chart(std::vector<Trial> trials, Direction direction) {
  ReportChart chart{.title = "Curves of the best trials", .x_label = "step", .y_label = "reported value"};
  std::erase_if(trials, [](const Trial& trial) { return trial.reports.size() < 2; });
  std::ranges::stable_sort(trials, [&](const Trial& a, const Trial& b) {
    return better(direction, a.reports.back().value, b.reports.back().value);
  });
  if (trials.size() > kMostCurves) trials.resize(kMostCurves);
  for (const Trial& trial : trials) {
    ReportSeries series{.name = fmt::format("trial {}", trial.number),
                        .dashed = trial.state == TrialState::pruned};
    for (const Report& report : trial.reports) {
      series.x.push_back(static_cast<double>(report.step));
      series.y.push_back(report.value);
    }
    chart.series.push_back(std::move(series));
  }
  return chart;
}

ReportTable failure_table(const std::vector<Failure>& failures) {
  ReportTable table{.title = "Trials that failed or diverged",
                    .columns = {"why", "trials", "first", "its log"}};
  for (const Failure& failure : failures) {
    if (table.rows.size() == kMostFailures) {
      table.title += fmt::format(" (the {} commonest of {} reasons)", kMostFailures, failures.size());
      break;
    }
    table.rows.push_back({failure.reason, std::to_string(failure.trials.size()),
                          std::to_string(failure.trials.front()), failure.log});
  }
  return table;
}

void add_figures(::ingot::Report& report, const SearchSpace& space, const std::vector<Trial>& trials,
                 Direction direction) {
  const auto count = [&](TrialState state) {
    return std::ranges::count(trials, state, [](const Trial& trial) { return trial.state; });
  };
  double seconds = 0;
  for (const Trial& trial : trials) {
    if (trial.finished()) seconds += trial.ended - trial.started;
  }
  if (const Trial* best = best_of(trials, direction)) {
    report.figures.push_back(
        {"best value", fmt::format("{:.5g}", best->value), fmt::format("trial {}", best->number)});
    for (std::size_t i = 0; i < space.size(); ++i) {
      if (!std::isnan(best->values[i])) {
        report.config.emplace_back(space.parameters[i].name, space.text(i, best->values[i]));
      }
    }
  }
  report.figures.push_back({"trials", std::to_string(trials.size()),
                            fmt::format("{} complete, {} pruned, {} failed", count(TrialState::complete),
                                        count(TrialState::pruned), count(TrialState::failed))});
  report.figures.push_back({"time in trials", human_duration(seconds), "of all workers together"});
}

}  // namespace

void write_study_report(const std::string& path, const StudyConfig& config, Tuner& tuner) {
  const std::vector<Trial> trials = tuner.trials();
  const SearchSpace& space = tuner.space();
  const Direction direction = tuner.direction();
  ::ingot::Report report;
  report.title = config.name;
  report.subtitle = fmt::format("{} parameters, {}", space.size(), name(direction));
  add_figures(report, space, trials, direction);
  report.charts.push_back(history_chart(trials, direction));
  const std::vector<double> shares = parameter_importance(space, trials, direction);
  if (!shares.empty()) report.charts.push_back(importance_chart(space, shares));
  if (ReportChart curves = curve_chart(trials, direction); !curves.series.empty()) {
    report.charts.push_back(std::move(curves));
  }
  for (std::size_t i = 0; i < std::min(space.size(), kMostSlices); ++i) {
    report.charts.push_back(slice_chart(space, i, trials));
  }
  const std::vector<Failure> failures = failures_of(trials, config);
  if (!failures.empty()) report.tables.push_back(failure_table(failures));
  write_report(path, report);
}

}  // namespace ingot::tune
