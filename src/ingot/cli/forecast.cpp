#include <filesystem>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/base/config.h"
#include "ingot/base/files.h"
#include "ingot/base/json.h"
#include "ingot/base/log.h"
#include "ingot/base/progress.h"
#include "ingot/base/suggest.h"
#include "ingot/base/units.h"
#include "ingot/cli/interrupt.h"
#include "ingot/cli/verbs.h"
#include "ingot/forecast/fit_checkpoint.h"
#include "ingot/forecast/fit_json.h"
#include "ingot/forecast/plot.h"

namespace ingot::cli {
namespace {

using namespace ingot::forecast;
using Json = nlohmann::ordered_json;

struct ForecastOptions {
  std::string data, model, config, output, targets, columns, fill, scaler, split, frequency, horizon,
      lookback, epochs;
  std::vector<std::string> set, models, levels{"80", "90"};
  std::int64_t stride = 1, season = 0, hold_out = 0, level = 90, save_every = 300;
  bool json = false, sort = false, resume = false;
};

// One configuration out of the file, the options and --set, in this order.
FitConfig configuration(const ForecastOptions& o, const std::string& model) {
  Config config = o.config.empty() ? Config::parse("{}", "the command line") : Config::load(o.config);
  const auto set = [&](const char* key, const std::string& value) {
    if (!value.empty()) config.set(fmt::format("{}={}", key, value));
  };
  set("data", dump_json(nlohmann::json(o.data)));
  set("model", model);
  set("horizon", o.horizon);
  set("lookback", o.lookback);
  set("epochs", o.epochs);
  set("fill", o.fill);
  set("scaler", o.scaler);
  set("split", o.split);
  set("frequency", o.frequency);
  if (!o.targets.empty()) set("targets", "[" + o.targets + "]");
  if (!o.columns.empty()) set("columns", "[" + o.columns + "]");
  if (o.sort) set("sort", "true");
  for (const std::string& assignment : o.set) config.set(assignment);
  return read_fit_config(config);
}

void tell_filled(const SeriesTable& table, bool json) {
  if (json) return;
  for (std::size_t i = 0; i < std::min<std::size_t>(5, table.filled.notes.size()); ++i) {
    fmt::print("  filled: {}\n", table.filled.notes[i]);
  }
  if (table.filled.notes.size() > 5) fmt::print("  filled: ... and {} more\n", table.filled.notes.size() - 5);
}

void tell_table(const SeriesTable& table, bool json) {
  if (json) return;
  std::size_t rows = 0;
  for (const Series& s : table.series) rows += s.length();
  fmt::print("{}: {} series, {} rows, one per {}\n", table.source,
             table.long_layout ? table.series.size() : table.column_names.size(),
             human_count(static_cast<double>(rows)), table.frequency.name());
  tell_filled(table, json);
}

void tell_epoch(const EpochReport& e) {
  const ProgressPause pause;
  fmt::print("epoch {:>3}  training {:.4f}  validation {:.4f}{}  {}\n", e.epoch, e.train_loss,
             e.validation_loss, e.best ? " *" : "  ", human_duration(e.seconds));
  std::fflush(stdout);
}

// Fits with a bar and a line per epoch. Ctrl-C ends the fit after its epoch and keeps the best weights.
Forecaster fit_shown(const FitConfig& config, const SeriesTable& table, bool json, const FitSaving& saving) {
  std::unique_ptr<ProgressBar> bar;
  FitHooks hooks;
  hooks.on_step = [&](std::int64_t done, std::int64_t total, double loss) {
    if (json) return;
    if (!bar) {
      bar = std::make_unique<ProgressBar>(
          ProgressOptions{.label = config.model.model, .total = total, .done = done - 1});
    }
    bar->update(done, bar->due() ? fmt::format("{} {:.4f}", config.loss, loss) : "");
  };
  hooks.on_epoch = [&](const EpochReport& e) {
    if (!json) tell_epoch(e);
    return interrupted();
  };
  hooks.on_resume = [&](const FitProgress& p) {
    if (json) return;
    for (const EpochReport& e : p.epochs) tell_epoch(e);
    fmt::print("going on after batch {} of epoch {}\n", p.batch, p.epochs.size() + 1);
  };
  const InterruptWatch watch;
  Forecaster f = fit_forecaster(config, table, hooks, saving);
  if (bar) bar->finish();
  return f;
}

// The directory to write: as asked for, or DATA-`name`.
std::string output_directory(const ForecastOptions& o, const std::string& name) {
  if (o.output.empty()) return fmt::format("{}-{}", std::filesystem::path(o.data).stem().string(), name);
  std::string output = o.output;
  while (output.size() > 1 && output.back() == '/') output.pop_back();
  return output;
}

// Beside the model's directory, which appears whole or not at all.
FitSaving saving_of(const ForecastOptions& o, const std::string& output) {
  INGOT_CHECK(o.save_every >= 0,
              InvalidConfig("--save-every", fmt::format("must be at least 0, got {}", o.save_every)));
  return {.directory = output + "-unfinished",
          .every_seconds = static_cast<double>(o.save_every),
          .resume = o.resume};
}

struct WrittenFit {
  Forecaster forecaster;
  bool unfinished = false;  // stopped, and saved so that --resume goes on
};

WrittenFit fit_into(const std::string& output, const ForecastOptions& o, const FitConfig& config,
                    const SeriesTable& table) {
  check_model_place(output);
  const FitSaving saving = saving_of(o, output);
  WrittenFit written{.forecaster = fit_shown(config, table, o.json, saving)};
  save_forecaster(output, written.forecaster);
  written.unfinished = interrupted() && has_fit_checkpoint(saving.directory);
  if (!written.unfinished) remove_fit_checkpoint(saving.directory);
  return written;
}

int run_fit(const ForecastOptions& o) {
  const FitConfig config = configuration(o, o.model);
  const std::string output = output_directory(o, config.model.model);
  const SeriesTable table = read_series(config.data, config.table);
  tell_table(table, o.json);
  const auto [f, unfinished] = fit_into(output, o, config, table);
  Report report = forecast_report(f, table, 0);
  write_report(output + "/report.html", report);
  double best = f.epochs[0].validation_loss;
  for (const EpochReport& e : f.epochs) best = std::min(best, e.validation_loss);
  if (o.json) {
    fmt::print("{}\n", dump_json(Json{{"model", output},
                                      {"parameters", count_parameters(*f.model)},
                                      {"best_validation_loss", best},
                                      {"missing_rows", table.filled.missing_rows},
                                      {"missing_values", table.filled.missing_values},
                                      {"epochs", to_json(f.epochs)}},
                                 2));
    return 0;
  }
  fmt::print(
      "\nbest validation {} {:.4f}\n  model   {}\n  report  {}/report.html\n\nGo on with:\n"
      "  ingot forecast predict {} {} -o forecast.csv\n  ingot forecast evaluate {} {}\n",
      config.loss, best, output, output, output, o.data, output, o.data);
  if (unfinished) fmt::print("\nThe fit was stopped; the same command with --resume goes on with it.\n");
  return 0;
}

std::vector<int> parse_levels(const std::vector<std::string>& words) {
  std::vector<int> levels;
  for (const std::string& word : words) {
    const bool number =
        !word.empty() && word.size() <= 2 && word.find_first_not_of("0123456789") == std::string::npos;
    INGOT_CHECK(
        number && word != "0" && word != "00",
        InvalidConfig("--level", fmt::format("'{}' is no level; expected per cent from 1 to 99", word)));
    levels.push_back(std::stoi(word));
  }
  return levels;
}

TableOptions table_options(const ForecastOptions& o, const Forecaster& f) {
  TableOptions options = f.table_options();
  if (!o.fill.empty()) options.fill = parse_fill_method(o.fill, "--fill");
  if (o.sort) options.sort = true;
  return options;
}

int run_predict(const ForecastOptions& o) {
  const Forecaster f = load_forecaster(o.model);
  SeriesTable table = read_series(o.data, table_options(o, f));
  tell_filled(table, o.json || o.output.empty());
  std::vector<int> levels = parse_levels(o.levels);
  if (!f.calibration.quantiles.defined()) levels.clear();
  const auto forecasts = predict(f, table, levels);
  const std::string csv = to_csv(forecasts, table);
  if (o.output.empty()) {
    fmt::print("{}", csv);
    return 0;
  }
  write_file_atomically(o.output, csv);
  if (o.json)
    fmt::print("{}\n", dump_json(Json{{"output", o.output},
                                      {"series", forecasts.size()},
                                      {"horizon", f.config.model.horizon}},
                                 2));
  else
    fmt::print("{} rows ahead of {} series written to {}\n", f.config.model.horizon,
               forecasts.size() * table.targets, o.output);
  return 0;
}

Json to_json(const Metrics& m) {
  Json json{{"method", m.method}, {"mse", m.mse}, {"mae", m.mae}, {"mase", m.mase}, {"smape", m.smape}};
  Json coverage = Json::object();
  for (const auto& [level, share] : m.coverage) coverage[std::to_string(level)] = share;
  if (!coverage.empty()) json["coverage"] = coverage;
  json["seconds"] = m.seconds;
  return json;
}

int run_evaluate(const ForecastOptions& o) {
  Forecaster f = load_forecaster(o.model);
  if (!o.split.empty()) f.config.split.kind = o.split;
  const SeriesTable table = read_series(o.data, table_options(o, f));
  const Evaluation e =
      evaluate(f, table, {.stride = o.stride, .season = o.season, .levels = parse_levels(o.levels)});
  if (o.json) {
    Json methods = Json::array();
    for (const Metrics& m : e.methods) methods.push_back(to_json(m));
    fmt::print("{}\n",
               dump_json(Json{{"windows", e.windows}, {"season", e.season}, {"methods", methods}}, 2));
    return 0;
  }
  fmt::print(
      "{} forecasts of {} rows from rolling origins in the test part of {}; season {}\n\n{}\n"
      "MSE and MAE are of scaled values, as papers print them; MASE below 1 beats the seasonal naive\n"
      "forecast of one step; 'in 90 %' is the share of values inside that interval.\n",
      e.windows, f.config.model.horizon, o.data, e.season, metrics_table(e.methods));
  return 0;
}

int run_plot(const ForecastOptions& o) {
  const Forecaster f = load_forecaster(o.model);
  const SeriesTable table = read_series(o.data, table_options(o, f));
  const std::string output = o.output.empty() ? "forecast.html" : o.output;
  INGOT_CHECK(o.hold_out >= 0,
              InvalidConfig("--hold-out", fmt::format("must be at least 0, got {}", o.hold_out)));
  write_report(output, forecast_report(f, table, o.hold_out, {.level = static_cast<int>(o.level)}));
  if (o.json)
    fmt::print("{}\n", dump_json(Json{{"output", output}}, 2));
  else
    fmt::print("written to {}\n", output);
  return 0;
}

// One of the models to compare; with --resume the one that an earlier call has fitted just so.
Forecaster compared_model(const std::string& directory, const ForecastOptions& o, const FitConfig& config,
                          const SeriesTable& table) {
  if (o.resume && std::filesystem::exists(directory + "/config.json")) {
    Forecaster before = load_forecaster(directory);
    if (before.fit_digest == fit_digest(config, table)) {
      if (!o.json) fmt::print("fitted before\n");
      return before;
    }
  }
  return fit_into(directory, o, config, table).forecaster;
}

int run_compare(const ForecastOptions& o) {
  const std::vector<std::string> models = o.models.empty() ? forecast_models() : o.models;
  const std::string output = output_directory(o, "compare");
  std::vector<Compared> rows;
  Evaluation last;
  for (const std::string& model : models) {
    const FitConfig config = configuration(o, model);
    const SeriesTable table = read_series(config.data, config.table);
    if (model == models.front()) tell_table(table, o.json);
    if (!o.json) fmt::print("\n{}\n", model);
    const Forecaster f = compared_model(output + "/" + model, o, config, table);
    last = evaluate(f, table, {.stride = o.stride, .season = o.season, .levels = parse_levels(o.levels)});
    double seconds = 0;
    for (const EpochReport& e : f.epochs) seconds += e.seconds;
    rows.push_back({last.methods[0], last.mae_by_step, seconds, count_parameters(*f.model)});
  }
  for (std::size_t i = 1; i < last.methods.size(); ++i) {
    rows.push_back({last.methods[i], last.methods[i].method == "seasonal naive" ? last.naive_mae_by_step
                                                                                : std::vector<double>{}});
  }
  write_report(output + "/report.html", comparison_report(o.data, last.windows, rows));
  std::vector<Metrics> metrics;
  Json json = Json::array();
  for (const Compared& c : rows) {
    metrics.push_back(c.metrics);
    Json entry = to_json(c.metrics);
    if (c.fit_seconds > 0) entry.update(Json{{"fit_seconds", c.fit_seconds}, {"parameters", c.parameters}});
    json.push_back(entry);
  }
  if (o.json)
    fmt::print(
        "{}\n",
        dump_json(Json{{"windows", last.windows}, {"report", output + "/report.html"}, {"methods", json}},
                  2));
  else
    fmt::print("\n{}\n  report  {}/report.html\n", metrics_table(metrics), output);
  return 0;
}

void add_data_options(Command& verb, ForecastOptions& o) {
  verb.option("--fill", o.fill, "How to fill gaps and missing values")
      .one_of({"interpolate", "forward", "mean", "zero", "refuse"});
  verb.flag("--sort", o.sort, "Put the rows in order of time first");
}

void add_fit_options(Command& verb, ForecastOptions& o) {
  verb.option("--horizon", o.horizon, "Rows to forecast (default 96)");
  verb.option("--lookback", o.lookback, "Rows to read (default: the model's paper)");
  verb.option("--target", o.targets, "Columns to forecast, by comma; the others are inputs only");
  verb.option("--columns", o.columns, "Columns to read, by comma (default: all)");
  verb.option("--split", o.split, "ratio (70/10/20 %), or ett (12/4/4 months, as papers on ETT)")
      .one_of({"ratio", "ett"});
  verb.option("--scaler", o.scaler, "How to scale columns, fitted on the training part")
      .one_of({"standard", "min_max", "none"});
  verb.option("--frequency", o.frequency, "Distance of rows (15min, h, D, B, W, MS); default: inferred");
  verb.option("--epochs", o.epochs, "Passes over the training part at most");
  verb.option("--config", o.config, "YAML file with any of the keys in docs/forecasting.md");
  verb.option("--set", o.set, "Change a key: --set d_model=64 (may be repeated)");
  add_data_options(verb, o);
}

void add_save_every(Command& verb, ForecastOptions& o) {
  verb.option("--save-every", o.save_every, "Seconds between saves for --resume, in DIRECTORY-unfinished");
}

}  // namespace

void add_forecast(Command& root) {
  auto o = std::make_shared<ForecastOptions>();
  Command verb =
      root.verb("forecast", "Forecast the series of a CSV file: fit, predict, evaluate, plot, compare");
  verb.run(
      []() -> int { throw InvalidConfig("forecast", "needs one of fit, predict, evaluate, plot, compare"); });

  Command fitting =
      verb.verb("fit", "Fit a model to a table; keeps the epoch with the least validation loss");
  fitting.option("data", o->data, "CSV: a date column and one column per series, or unique_id, ds, y")
      .required();
  fitting.option(
      "--model", o->model,
      "dlinear, nlinear, patchtst, itransformer, timesnet, autoformer or fedformer (default dlinear)");
  fitting.option("-o,--output", o->output, "Directory of the model (default: DATA-MODEL)");
  add_fit_options(fitting, *o);
  fitting.flag("--resume", o->resume, "Go on with a fit that was killed or stopped, bit for bit");
  add_save_every(fitting, *o);
  fitting.flag("--json", o->json, "No progress bar; print the result as JSON");
  fitting.example("ingot forecast fit sales.csv --horizon 28 --lookback 84",
                  "a DLinear for four weeks of daily sales");
  fitting.example("ingot forecast fit ETTh1.csv --model patchtst --split ett", "as in its paper");
  fitting.example("ingot forecast fit ETTh1.csv --model autoformer --split ett --resume",
                  "hours; go on after a crash, a kill or a loss of power");
  fitting.run([o] { return run_fit(*o); });

  Command predicting =
      verb.verb("predict", "Continue every series after its last row, with prediction intervals");
  predicting.option("model", o->model, "Directory that fit wrote, or a transformers PatchTST").required();
  predicting.option("data", o->data, "CSV with the columns that the model was fitted on").required();
  predicting.option("-o,--output", o->output, "CSV to write (default: standard output)");
  predicting.option("--level", o->levels, "Per cent that an interval shall hold (may be repeated)");
  add_data_options(predicting, *o);
  predicting.flag("--json", o->json, "Print the result as JSON");
  predicting.run([o] { return run_predict(*o); });

  Command evaluating =
      verb.verb("evaluate", "Errors on the test part from rolling origins, beside naive and ETS forecasts");
  evaluating.option("model", o->model, "Directory that fit wrote").required();
  evaluating.option("data", o->data, "CSV").required();
  evaluating.option("--stride", o->stride, "Rows between the origins of forecasts");
  evaluating.option("--season", o->season, "Rows in a season; 0: a day of hours, a week of days...");
  evaluating.option("--split", o->split, "ratio or ett (default: as fitted)").one_of({"ratio", "ett"});
  evaluating.option("--level", o->levels, "Intervals to check (per cent)");
  add_data_options(evaluating, *o);
  evaluating.flag("--json", o->json, "Print JSON");
  evaluating.run([o] { return run_evaluate(*o); });

  Command plotting = verb.verb("plot", "Draw the forecasts into one HTML file: drag to zoom");
  plotting.option("model", o->model, "Directory that fit wrote").required();
  plotting.option("data", o->data, "CSV").required();
  plotting.option("-o,--output", o->output, "HTML file (default: forecast.html)");
  plotting.option("--hold-out", o->hold_out, "Forecast the last N rows, to see them beside the forecast");
  plotting.option("--level", o->level, "Per cent that the band shall hold");
  add_data_options(plotting, *o);
  plotting.flag("--json", o->json, "Print JSON");
  plotting.run([o] { return run_plot(*o); });

  Command comparing =
      verb.verb("compare", "Fit several models to one table and set them beside the baselines");
  comparing.option("data", o->data, "CSV").required();
  comparing.option("--model", o->models, "A model (may be repeated; default: all)");
  comparing.option("-o,--output", o->output, "Directory for models and report (default: DATA-compare)");
  comparing.option("--stride", o->stride, "Rows between the origins of forecasts");
  comparing.option("--season", o->season, "Rows in a season");
  add_fit_options(comparing, *o);
  comparing.flag("--resume", o->resume,
                 "Keep the models that an earlier call fitted, go on with the one it left");
  add_save_every(comparing, *o);
  comparing.flag("--json", o->json, "Print JSON");
  comparing.example("ingot forecast compare ETTh1.csv --split ett --model dlinear --model nlinear",
                    "two models and three baselines");
  comparing.run([o] { return run_compare(*o); });
}

}  // namespace ingot::cli
