#include "ingot/train/compare_runs.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <limits>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/base/config.h"
#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/base/json.h"
#include "ingot/base/units.h"
#include "ingot/train/run_metadata_file.h"

namespace ingot {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kPoints = 1000;  // of a curve: several share a chart
constexpr const char* kNotSet = "–";

using Settings = std::vector<std::pair<std::string, std::string>>;

void flatten(const ConfigReader& section, const std::string& path, Settings& settings) {
  for (const std::string& key : section.keys()) {
    const std::string name = path.empty() ? key : path + "." + key;
    if (section.is_mapping(key)) {
      flatten(section.section(key), name, settings);
    } else if (section.has(key)) {
      std::string value;
      for (const FreeValue& item : section.require_free(key))
        value += (value.empty() ? "" : ", ") + item.text;
      settings.emplace_back(name, value);
    }
  }
}

Settings read_settings(const std::string& file) {
  Settings settings;
  std::error_code missing;
  if (fs::exists(file, missing)) flatten(Config::load(file).root(), "", settings);
  return settings;
}

const std::string& setting(const FinishedRun& run, const std::string& key) {
  static const std::string not_set = kNotSet;
  const auto found = std::ranges::find(run.config, key, &Settings::value_type::first);
  return found == run.config.end() ? not_set : found->second;
}

/// Whether somebody set it there, as far as the run tells: a default is of no interest beside a run of
/// another kind, which has no such key.
bool given(const FinishedRun& run, const std::string& key) {
  if (setting(run, key) == kNotSet) return false;
  if (!run.metadata) return true;
  const auto& known = run.metadata->configuration;
  const auto found = std::ranges::find(known, key, &Setting::name);
  return found == known.end() || found->given;
}

FinishedRun read_run(const std::string& directory) {
  FinishedRun run{.directory = directory,
                  .name = directory,
                  .history = read_history(directory, std::numeric_limits<std::int64_t>::max()),
                  .config = read_settings(directory + "/config.yaml"),
                  .metadata = read_metadata(directory)};
  if (run.config.empty() && run.metadata) {
    for (const Setting& setting : run.metadata->configuration)
      run.config.emplace_back(setting.name, setting.value);
  }
  return run;
}

bool has_averages(const RunHistory& history) {
  return std::ranges::any_of(history.evaluations(), &EvalRecord::ema);
}

/// Validation losses at the end of the weights that the run keeps.
ReportSeries validation_of(const FinishedRun& run) {
  ReportSeries series{.name = run.name};
  const bool averages = has_averages(run.history);
  for (const EvalRecord& r : run.history.evaluations()) {
    if (r.ema != averages) continue;
    series.x.push_back(static_cast<double>(r.step));
    series.y.push_back(r.loss);
  }
  return series;
}

using StepValue = std::function<double(const StepRecord&)>;

ReportSeries steps_of(const FinishedRun& run, const StepValue& value, bool smooth) {
  ReportSeries series{.name = run.name, .smooth = smooth};
  for (const StepRecord& r : run.history.steps()) {
    if (const double y = value(r); std::isfinite(y)) {
      series.x.push_back(static_cast<double>(r.step));
      series.y.push_back(y);
    }
  }
  thin_out(series, kPoints);
  return series;
}

/// Seconds of training up to each step, instead of the step.
void put_seconds(const FinishedRun& run, ReportSeries& series) {
  double seconds = 0;
  auto step = run.history.steps().begin();
  std::int64_t last = 0;
  for (double& x : series.x) {
    for (; step != run.history.steps().end() && static_cast<double>(step->step) <= x; ++step) {
      seconds += step->seconds * static_cast<double>(step->step - last);  // between two logged steps
      last = step->step;
    }
    x = seconds;
  }
}

/// Of an axis of seconds: minutes or hours where the longest run took several.
void use_fitting_unit(ReportChart& chart) {
  double longest = 0;
  for (const ReportSeries& series : chart.series)
    for (const double x : series.x) longest = std::max(longest, x);
  constexpr double kMinute = 60, kHour = 3600;
  const double unit = longest >= 3 * kHour ? kHour : longest >= 3 * kMinute ? kMinute : 1;
  chart.x_label = unit == kHour     ? "hours of training"
                  : unit == kMinute ? "minutes of training"
                                    : "seconds of training";
  for (ReportSeries& series : chart.series)
    for (double& x : series.x) x /= unit;
}

void add_chart(Report& report, ReportChart chart) {
  std::erase_if(chart.series, [](const ReportSeries& series) { return series.x.empty(); });
  if (!chart.series.empty()) report.charts.push_back(std::move(chart));
}

void add_step_chart(Report& report, const std::vector<FinishedRun>& runs, const std::string& title,
                    const StepValue& value, bool smooth) {
  ReportChart chart{.title = title, .x_label = "step", .y_label = title, .whole_x = true};
  for (const FinishedRun& run : runs) chart.series.push_back(steps_of(run, value, smooth));
  const bool zero = std::ranges::all_of(chart.series, [](const ReportSeries& series) {
    return std::ranges::all_of(series.y, [](double y) { return y == 0; });
  });
  if (!zero) add_chart(report, std::move(chart));  // a kind of run that does not measure it
}

void add_loss_charts(Report& report, const std::vector<FinishedRun>& runs) {
  ReportChart by_step{.title = "Validation loss", .x_label = "step", .y_label = "loss", .whole_x = true};
  ReportChart by_time{.title = "Validation loss by time", .x_label = "", .y_label = "loss"};
  for (const FinishedRun& run : runs) {
    by_step.series.push_back(validation_of(run));
    by_time.series.push_back(by_step.series.back());
    put_seconds(run, by_time.series.back());
  }
  use_fitting_unit(by_time);
  add_chart(report, std::move(by_step));
  add_step_chart(
      report, runs, "Training loss", [](const StepRecord& r) { return r.loss; }, true);
  add_chart(report, std::move(by_time));
}

double named(const NamedValues& values, const std::string& name) {
  const auto found = std::ranges::find(values, name, &NamedValues::value_type::first);
  return found == values.end() ? std::numeric_limits<double>::quiet_NaN() : found->second;
}

std::vector<std::string> value_names(const std::vector<FinishedRun>& runs) {
  std::vector<std::string> names;
  for (const FinishedRun& run : runs) {
    for (const StepRecord& r : run.history.steps()) {
      for (const auto& [name, value] : r.values)
        if (std::ranges::find(names, name) == names.end()) names.push_back(name);
    }
  }
  return names;
}

std::string number_or_not(const std::optional<double>& value) {
  return value ? fmt::format("{:.4f}", *value) : kNotSet;
}

ReportTable results(const std::vector<FinishedRun>& runs) {
  ReportTable table{.title = "Results",
                    .columns = {"run", "steps", "best validation loss", "last validation loss",
                                "training loss", "tokens/s (median)", "time"},
                    .rows = {}};
  for (const FinishedRun& run : runs) {
    const std::vector<StepRecord>& steps = run.history.steps();
    ReportSeries time{.name = "", .x = {steps.empty() ? 0 : static_cast<double>(steps.back().step)}};
    put_seconds(run, time);
    const double rate = run.history.median(&StepRecord::tokens_per_second);
    table.rows.push_back({run.name, steps.empty() ? "0" : std::to_string(steps.back().step),
                          number_or_not(run.best_validation()), number_or_not(run.last_validation()),
                          steps.empty() ? kNotSet : number_or_not(steps.back().loss),
                          rate > 0 ? human_count(rate) : kNotSet, human_duration(time.x[0])});
  }
  return table;
}

}  // namespace

std::optional<double> FinishedRun::last_validation() const {
  const ReportSeries losses = validation_of(*this);
  return losses.y.empty() ? std::nullopt : std::optional(losses.y.back());
}

std::optional<double> FinishedRun::best_validation() const {
  const ReportSeries losses = validation_of(*this);
  return losses.y.empty() ? std::nullopt : std::optional(*std::ranges::min_element(losses.y));
}

void name_runs(std::vector<FinishedRun>& runs) {
  const auto tail = [](const std::string& directory, int parts) {
    fs::path path = fs::absolute(directory).lexically_normal(), end;
    if (path.filename().empty()) path = path.parent_path();
    for (int i = 0; i < parts && path.has_relative_path(); ++i, path = path.parent_path())
      end = end.empty() ? path.filename() : path.filename() / end;
    return end.string();
  };
  constexpr int kMostParts = 16;
  for (int parts = 1; parts <= kMostParts; ++parts) {
    std::vector<std::string> names;
    names.reserve(runs.size());
    for (const FinishedRun& run : runs) names.push_back(tail(run.directory, parts));
    std::vector<std::string> sorted = names;
    std::ranges::sort(sorted);
    if (std::ranges::adjacent_find(sorted) != sorted.end() && parts < kMostParts) continue;
    for (std::size_t i = 0; i < runs.size(); ++i) runs[i].name = names[i];
    return;
  }
}

// Of the files in it, too.
std::string run_directory(const std::string& path) {
  std::error_code missing;
  return fs::is_regular_file(path, missing) ? fs::path(path).parent_path().string() : path;
}

FinishedRun read_any_run(const std::string& path) {
  const std::string directory = run_directory(path);
  FinishedRun run = read_run(directory);
  std::error_code missing;
  const std::string state = directory + "/trainer_state.json";
  if (run.history.steps().empty() && fs::exists(state, missing)) {
    const auto json = parse_json_or_discard<nlohmann::json>(read_file(state));
    const std::int64_t step = json.is_object() ? json.value("step", std::int64_t{0}) : 0;
    run.history = read_history(fs::absolute(directory).lexically_normal().parent_path().string(), step);
  }
  INGOT_CHECK(run.metadata || !run.config.empty() || !run.history.steps().empty(),
              IoError(directory,
                      "is not a run: it holds no run.json, config.yaml or metrics.jsonl; give the "
                      "output_dir of a training run, or one of its checkpoints"));
  return run;
}

std::vector<FinishedRun> read_runs(const std::vector<std::string>& directories) {
  std::vector<FinishedRun> runs;
  for (const std::string& path : directories) {
    const std::string directory = run_directory(path);
    FinishedRun run = read_run(directory);
    INGOT_CHECK(!run.history.steps().empty() || !run.history.evaluations().empty(),
                IoError(directory,
                        "holds no metrics.jsonl with steps; give the output_dir of a run whose "
                        "report_to has jsonl"));
    runs.push_back(std::move(run));
  }
  name_runs(runs);
  return runs;
}

ReportTable differing_settings(const std::vector<FinishedRun>& runs) {
  ReportTable table{.title = "Settings that differ", .columns = {"setting"}, .rows = {}};
  std::vector<std::string> keys;
  for (const FinishedRun& run : runs) {
    table.columns.push_back(run.name);
    for (const auto& [key, value] : run.config)
      if (key != "output_dir" && std::ranges::find(keys, key) == keys.end()) keys.push_back(key);
  }
  for (const std::string& key : keys) {
    std::vector<std::string> row{key};
    for (const FinishedRun& run : runs) row.push_back(setting(run, key));
    const bool differs =
        std::any_of(row.begin() + 2, row.end(), [&](const std::string& v) { return v != row[1]; });
    const bool everywhere = std::ranges::find(row, kNotSet) == row.end();
    const auto is_given = [&](const FinishedRun& run) { return given(run, key); };
    if (differs && (everywhere || std::ranges::any_of(runs, is_given))) table.rows.push_back(std::move(row));
  }
  return table;
}

Report compare_runs(const std::vector<FinishedRun>& runs) {
  Report report;
  report.title = runs.size() == 1 ? runs.front().name : fmt::format("{} runs", runs.size());
  const FinishedRun* best = nullptr;
  for (const FinishedRun& run : runs) {
    if (run.best_validation() && (best == nullptr || *run.best_validation() < *best->best_validation()))
      best = &run;
  }
  if (best != nullptr)
    report.figures.push_back(
        {"least validation loss", fmt::format("{:.4f}", *best->best_validation()), best->name});
  add_loss_charts(report, runs);
  add_step_chart(
      report, runs, "Learning rate", [](const StepRecord& r) { return r.learning_rate; }, false);
  add_step_chart(
      report, runs, "Gradient norm", [](const StepRecord& r) { return r.grad_norm; }, true);
  add_step_chart(
      report, runs, "Tokens/s", [](const StepRecord& r) { return r.tokens_per_second; }, true);
  for (const std::string& name : value_names(runs))
    add_step_chart(
        report, runs, name, [&](const StepRecord& r) { return named(r.values, name); }, true);
  report.tables.push_back(results(runs));
  if (ReportTable table = differing_settings(runs); !table.rows.empty())
    report.tables.push_back(std::move(table));
  return report;
}

}  // namespace ingot
