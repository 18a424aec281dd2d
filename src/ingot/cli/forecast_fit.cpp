#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/base/config.h"
#include "ingot/base/directory_lock.h"
#include "ingot/base/files.h"
#include "ingot/base/json.h"
#include "ingot/base/log.h"
#include "ingot/base/plural.h"
#include "ingot/base/printable.h"
#include "ingot/base/progress.h"
#include "ingot/base/shell.h"
#include "ingot/base/units.h"
#include "ingot/cli/config_keys.h"
#include "ingot/cli/forecast_fitting.h"
#include "ingot/cli/help_page.h"
#include "ingot/cli/interrupt.h"
#include "ingot/cli/one_process.h"
#include "ingot/cli/ranks.h"
#include "ingot/core/device_config.h"
#include "ingot/dist/communicator.h"
#include "ingot/dist/processors.h"
#include "ingot/forecast/fit_checkpoint.h"
#include "ingot/forecast/fit_json.h"
#include "ingot/forecast/fit_keys.h"
#include "ingot/forecast/forecast_text.h"
#include "ingot/forecast/statistical/local_model.h"

namespace ingot::cli {
namespace {

using namespace ingot::forecast;
using Json = nlohmann::ordered_json;

// "a,b" as a list of words, whatever YAML would make of them.
std::string list_of_words(const std::string& by_comma) {
  Json words = Json::array();
  for (std::size_t start = 0; start <= by_comma.size();) {
    const std::size_t end = std::min(by_comma.find(',', start), by_comma.size());
    words.push_back(by_comma.substr(start, end - start));
    start = end + 1;
  }
  return dump_json(words);
}

// The usual horizon, which nobody chose, may be more than a short table holds.
ForecastOptions with_horizon(const SeriesTable& table, const ForecastOptions& o, const FitConfig& config) {
  ForecastOptions chosen = o;
  const std::int64_t usual = ForecastModelConfig().horizon;
  const bool asked = o.horizon || !config.from.empty() || config.model.horizon != usual;
  if (asked || short_table_lookback(table, config.split, usual) > 0) return chosen;
  chosen.horizon = std::to_string(short_table_horizon(table, config.split));
  if (!o.json) {
    fmt::print("  {} forecasts {} rows, as the table is too short for {} (--horizon chooses)\n",
               config.model.model, *chosen.horizon, usual);
  }
  return chosen;
}

// The look-back of a model's paper, which nobody chose, may be longer than a short table.
FitConfig with_lookback(const SeriesTable& table, const ForecastOptions& o, const FitConfig& config) {
  const ForecastModelConfig& model = config.model;
  const std::int64_t usual = ForecastModelConfig::defaults(model.model, model.horizon).lookback;
  if (o.lookback || !config.from.empty() || model.lookback != usual) return config;
  if (series_too_short(table, config.split, usual, model.horizon).size() < table.series.size()) return config;
  const std::int64_t shorter = short_table_lookback(table, config.split, model.horizon);
  if (shorter == 0) return config;  // the error of the fit says why
  if (!o.json) {
    fmt::print("  {} reads {} rows, as the table is too short for the {} of its paper (--lookback chooses)\n",
               model.model, shorter, usual);
  }
  ForecastOptions chosen = o;
  chosen.lookback = std::to_string(shorter);
  const ForecastModelConfig usual_form = ForecastModelConfig::defaults(model.model, model.horizon);
  if (model.model == "patchtst" && model.patch_length > shorter &&
      model.patch_length == usual_form.patch_length && model.patch_stride == usual_form.patch_stride) {
    chosen.set.push_back(fmt::format("patch_length={}", std::max<std::int64_t>(2, shorter / 2)));
    chosen.set.push_back(fmt::format("patch_stride={}", std::max<std::int64_t>(1, shorter / 4)));
  }
  return fit_configuration(chosen, model.model);
}

void tell_epoch(const EpochReport& e) {
  const ProgressPause pause;
  fmt::print("epoch {:>3}  training {:.4f}  validation {:.4f}{}  {}\n", e.epoch, e.train_loss,
             e.validation_loss, e.best ? " *" : "  ", human_duration(e.seconds));
  std::fflush(stdout);
}

}  // namespace

Config given_configuration(const ForecastOptions& o, const std::optional<std::string>& model) {
  const auto not_empty = [](const char* option, const std::string& value) {
    INGOT_CHECK(!value.empty(), InvalidConfig(option, "is empty; give a value, or leave the option out"));
  };
  if (o.config) not_empty("--config", *o.config);
  Config config = o.config ? Config::load(*o.config) : Config::parse("{}", "the command line");
  const auto set = [&](const char* option, const char* key, const std::optional<std::string>& value) {
    if (!value) return;
    not_empty(option, *value);
    config.set(fmt::format("{}={}", key, *value), option);
  };
  const auto set_words = [&](const char* option, const char* key, const std::optional<std::string>& value) {
    if (!value) return;
    not_empty(option, *value);
    config.set(fmt::format("{}={}", key, list_of_words(*value)), option);
  };
  const auto set_path = [&](const char* option, const char* key, const std::string& path) {
    not_empty(option, path);
    config.set(fmt::format("{}={}", key, dump_json(nlohmann::json(path))), option);
  };
  const auto chosen = [](const std::string& word) {
    return word.empty() ? std::nullopt : std::optional(word);
  };
  if (!o.data.empty()) set_path("data", "data", o.data);
  set("--model", "model", model);
  if (o.from) set_path("--from", "from", *o.from);
  set("--horizon", "horizon", o.horizon);
  set("--lookback", "lookback", o.lookback);
  set("--epochs", "epochs", o.epochs);
  set("--device", "device", o.device);
  set("--fill", "fill", chosen(o.fill));
  set("--scaler", "scaler", chosen(o.scaler));
  set("--split", "split", chosen(o.split));
  set("--frequency", "frequency", o.frequency);
  set_words("--target", "targets", o.targets);
  set_words("--columns", "columns", o.columns);
  set_words("--future", "future", o.future);
  if (!o.holidays.empty()) set_path("--holidays", "holidays", o.holidays);
  if (o.sort) config.set("sort=true", "--sort");
  if (o.refit) config.set("refit=true", "--refit");
  if (!o.date_format.empty())
    config.set(fmt::format("date_format={}", dump_json(nlohmann::json(o.date_format))), "--date-format");
  set("--decimal", "decimal", chosen(o.decimal));
  set("--encoding", "encoding", chosen(o.encoding));
  for (const std::string& assignment : o.set) config.set(assignment);
  return config;
}

std::vector<std::string> all_models() {
  std::vector<std::string> names = forecast_models();
  names.insert(names.end(), local_models().begin(), local_models().end());
  names.emplace_back("auto");
  return names;
}

bool is_network(const std::string& model) { return std::ranges::count(forecast_models(), model) > 0; }

FitConfig fitted_to(const SeriesTable& table, const ForecastOptions& o, const FitConfig& config) {
  const ForecastOptions chosen = with_horizon(table, o, config);
  return with_lookback(table, chosen,
                       chosen.horizon == o.horizon ? config : fit_configuration(chosen, config.model.model));
}

std::vector<LeftOut> leave_out_constant(SeriesTable& table, const FitConfig& config,
                                        const ForecastOptions& o) {
  std::vector<LeftOut> left_out = take_out_constant_columns(table, config.split, config.scaler);
  if (!o.json) tell_left_out(left_out, stdout);
  return left_out;
}

FitSaving saving_of(const ForecastOptions& o, const std::string& output) {
  INGOT_CHECK(o.save_every >= 0,
              InvalidConfig("--save-every", fmt::format("must be at least 0, got {}", o.save_every)));
  return {.directory = output + "-unfinished",
          .every_seconds = static_cast<double>(o.save_every),
          .resume = o.resume};
}

WrittenFit fit_into(const std::string& output, const ForecastOptions& o, const FitConfig& config,
                    const SeriesTable& table, dist::Communicator* ranks) {
  check_output_is_new(o, output);
  const FitSaving saving = saving_of(o, output);
  WrittenFit written;
  written.left_out =
      series_not_fitted(table, config.split, config.scaler, config.model.lookback, config.model.horizon);
  if (!o.json && written.left_out.size() < table.series.size()) tell_left_out(written.left_out, stdout);
  const Device device = choose_device(config.device);
  if (!o.json && device != kCpu) fmt::print("  on {}\n", to_string(device));
  written.forecaster =
      fit_shown(config, table, {.label = config.model.model, .json = o.json, .ranks = ranks}, saving);
  const Forecaster& f = written.forecaster;
  written.unfinished = f.end == TrainEnd::stopped && has_fit_checkpoint(saving.directory);
  if (f.epochs.empty()) return written;  // stopped in the first epoch: no weights were validated
  const Report report = forecast_report(f, table, 0);
  save_forecaster(output, f, &report);
  if (!written.unfinished) remove_fit_checkpoint(saving.directory);
  return written;
}

FitConfig fit_configuration(const ForecastOptions& o, const std::optional<std::string>& model) {
  Config config = given_configuration(o, model);
  return read_fit_config(config);
}

FitConfig reading_configuration(const ForecastOptions& o) {
  Config config = given_configuration(o, std::nullopt);
  config.set("model=dlinear", "--model");
  return read_fit_config(config);
}

void tell_table(const SeriesTable& table, bool json) {
  if (json) return;
  std::size_t rows = 0;
  for (const Series& s : table.series) rows += s.length();
  fmt::print("{}: {} series, {} rows, one per {}\n", printable(table.source),
             table.long_layout ? table.series.size() : table.column_names.size(),
             human_count(static_cast<double>(rows)), table.frequency.in_words());
  tell_reading(table, stdout);
}

std::string output_directory(const ForecastOptions& o, const std::string& data, const std::string& name) {
  if (o.output.empty()) return fmt::format("{}-{}", std::filesystem::path(data).stem().string(), name);
  std::string output = o.output;
  while (output.size() > 1 && output.back() == '/') output.pop_back();
  return output;
}

void check_output_is_new(const ForecastOptions& o, const std::string& output) {
  // Of one that was stopped the model is its best so far; the fit asks for --resume itself.
  const bool goes_on = has_fit_checkpoint(output + "-unfinished");
  INGOT_CHECK(
      o.overwrite || goes_on || !std::filesystem::exists(output) || std::filesystem::is_empty(output),
      InvalidConfig("--output", fmt::format("{} is there already; --overwrite replaces the model in it, "
                                            "-o names another directory",
                                            output)));
  check_model_directory(output);
}

void tell_reading(const SeriesTable& table, std::FILE* to) {
  constexpr std::size_t kMost = 5;
  fmt::print(to, "  {}\n",
             wrap_on_terminal(fmt::format("read as: {}", printable(table.read_as)), 4, fileno(to)));
  const std::vector<std::string>& notes = table.filled.notes;
  for (std::size_t i = 0; i < std::min(kMost, notes.size()); ++i)
    fmt::print(to, "  gaps: {}\n", printable(notes[i]));
  if (notes.size() > kMost) fmt::print(to, "  gaps: ... and {} more\n", notes.size() - kMost);
  tell_left_out(table.left_out, to);
}

void tell_left_out(const std::vector<LeftOut>& left_out, std::FILE* to) {
  std::map<std::string, std::vector<std::string>> by_reason;
  for (const LeftOut& series : left_out) by_reason[series.reason].push_back(series.id);
  for (const auto& [reason, ids] : by_reason)
    fmt::print(to, "  left out: {} ({})\n", printable(list_of(ids)), printable(reason));
}

std::vector<std::string> ids_of(const std::vector<LeftOut>& left_out) {
  std::vector<std::string> ids;
  ids.reserve(left_out.size());
  for (const LeftOut& series : left_out) ids.push_back(series.id);
  return ids;
}

Forecaster fit_shown(const FitConfig& config, const SeriesTable& table, const FitView& view,
                     const FitSaving& saving) {
  const bool tell_epochs = view.tell_epochs && !view.json;
  std::unique_ptr<ProgressBar> bar;
  FitHooks hooks;
  hooks.on_step = [&](std::int64_t done, std::int64_t total, double loss) {
    if (view.json) return;
    if (!bar) {
      bar = std::make_unique<ProgressBar>(
          ProgressOptions{.label = view.label, .total = total, .done = done - 1});
    }
    bar->update(done, bar->due() ? fmt::format("{} {:.4f}", config.loss, loss) : "");
  };
  hooks.on_epoch = [&](const EpochReport& e) {
    if (tell_epochs) tell_epoch(e);
    return false;
  };
  hooks.should_stop = [] { return interrupted(); };
  hooks.on_refit = [&](std::int64_t epochs) {
    if (bar) bar->finish();
    bar.reset();
    if (tell_epochs) fmt::print("fitting anew to all rows, for {}\n", counted(epochs, "epoch"));
  };
  hooks.on_resume = [&](const FitProgress& p) {
    if (!tell_epochs) return;
    for (const EpochReport& e : p.epochs) tell_epoch(e);
    fmt::print("going on after batch {} of epoch {}\n", p.batch, p.epochs.size() + 1);
  };
  hooks.ranks = view.ranks;
  const InterruptWatch watch;
  Forecaster f = fit_forecaster(config, table, hooks, saving);
  if (bar) bar->finish();
  return f;
}

namespace {

// Other ranks than the first of several compute and say nothing.
int fit_quietly(ForecastOptions o, dist::Communicator& ranks) {
  o.json = true;
  FitConfig config = fit_configuration(o, o.model);
  const std::string output = output_directory(o, config.data, config.model.model);
  SeriesTable table = read_data(config);
  leave_out_constant(table, config, o);
  config = fitted_to(table, o, config);
  const Forecaster f =
      fit_shown(config, table, {.label = "", .json = true, .ranks = &ranks}, saving_of(o, output));
  return f.end == TrainEnd::stopped ? interrupt_exit_code() : 0;
}

int fit_network(const ForecastOptions& o, dist::Communicator& ranks) {
  if (ranks.local_size() > 1) dist::share_threads(ranks.local_size());
  if (!ranks.is_first()) return fit_quietly(o, ranks);
  FitConfig config = fit_configuration(o, o.model);
  for (const std::string& key : keys_without_effect(config.model)) {
    log(LogLevel::warn, "ingot::forecast", fmt::format("{} has no effect on {}", key, config.model.model));
  }
  const std::string output = output_directory(o, config.data, config.model.model);
  check_output_is_new(o, output);
  SeriesTable table = read_data(config);
  tell_table(table, o.json);
  std::vector<LeftOut> left_out = leave_out_constant(table, config, o);
  config = fitted_to(table, o, config);
  const DirectoryLock lock(output);
  const auto [f, not_fitted, unfinished] = fit_into(output, o, config, table, &ranks);
  left_out.insert(left_out.end(), table.left_out.begin(), table.left_out.end());
  left_out.insert(left_out.end(), not_fitted.begin(), not_fitted.end());
  const int code = f.end == TrainEnd::stopped ? interrupt_exit_code() : 0;
  if (f.epochs.empty()) {
    if (o.json)
      fmt::print("{}\n", printable_json(dump_json(Json{{"end", name(f.end)}, {"epochs", Json::array()}}, 2)));
    if (!o.json) fmt::print("\nstopped in the first epoch, before there was a model; {}\n", kGoOn);
    return code;
  }
  double best = f.epochs[0].validation_loss;
  for (const EpochReport& e : f.epochs) best = std::min(best, e.validation_loss);
  if (o.json) {
    fmt::print("{}\n", printable_json(dump_json(Json{{"end", name(f.end)},
                                                     {"model", output},
                                                     {"report", output + "/report.html"},
                                                     {"lookback", config.model.lookback},
                                                     {"device", to_string(f.model->device())},
                                                     {"parameters", count_parameters(*f.model)},
                                                     {"best_validation_loss", best},
                                                     {"gaps", to_json(table.filled)},
                                                     {"read_as", table.read_as},
                                                     {"skipped", ids_of(left_out)},
                                                     {"epochs", to_json(f.epochs)}},
                                                2)));
    return code;
  }
  fmt::print(
      "\n{} after {}: best validation {} {:.4f}\n  model   {}\n  report  {}/report.html\n\nGo on "
      "with:\n"
      "  ingot forecast predict {} {} -o forecast.csv\n  ingot forecast evaluate {} {}\n",
      name(f.end), counted(std::ssize(f.epochs), "epoch"), config.loss, best, printable(output),
      printable(output), shell_word(output), shell_word(config.data), shell_word(output),
      shell_word(config.data));
  if (unfinished) fmt::print("\nThe fit was stopped; {}\n", kGoOn);
  return code;
}

}  // namespace

int run_forecast_fit(const ForecastOptions& o) {
  if (o.keys) return print_config_keys(fit_reference(), *o.keys, o.json);
  dist::Communicator& ranks = dist::world();
  return run_as_ranks(ranks, o.json, [&] {
    const std::string model =
        given_configuration(o, o.model).root().choice("model", forecast_models().front(), all_models());
    if (is_network(model)) return fit_network(o, ranks);
    check_one_process("forecast fit --model " + model);
    return run_local_fit(model, o);
  });
}

}  // namespace ingot::cli
