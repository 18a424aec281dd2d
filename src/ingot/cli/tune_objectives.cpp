#include "ingot/cli/tune_objectives.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <set>

#include <fmt/format.h>

#include "ingot/base/config.h"
#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/base/shell.h"
#include "ingot/forecast/fit.h"
#include "ingot/hub/resolve.h"
#include "ingot/train/dataset.h"
#include "ingot/train/trainer.h"

namespace ingot::cli {
namespace {

using tune::TrialRun;

std::vector<std::string> assignments(const tune::SearchSpace& space, const tune::Values& values) {
  std::vector<std::string> list;
  for (std::size_t i = 0; i < space.size(); ++i) {
    if (!std::isnan(values[i])) list.push_back(space.parameters[i].name + "=" + space.text(i, values[i]));
  }
  return list;
}

forecast::FitConfig forecast_config(const std::string& path, const std::vector<std::string>& set,
                                    const std::vector<std::string>& assignments) {
  Config file = Config::load(path);
  for (const std::string& assignment : set) file.set(assignment);
  for (const std::string& assignment : assignments) file.set(assignment);
  return forecast::read_fit_config(file);
}

/// A training run per trial. Its value is a validation loss; every evaluation is reported, so pruning works.
class TrainObjective : public tune::Objective {
 public:
  explicit TrainObjective(const tune::StudyConfig& study)
      : path_(study.objective),
        set_(study.set),
        cache_(study.output_dir + "/cache"),
        metric_(study.metric.empty() ? "best_validation_loss" : study.metric) {
    INGOT_CHECK(
        metric_ == "best_validation_loss" || metric_ == "validation_loss",
        InvalidConfig("metric",
                      fmt::format("'{}' is not one of best_validation_loss, validation_loss", metric_)));
    INGOT_CHECK(study.tuner.direction == tune::Direction::minimize,
                InvalidConfig("direction", "a loss is to be minimized"));
    const std::string own = "is the study's to choose: each trial has a directory of its own";
    for (const tune::Parameter& p : study.tuner.space.parameters)
      INGOT_CHECK(p.name != "output_dir", InvalidConfig("space.output_dir", own));
    for (const std::string& assignment : set_)
      INGOT_CHECK(assignment.rfind("output_dir=", 0) != 0, InvalidConfig("set", "output_dir " + own));
  }

  void check(const tune::SearchSpace& space, const tune::Values& values) override {
    Config file = load(assignments(space, values), "check");
    const TrainConfig config = read_train_config(file);
    check_inputs(config);
    INGOT_CHECK(!config.validation_datasets.empty() || config.validation_split_ratio > 0,
                InvalidConfig("validation_split_ratio",
                              fmt::format("is 0 in {}; a study compares validation losses", path_)));
  }

  std::optional<double> run(TrialRun& run) override {
    Config file = load(run.assignments(), run.directory());
    TrainConfig config = read_train_config(file);
    if (!config.from_scratch) config.model = hub::resolve_model(config.model);
    const bool averaged = config.ema_decay > 0;  // what is evaluated is what the model's directory gets
    double best = std::numeric_limits<double>::infinity(), last = std::numeric_limits<double>::quiet_NaN();
    TrainerHooks hooks;
    hooks.on_eval = [&](const EvalRecord& record) {
      if (record.ema != averaged) return;
      best = std::min(best, record.loss);
      last = record.loss;
      const auto& reports = run.trial().reports;
      if (reports.empty() || reports.back().step < record.step) run.report(record.step, record.loss);
    };
    hooks.should_stop = [&] {
      run.throw_if_stopped();
      return run.pruned();
    };
    Trainer trainer(config, hooks);
    write_file_atomically(config.output_dir + "/config.yaml", file.dump());
    trainer.run();
    if (run.pruned()) return std::nullopt;
    INGOT_CHECK(!std::isnan(last),
                Error("the run made no evaluation; set eval_steps, or give more validation data"));
    return metric_ == "best_validation_loss" ? best : last;
  }

 private:
  // What a trial would only find when it runs. Once for each set of inputs, as many draws have the same.
  void check_inputs(const TrainConfig& config) {
    std::vector<std::string> inputs{config.tokenizer, config.from_scratch ? "" : config.model};
    for (const auto* datasets : {&config.datasets, &config.validation_datasets}) {
      for (const DatasetConfig& dataset : *datasets) inputs.push_back(dataset.path);
    }
    if (checked_.contains(inputs)) return;
    check_data_paths(config);
    check_path(config.tokenizer, "tokenizer");
    if (!config.from_scratch) check_path(hub::resolve_model(config.model), "model");
    checked_.insert(inputs);
  }

  static void check_path(const std::string& path, const char* key) {
    INGOT_CHECK(path.empty() || std::filesystem::exists(path),
                IoError(path, fmt::format("does not exist; check the path of the {}", key)));
  }

  // The trials share their tokenised data, keep no checkpoints but the last, and leave their own values on
  // top.
  Config load(const std::vector<std::string>& assignments, const std::string& directory) const {
    Config file = Config::load(path_);
    if (!file.root().has("cache_dir")) file.set("cache_dir=" + cache_);
    file.set("save_steps=0");
    file.set("report_to=[jsonl]");
    for (const std::string& assignment : set_) file.set(assignment);
    for (const std::string& assignment : assignments) file.set(assignment);
    file.set("output_dir=" + directory);
    return file;
  }

  std::string path_;
  std::vector<std::string> set_;
  std::string cache_, metric_;
  std::set<std::vector<std::string>> checked_;  // inputs that are there
};

/// A forecasting model per trial. Its value is the best validation loss; every epoch is reported.
class ForecastObjective : public tune::Objective {
 public:
  explicit ForecastObjective(const tune::StudyConfig& study) : path_(study.objective), set_(study.set) {
    INGOT_CHECK(study.metric.empty() || study.metric == "best_validation_loss",
                InvalidConfig("metric", fmt::format("'{}' is not best_validation_loss", study.metric)));
    INGOT_CHECK(study.tuner.direction == tune::Direction::minimize,
                InvalidConfig("direction", "a loss is to be minimized"));
  }

  void check(const tune::SearchSpace& space, const tune::Values& values) override {
    const forecast::FitConfig config = load(assignments(space, values));
    if (!data_is_fine_) static_cast<void>(forecast::read_data(config));
    data_is_fine_ = true;
  }

  std::optional<double> run(TrialRun& run) override {
    forecast::FitHooks hooks;
    hooks.on_epoch = [&](const forecast::EpochReport& epoch) {
      run.throw_if_stopped();
      return run.report(epoch.epoch, epoch.validation_loss);
    };
    const forecast::FitResult result = forecast::fit(load(run.assignments()), hooks);
    return run.pruned() ? std::nullopt : std::optional(result.best_validation_loss);
  }

 private:
  forecast::FitConfig load(const std::vector<std::string>& assignments) const {
    return forecast_config(path_, set_, assignments);
  }

  std::string path_;
  std::vector<std::string> set_;
  bool data_is_fine_ = false;
};

}  // namespace

std::string longer_training_command(const std::string& directory) {
  constexpr std::int64_t kTimes = 3;
  const std::string path = directory + "/config.yaml";
  const ConfigReader config = Config::load(path).root();
  const std::int64_t steps = config.get("max_steps", std::int64_t{-1});
  const double seconds = config.get("max_seconds", 0.0);
  std::string command =
      fmt::format("ingot train {} --set output_dir=output --set {}", shell_word(path),
                  steps > 0 ? fmt::format("max_steps={}", kTimes * steps)
                            : fmt::format("num_epochs={}", kTimes * config.get("num_epochs", 1.0)));
  if (seconds > 0) command += fmt::format(" --set max_seconds={}", kTimes * seconds);
  return command;
}

std::string forecast_command(const tune::StudyConfig& config, const tune::Values& best) {
  std::vector<std::string> settings = config.set;
  for (const std::string& assignment : assignments(config.tuner.space, best)) settings.push_back(assignment);
  const forecast::FitConfig fit = forecast_config(config.objective, config.set, {});
  std::string command =
      fmt::format("ingot forecast fit {} --config {}", shell_word(fit.data), shell_word(config.objective));
  for (const std::string& setting : settings) command += " --set " + shell_word(setting);
  return command;
}

std::unique_ptr<tune::Objective> make_objective(const tune::StudyConfig& config) {
  if (config.kind == "command") return tune::make_command_objective(config);
  if (config.kind == "forecast") return std::make_unique<ForecastObjective>(config);
  return std::make_unique<TrainObjective>(config);
}

}  // namespace ingot::cli
