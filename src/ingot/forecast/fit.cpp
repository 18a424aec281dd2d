#include "ingot/forecast/fit.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/base/error.h"
#include "ingot/base/json.h"
#include "ingot/core/device_config.h"
#include "ingot/dist/agreement.h"
#include "ingot/dist/device_ranks.h"
#include "ingot/forecast/fit_json.h"
#include "ingot/forecast/fit_task.h"
#include "ingot/forecast/forecaster.h"
#include "ingot/forecast/input_effects.h"
#include "ingot/kernels/matmul_precision.h"
#include "ingot/weights/open.h"

namespace ingot::forecast {
namespace {

// With weights that are drawn, or those of the model to begin from.
std::unique_ptr<ForecastModel> first_model(const FitConfig& config, Device device) {
  if (!config.from.empty()) {
    return ForecastModel::from_weights(config.model, *open_weights(weights_path(config.from)),
                                       {.dtype = DType::f32, .device = device});
  }
  InitSource source(config.seed, DType::f32, device);
  return make_forecast_model(config.model, source);
}

void check_saving(const FitSaving& saving) {
  INGOT_CHECK(saving.resume || !has_fit_checkpoint(saving.directory),
              IoError(saving.directory,
                      "holds a fit that was not finished; go on with it (--resume), or remove "
                      "the directory to begin anew"));
}

// Hands what the Trainer tells on to the hooks of a fit.
class HookReporter : public Reporter {
 public:
  HookReporter(const FitHooks& hooks, const FitTask& task) : hooks_(hooks), task_(task) {}
  void progress(const StepRecord& record) override {
    if (hooks_.on_step) hooks_.on_step(record.step, task_.total_steps(), record.loss);
  }
  void evaluation(const EvalRecord&) override { epoch_ended_ = true; }
  bool asks_to_stop() {
    const bool told = std::exchange(epoch_ended_, false) && hooks_.on_epoch &&
                      hooks_.on_epoch(task_.progress().epochs.back());
    return told || (hooks_.should_stop && hooks_.should_stop());
  }

 private:
  const FitHooks& hooks_;
  const FitTask& task_;
  bool epoch_ended_ = false;
};

TrainerOptions options_of(const FitConfig& config, const FitTask& task, const FitSaving& saving,
                          dist::Communicator* ranks) {
  TrainerOptions options{.total_steps = task.total_steps(),
                         .eval_steps = task.epoch_steps(),
                         .early_stopping_patience = config.patience,
                         .averages_decide = true,
                         .ties_are_best = true,  // as in the published code
                         .checkpoint_format = "ingot.fit",
                         .save_seconds = saving.every_seconds,
                         .save_at_end = false,
                         .save_total_limit = 1};
  if (!saving.directory.empty()) options.checkpoints = fit_checkpoints(saving.directory, ranks);
  return options;
}

// Null where there is one process.
dist::Communicator* several(const FitHooks& hooks) {
  return hooks.ranks != nullptr && hooks.ranks->size() > 1 ? hooks.ranks : nullptr;
}

Device device_of(const FitConfig& config, dist::Communicator* ranks) {
  if (ranks == nullptr) return choose_device(config.device);
  INGOT_CHECK(
      config.batch_size >= ranks->size(),
      InvalidConfig("batch_size", fmt::format("is {}, fewer than the {} processes, of which each takes "
                                              "a share of every batch; start fewer, or raise it",
                                              config.batch_size, ranks->size())));
  const Device device = dist::choose_rank_device(*ranks, config.device);
  dist::connect_devices(*ranks, device);
  return device;
}

// What there is to go on from, if anything.
std::optional<SavedCheckpoint> saved_fit(const FitSaving& saving, dist::Communicator* ranks) {
  if (!saving.resume || saving.directory.empty()) return std::nullopt;
  if (ranks != nullptr && !ranks->is_first()) ranks->barrier();  // the first sweeps away what a crash left
  std::optional<SavedCheckpoint> saved = fit_checkpoints(saving.directory).newest();
  if (ranks != nullptr && ranks->is_first()) ranks->barrier();
  return saved;
}

// Each steps the weights by the same gradients: where one began elsewhere, it would learn alone.
void check_ranks_agree(FitTask& task, dist::Communicator* ranks) {
  if (ranks == nullptr) return;
  const FitProgress& progress = task.progress();
  dist::Settings settings;
  const auto json = parse_json<nlohmann::ordered_json>(task.identity().config, "the fit");
  for (const auto& [key, value] : json.items()) settings.emplace_back(key, value.dump());
  settings.emplace_back("zero_stage", fmt::format("{}", task.zero_stage()));
  settings.emplace_back("data", "SHA-256 " + task.identity().table);
  settings.emplace_back("done", fmt::format("{} epochs, {} batches", progress.epochs.size(), progress.batch));
  settings.emplace_back("weights", weights_checksum(task.model()));
  dist::check_agreement(*ranks, settings, "start every rank with the same configuration and table");
}

// What a fit of this model to this table has where nobody says otherwise.
FitConfig defaults_of(const FitConfig& config, const SeriesTable& table) {
  FitConfig defaults = FitConfig::defaults(config.model.model, config.model.horizon);
  defaults.model.channels = config.model.channels;
  defaults.model.time_features = config.model.time_features;
  defaults.model.future_inputs = config.model.future_inputs;
  defaults.table = with_layout_of(table, defaults.table);
  return defaults;
}

// For the record that goes into checkpoints.
RunInfo info_of(const FitConfig& config, const SeriesTable& table, const FitIdentity& identity) {
  RunInfo info;
  const auto defaults = to_json(defaults_of(config, table));
  const auto config_json = parse_json<nlohmann::ordered_json>(identity.config, "the fit");
  for (const auto& [key, value] : config_json.items())
    info.config.push_back(
        {key, value.is_string() ? value.get<std::string>() : value.dump(),
         key == "model" || key == "horizon" || !defaults.contains(key) || defaults.at(key) != value});
  info.metadata.seeds = {{"seed", config.seed}};
  info.metadata.data = {{"data", identity.table}};
  return info;
}

}  // namespace

FitConfig completed(FitConfig config, const SeriesTable& table) {
  const auto follows = [](const char* key, std::int64_t& given, std::int64_t unset, std::int64_t found,
                          const char* what) {
    INGOT_CHECK(given == unset || given == found,
                InvalidConfig(key, fmt::format("is {}, but {} {}; leave the key out", given, what, found)));
    given = found;
  };
  const ForecastModelConfig unset;
  follows("channels", config.model.channels, unset.channels,
          static_cast<std::int64_t>(table.column_names.size()), "the table's columns of values are");
  follows(
      "time_features", config.model.time_features, unset.time_features,
      config.use_time_features ? static_cast<std::int64_t>(time_feature_names(table.frequency).size()) : 0,
      "the calendar features of its frequency are");
  follows("future_inputs", config.model.future_inputs, unset.future_inputs,
          static_cast<std::int64_t>(table.future_names.size()), "the inputs that are known ahead are");
  config.table = with_layout_of(table, config.table);
  config.validate();
  return config;
}

FitResult fit(FitConfig given, const SeriesTable& table, const FitHooks& hooks, const FitSaving& saving) {
  check_saving(saving);
  FitResult result;
  result.config = completed(std::move(given), table);
  const FitConfig& config = result.config;
  const kernels::MatmulPrecisionScope precision(kernels::parse_matmul_precision(config.matmul_precision));
  const DataSplit parts =
      split_windows(table, config.split, config.scaler, config.model.lookback, config.model.horizon);
  dist::Communicator* const ranks = several(hooks);
  result.model = first_model(config, device_of(config, ranks));
  if (config.from.empty()) start_effects(*result.model, table, config.split, parts);
  FitTask task(config, table, parts, *result.model, ranks);
  const RunInfo info = info_of(config, table, task.identity());
  result.metadata = info.metadata;
  result.metadata.describe_process(result.model->device());
  result.metadata.set_configuration(info.config);
  const auto reporter = std::make_shared<HookReporter>(hooks, task);
  Trainer trainer(
      task, options_of(config, task, saving, ranks), info,
      {.reporters = {reporter}, .should_stop = [&] { return reporter->asks_to_stop(); }, .ranks = ranks});
  if (const std::optional<SavedCheckpoint> saved = saved_fit(saving, ranks)) {
    trainer.resume(*saved);
    if (hooks.on_resume) hooks.on_resume(task.progress());
  }
  check_ranks_agree(task, ranks);
  result.end = trainer.run();
  task.keep_chosen_weights();
  result.epochs = task.progress().epochs;
  result.best_epoch = task.progress().best_epoch;
  result.best_validation_loss = task.progress().best_validation_loss;
  return result;
}

std::unique_ptr<ForecastModel> fit_all_rows(FitConfig config, std::int64_t epochs, const SeriesTable& table,
                                            const std::map<std::string, ColumnScales>& scales,
                                            const FitHooks& hooks) {
  config.epochs = epochs;
  config.keep = "last";
  config.patience = 0;
  const kernels::MatmulPrecisionScope precision(kernels::parse_matmul_precision(config.matmul_precision));
  const WindowSet none(config.model.lookback, config.model.horizon, static_cast<std::int64_t>(table.targets));
  DataSplit parts{{}, none, none, none};
  for (const Series& series : table.series) {
    const auto found = scales.find(series.id);
    if (found == scales.end()) continue;
    parts.series.push_back(
        std::make_shared<const ScaledSeries>(scaled(series, found->second, table.frequency)));
    const auto rows = static_cast<std::int64_t>(series.length());
    parts.train.add(parts.series.back(), 0, rows);
    parts.validation.add(parts.series.back(), 0, rows, config.model.horizon);  // ends epochs, decides nothing
  }
  dist::Communicator* const ranks = several(hooks);
  std::unique_ptr<ForecastModel> model = first_model(config, device_of(config, ranks));
  if (config.from.empty()) start_effects(*model, table, {.train = 1, .test = 0}, parts);
  FitTask task(config, table, parts, *model, ranks);
  if (hooks.on_refit) hooks.on_refit(epochs);
  const FitHooks steps{.on_step = hooks.on_step, .on_epoch = {}, .should_stop = hooks.should_stop};
  const auto reporter = std::make_shared<HookReporter>(steps, task);
  Trainer trainer(
      task, options_of(config, task, {}, ranks), {},
      {.reporters = {reporter}, .should_stop = [&] { return reporter->asks_to_stop(); }, .ranks = ranks});
  if (trainer.run() == TrainEnd::stopped) return nullptr;
  task.keep_chosen_weights();
  return model;
}

void check_fit(FitConfig given, const SeriesTable& table, const FitSaving& saving) {
  check_saving(saving);
  const FitConfig config = completed(std::move(given), table);
  choose_device(config.device);
  split_windows(table, config.split, config.scaler, config.model.lookback, config.model.horizon);
  if (config.from.empty()) return;
  const auto weights = open_weights(weights_path(config.from));
  ForecastModel::architecture_check(config.model, *weights).require(weights->location());
}

SeriesTable read_data(const FitConfig& config) {
  INGOT_CHECK(!config.data.empty(), InvalidConfig("data", "is missing; give the path of a CSV file"));
  return read_series(config.data, config.table);
}

FitResult fit(FitConfig config, const FitHooks& hooks) {
  const SeriesTable table = read_data(config);
  return fit(std::move(config), table, hooks);
}

}  // namespace ingot::forecast
