#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>
#include <variant>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "ingot/base/config.h"
#include "ingot/base/directory_lock.h"
#include "ingot/base/json.h"
#include "ingot/base/plural.h"
#include "ingot/base/printable.h"
#include "ingot/base/report.h"
#include "ingot/base/shell.h"
#include "ingot/base/units.h"
#include "ingot/cli/forecast_fitting.h"
#include "ingot/cli/help_page.h"
#include "ingot/cli/interrupt.h"
#include "ingot/cli/text_table.h"
#include "ingot/core/device_config.h"
#include "ingot/forecast/error_sums.h"
#include "ingot/forecast/fit_checkpoint.h"
#include "ingot/forecast/fit_json.h"
#include "ingot/forecast/forecast_text.h"
#include "ingot/forecast/plot.h"
#include "ingot/forecast/statistical/local_forecaster.h"
#include "ingot/train/run_metadata.h"

namespace ingot::cli {
namespace {

using namespace ingot::forecast;
using Json = nlohmann::ordered_json;

// A network, or a model without training.
struct Competitor {
  std::string name;
  std::variant<FitConfig, LocalForecaster> how;

  const FitConfig* network() const { return std::get_if<FitConfig>(&how); }
  const LocalForecaster* local() const { return std::get_if<LocalForecaster>(&how); }
};

// What will be compared: nothing is begun before all of it is known to be sound.
struct Comparison {
  std::string data, output;
  SeriesTable table;
  SeriesTable tested;  // the series that each of them can forecast
  std::vector<Competitor> all;
  EvaluateOptions evaluation;

  std::string directory(const std::string& name) const { return output + "/" + name; }
  bool has(const std::string& name) const {
    return std::ranges::any_of(all, [&](const Competitor& c) { return c.name == name; });
  }
};

// With --resume: whether an earlier call has fitted just this.
bool fitted_before(const std::string& directory, const ForecastOptions& o, const FitConfig& config,
                   const SeriesTable& table) {
  return o.resume && std::filesystem::exists(directory + "/config.json") && !is_local_forecaster(directory) &&
         load_forecaster(directory).fit_digest == fit_digest(config, table);
}

void check_name(const std::string& model, const ForecastOptions& o) {
  const std::string known = given_configuration(o, model).root().choice("model", model, all_models());
  INGOT_CHECK(known == model,
              InvalidConfig("model", "cannot be set with --set here; compare takes models from --model"));
  INGOT_CHECK(model != "auto",
              InvalidConfig("--model",
                            "auto chooses by the last rows, which the comparison tests on; name the "
                            "models, or leave --model out for all"));
}

// All networks, and the models without training that suit the table; of a long one not those whose fits, of
// which there is one for each forecast, take seconds.
std::vector<std::string> models_to_compare(const ForecastOptions& o, const SeriesTable& table) {
  constexpr std::size_t kMostValues = 5000;
  if (!o.models.empty()) return o.models;
  std::vector<std::string> models = forecast_models();
  std::size_t values = 0;
  for (const Series& series : table.series) values += series.length() * table.targets;
  for (const std::string& name : local_models_for(table)) {
    const bool slow = name == "arima" || name == "ensemble";
    if (!slow || values <= kMostValues) models.push_back(name);
  }
  return models;
}

FitConfig network_to_compare(const std::string& model, const ForecastOptions& o, const Comparison& plan) {
  const FitConfig config = fitted_to(plan.table, o, fit_configuration(o, model));
  check_fit(config, plan.table, saving_of(o, plan.directory(model)));
  return config;
}

LocalForecaster local_to_compare(const std::string& model, std::int64_t horizon, const ForecastOptions& o,
                                 const FitConfig& reading, const Comparison& plan) {
  return fit_local({.model = model, .horizon = horizon, .season = o.season}, plan.table, reading.table,
                   reading.split);
}

// Last of all, as it makes the directory above them.
void check_places(const Comparison& plan, const ForecastOptions& o) {
  for (const Competitor& c : plan.all) {
    const std::string directory = plan.directory(c.name);
    const bool kept = c.network() != nullptr ? fitted_before(directory, o, *c.network(), plan.table)
                                             : o.resume && is_local_forecaster(directory);
    if (!kept) check_output_is_new(o, directory);
  }
}

// Errors are of the same forecasts for all: of the series that every network was fitted to, from the same
// rows on.
void settle_test(Comparison& plan, const ForecastOptions& o, const FitConfig& reading, std::int64_t horizon) {
  std::set<std::string> left_out;
  bool local = false;
  plan.evaluation = {.stride = o.stride, .season = o.season, .scaler = reading.scaler};
  for (const Competitor& c : plan.all) {
    local = local || c.local() != nullptr;
    const FitConfig* config = c.network();
    if (config == nullptr) continue;
    plan.evaluation.first_row = std::max(plan.evaluation.first_row, config->model.lookback);
    for (const LeftOut& series : series_not_fitted(plan.table, config->split, config->scaler,
                                                   config->model.lookback, config->model.horizon))
      left_out.insert(series.id);
  }
  if (std::ranges::none_of(plan.all, [](const Competitor& c) { return c.network() != nullptr; })) {
    plan.evaluation.test_rows = test_rows_of_short_table(reading.split, plan.table, horizon);
    if (plan.evaluation.test_rows > 0 && !o.json)
      fmt::print("  tested on the last {}, as the test part of {:g} % is shorter than the horizon of {}\n",
                 counted(plan.evaluation.test_rows, "row"), 100 * reading.split.test, horizon);
  }
  // A fit for each forecast of a model without training: one from every row of a long table would take hours.
  if (o.stride == 0) plan.evaluation.stride = local ? std::max<std::int64_t>(1, horizon / 2) : 1;
  check_evaluation(reading.split, plan.table, plan.evaluation);
  plan.tested = plan.table;
  if (plan.table.long_layout)
    std::erase_if(plan.tested.series, [&](const Series& s) { return left_out.contains(s.id); });
  INGOT_CHECK(!plan.tested.series.empty(),
              DataError(plan.table.source, 0, "", "has no series that all of these models can be fitted to"));
}

// False for a network that nobody named and that the table is too short for.
bool add_network(Comparison& plan, const std::string& model, const ForecastOptions& o) {
  if (!is_network(model)) return true;
  try {
    plan.all.push_back({model, network_to_compare(model, o, plan)});
  } catch (const DataError& error) {
    if (!o.models.empty()) throw;
    if (!o.json) fmt::print("  {} is left out: {}\n", model, printable_message(error));
    return false;
  }
  return true;
}

Comparison planned(const ForecastOptions& o) {
  const FitConfig reading = reading_configuration(o);
  INGOT_CHECK(!reading.refit, InvalidConfig("refit",
                                            "leaves no rows to compare models on; leave it out here, and fit "
                                            "the best one with --refit"));
  std::set<std::string> seen;
  for (const std::string& model : o.models) {
    check_name(model, o);
    INGOT_CHECK(seen.insert(model).second,
                InvalidConfig("--model", fmt::format("'{}' is given twice", model)));
    if (is_network(model)) static_cast<void>(fit_configuration(o, model));
  }
  Comparison plan;
  plan.data = reading.data;
  plan.output = output_directory(o, reading.data, "compare");
  plan.table = read_data(reading);
  tell_table(plan.table, o.json);
  leave_out_constant(plan.table, reading, o);
  std::vector<std::string> models = models_to_compare(o, plan.table);
  std::int64_t horizon = local_horizon(o, reading, plan.table);
  if (std::ranges::none_of(models, is_network)) check_local_options(models.front(), o);
  std::erase_if(models, [&](const std::string& model) { return !add_network(plan, model, o); });
  if (!plan.all.empty()) horizon = plan.all.front().network()->model.horizon;
  for (std::size_t i = 0; i < models.size(); ++i) {  // in the order in which they were given
    if (is_network(models[i])) continue;
    plan.all.insert(plan.all.begin() + static_cast<std::ptrdiff_t>(i),
                    Competitor{models[i], local_to_compare(models[i], horizon, o, reading, plan)});
  }
  settle_test(plan, o, reading, horizon);
  check_places(plan, o);
  return plan;
}

// Models without training are the CPU's, whatever the machine has.
Device device_of_networks(const Comparison& plan) {
  const auto network =
      std::ranges::find_if(plan.all, [](const Competitor& c) { return c.network() != nullptr; });
  return network == plan.all.end() ? kCpu : choose_device(network->network()->device);
}

// One of the networks to compare; with --resume the one that an earlier call has fitted just so.
Forecaster compared_network(const Comparison& plan, const ForecastOptions& o, const FitConfig& config) {
  const std::string directory = plan.directory(config.model.model);
  if (fitted_before(directory, o, config, plan.table)) {
    if (!o.json) fmt::print("fitted before\n");
    return load_forecaster(directory, choose_device(config.device));
  }
  return fit_into(directory, o, config, plan.table).forecaster;
}

struct Results {
  std::vector<Compared> rows;
  std::vector<Metrics> simple;  // the forecasts that nobody asked for
  Evaluation last;
  bool stopped = false;
};

// False where there is no model: the fit was stopped in its first epoch.
bool add_network(Results& results, const Comparison& plan, const ForecastOptions& o,
                 const FitConfig& config) {
  const Forecaster f = compared_network(plan, o, config);
  results.stopped = f.end == TrainEnd::stopped;
  if (f.epochs.empty()) return false;
  results.last = evaluate(f, plan.tested, plan.evaluation);
  double seconds = 0;
  for (const EpochReport& e : f.epochs) seconds += e.seconds;
  results.rows.push_back({results.last.methods[0], seconds, count_parameters(*f.model), results.stopped});
  results.simple.assign(results.last.methods.begin() + 1, results.last.methods.end());
  return true;
}

void add_local(Results& results, const Comparison& plan, const ForecastOptions& o, const LocalForecaster& f) {
  std::vector<std::string> beside;
  if (results.simple.empty()) beside = {"naive", "seasonal_naive"};
  std::erase(beside, f.model);
  Evaluation found = evaluate_local(f, plan.tested, plan.evaluation, beside);
  if (!o.json)
    fmt::print("  {} in {}\n", counted(found.windows, "forecast"), human_duration(found.methods[0].seconds));
  results.rows.push_back({.metrics = found.methods[0]});
  if (results.simple.empty()) results.simple.assign(found.methods.begin() + 1, found.methods.end());
  if (results.last.methods.empty()) results.last = std::move(found);
  const Report report = local_report(f, plan.table, 0);
  save_local_forecaster(plan.directory(f.model), f, &report);
}

// Simple forecasts have their names for people: those that are compared already are left out.
void add_simple(Results& results, const Comparison& plan) {
  for (const Metrics& m : results.simple) {
    std::string name = m.method == "ETS" ? "ets" : m.method;
    std::ranges::replace(name, ' ', '_');
    if (!plan.has(name)) results.rows.push_back({.metrics = m});
  }
}

void print_json(const std::string& report, const Comparison& plan, const Results& results,
                const std::string& best) {
  Json methods = Json::array();
  for (const Compared& c : results.rows) {
    Json entry = to_json(c.metrics);
    if (c.fit_seconds > 0) {
      entry.update(
          Json{{"fit_seconds", c.fit_seconds}, {"parameters", c.parameters}, {"stopped", c.stopped}});
    }
    methods.push_back(entry);
  }
  fmt::print("{}\n", printable_json(dump_json(Json{{"gaps", to_json(plan.table.filled)},
                                                   {"windows", results.last.windows},
                                                   {"test_rows", plan.evaluation.test_rows},
                                                   {"season", results.last.season},
                                                   {"skipped", results.last.skipped},
                                                   {"notes", results.last.notes},
                                                   {"report", report},
                                                   {"best", best},
                                                   {"methods", methods}},
                                              2)));
}

void print_comparison(const std::string& report, const Comparison& plan, const Results& results,
                      const Metrics& best) {
  std::vector<Metrics> metrics;
  for (const Compared& c : results.rows) {
    metrics.push_back(c.metrics);
    if (c.stopped) metrics.back().method += ", stopped";
  }
  fmt::print("\n{}", cut_on_terminal(metrics_table(metrics)));
  for (const std::string& note : results.last.notes)
    fmt::print("{}\n", wrap_on_terminal(printable(note), 0, STDOUT_FILENO));
  fmt::print("The least {} is that of {}.\n", std::isnan(best.mase) ? "MAE" : "MASE", best.method);
  fmt::print("\n  report  {}\n", printable(report));
  if (!plan.has(best.method) || results.stopped) return;
  fmt::print("\nGo on with:\n  ingot forecast predict {} {} -o forecast.csv\n",
             shell_word(plan.directory(best.method)), shell_word(plan.data));
}

}  // namespace

int run_forecast_compare(const ForecastOptions& o) {
  const Comparison plan = planned(o);
  const DirectoryLock lock(plan.output);
  RunMetadata metadata;
  metadata.describe_process(device_of_networks(plan));
  Results results;
  for (const Competitor& c : plan.all) {
    if (!o.json) fmt::print("\n{}\n", c.name);
    if (c.local() != nullptr) {
      add_local(results, plan, o, *c.local());
    } else if (!add_network(results, plan, o, *c.network())) {
      break;
    }
    if (results.stopped) break;
  }
  if (results.rows.empty()) {
    if (!o.json) fmt::print("\nstopped before there was a model; {}\n", kGoOn);
    return interrupt_exit_code();
  }
  add_simple(results, plan);
  const Metrics& best = results.rows[best_of(results.rows)].metrics;
  const std::string report = plan.output + "/report.html";
  Report page = comparison_report(plan.table.source, results.last.windows, results.rows);
  page.environment = metadata.rows();
  write_report(report, page);
  if (o.json) {
    print_json(report, plan, results, best.method);
  } else {
    print_comparison(report, plan, results, best);
  }
  return results.stopped ? interrupt_exit_code() : 0;
}

}  // namespace ingot::cli
