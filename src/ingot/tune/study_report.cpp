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
  return {
      .title = "History", .x_label = "trial", .y_label = "value", .whole_x = true, .series = {values, best}};
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

// One chart per parameter; of choices, a position on the axis for each.
ReportChart slice_chart(const SearchSpace& space, std::size_t i, const std::vector<Trial>& trials) {
  const Parameter& p = space.parameters[i];
  ReportChart chart{.title = p.name,
                    .x_label = p.name,
                    .y_label = "value",
                    .log_x = p.log,
                    .whole_x = p.kind == ParameterKind::integer,
                    .x_categories = p.choices};
  std::vector<const Trial*> sorted;
  for (const Trial& trial : trials) {
    if (trial.state == TrialState::complete && !std::isnan(trial.values[i])) sorted.push_back(&trial);
  }
  std::ranges::sort(sorted, {}, [&](const Trial* trial) { return trial->values[i]; });
  ReportSeries series{.name = "trial", .points = true};
  for (const Trial* trial : sorted) {
    series.x.push_back(trial->values[i]);
    series.y.push_back(trial->value);
  }
  chart.series.push_back(std::move(series));
  return chart;
}

// The parameters, those that explain most first, with the complete trials.
ReportSpace report_space(const SearchSpace& space, const std::vector<double>& shares,
                         const std::vector<Trial>& trials, Direction direction) {
  std::vector<std::size_t> order(space.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  if (!shares.empty())
    std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return shares[a] > shares[b]; });
  ReportSpace result{.lower_is_better = direction == Direction::minimize, .axes = {}, .points = {}};
  for (const std::size_t i : order) {
    const Parameter& p = space.parameters[i];
    result.axes.push_back({p.name, p.choices, p.log, p.kind == ParameterKind::integer});
  }
  for (const Trial& trial : trials) {
    if (trial.state != TrialState::complete || !std::isfinite(trial.value)) continue;
    ReportSpace::Point point{.name = fmt::format("trial {}", trial.number), .at = {}, .value = trial.value};
    for (const std::size_t i : order) point.at.push_back(trial.values[i]);
    result.points.push_back(std::move(point));
  }
  return result;
}

// Of each objective; of a trial without a value, the last that it reported.
std::vector<std::string> values_of(const Trial& trial, std::size_t objectives) {
  std::vector<std::string> texts(objectives);
  for (std::size_t i = 0; i < trial.objectives.size(); ++i)
    texts[i] = fmt::format("{:.6g}", trial.objectives[i]);
  if (trial.objectives.empty() && !trial.reports.empty())
    texts[0] = fmt::format("{:.6g}", trial.reports.back().value);
  return texts;
}

// Over each other's values: which trials no other is better than in both.
ReportChart front_chart(const std::vector<Trial>& trials, const std::vector<Goal>& goals) {
  ReportSeries others{.name = "dominated", .points = true}, front{.name = "Pareto front"};
  const std::vector<Trial> best = pareto_front(trials, goals);
  const auto add = [](ReportSeries& series, const Trial& trial) {
    series.x.push_back(trial.objectives[0]);
    series.y.push_back(trial.objectives[1]);
  };
  std::vector<Trial> sorted = trials;
  std::erase_if(sorted, [&](const Trial& trial) {
    return trial.objectives.size() != goals.size() ||
           std::ranges::find(best, trial.number, &Trial::number) != best.end();
  });
  std::ranges::sort(sorted, {}, [](const Trial& trial) { return trial.objectives[0]; });
  for (const Trial& trial : sorted) add(others, trial);
  sorted = best;
  std::ranges::sort(sorted, {}, [](const Trial& trial) { return trial.objectives[0]; });
  for (const Trial& trial : sorted) add(front, trial);
  front.points = goals.size() > 2;  // a line would join what a third objective keeps apart
  return {.title = fmt::format("{} of {} trials on the Pareto front", best.size(), trials.size()),
          .x_label = goals[0].name,
          .y_label = goals[1].name,
          .series = {others, front}};
}

// Every trial that was begun, pruned and failed ones too.
ReportTable trial_table(const std::string& title, const SearchSpace& space, const std::vector<Goal>& goals,
                        const std::vector<Trial>& trials) {
  ReportTable table{.title = title, .columns = {"trial", "state"}, .rows = {}};
  for (const Goal& goal : goals) table.columns.push_back(goal.name);
  if (goals.empty()) table.columns.emplace_back("value");
  table.columns.insert(table.columns.end(), {"seconds", "steps"});
  for (const Parameter& parameter : space.parameters) table.columns.push_back(parameter.name);
  table.columns.emplace_back("note");
  for (const Trial& trial : trials) {
    const double seconds = trial.finished() ? trial.ended - trial.started : 0;
    std::vector<std::string> row{std::to_string(trial.number), std::string(name(trial.state))};
    for (std::string& text : values_of(trial, std::max<std::size_t>(goals.size(), 1)))
      row.push_back(std::move(text));
    row.push_back(trial.finished() ? fmt::format("{:.1f}", seconds) : "");
    row.push_back(trial.reports.empty() ? "" : std::to_string(trial.reports.back().step));
    for (std::size_t i = 0; i < space.size(); ++i)
      row.push_back(std::isnan(trial.values[i]) ? "" : space.text(i, trial.values[i]));
    row.push_back(trial.note);
    table.rows.push_back(std::move(row));
  }
  return table;
}

ReportChart curve_chart(std::vector<Trial> trials, Direction direction) {
  ReportChart chart{.title = "Curves of the best trials",
                    .x_label = "step",
                    .y_label = "reported value",
                    .whole_x = true,
                    .series = {}};
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

void write_study_report(const std::string& path, const StudyConfig& config, Tuner& tuner,
                        const std::vector<std::pair<std::string, std::string>>& commands,
                        const std::vector<std::pair<std::string, std::string>>& environment) {
  const std::vector<Trial> trials = tuner.trials();
  const SearchSpace& space = tuner.space();
  const Direction direction = tuner.direction();
  ::ingot::Report report;
  report.title = config.name;
  const std::vector<Goal>& goals = tuner.goals();
  report.subtitle = fmt::format("{} parameters, {}", space.size(),
                                goals.empty() ? std::string(name(direction)) : describe(goals));
  add_figures(report, space, trials, direction);
  if (!goals.empty()) report.charts.push_back(front_chart(trials, goals));
  report.charts.push_back(history_chart(trials, direction));
  const std::vector<double> shares = parameter_importance(space, trials, direction);
  if (!shares.empty()) report.charts.push_back(importance_chart(space, shares));
  if (ReportChart curves = curve_chart(trials, direction); !curves.series.empty()) {
    report.charts.push_back(std::move(curves));
  }
  for (std::size_t i = 0; i < std::min(space.size(), kMostSlices); ++i) {
    report.charts.push_back(slice_chart(space, i, trials));
  }
  report.space = report_space(space, shares, trials, direction);
  report.commands = commands;
  report.environment = environment;
  report.config_title = "Values of the best trial";
  report.space.value_name = goals.empty() ? "value" : goals[0].name;
  if (!goals.empty())
    report.tables.push_back(trial_table("Pareto front", space, goals, pareto_front(trials, goals)));
  report.tables.push_back(trial_table("Trials", space, goals, trials));
  const std::vector<Failure> failures = failures_of(trials, config);
  if (!failures.empty()) report.tables.push_back(failure_table(failures));
  write_report(path, report);
}

}  // namespace ingot::tune
