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
#include "ingot/core/device_config.h"
#include "ingot/forecast/fit.h"
#include "ingot/hub/resolve.h"
#include "ingot/train/language/dataset.h"
#include "ingot/train/language/language_trainer.h"

namespace ingot::cli {
namespace {

using tune::TrialRun;

std::string assignment(const tune::SearchSpace& space, std::size_t i, double value) {
  return space.parameters[i].name + "=" + space.yaml(i, value);
}

// What the study sets and what it tries, over its configuration. Messages name where the study has it.
void change(Config& file, const tune::StudyConfig& study, const tune::Values& values) {
  for (const std::string& setting : study.set) file.set(setting, fmt::format("set of {}", study.set_where));
  const tune::SearchSpace& space = study.tuner.space;
  for (std::size_t i = 0; i < space.size(); ++i) {
    const tune::Parameter& p = space.parameters[i];
    if (!std::isnan(values[i]))
      file.set(assignment(space, i, values[i]), fmt::format("space.{} of {}", p.name, p.where));
  }
}

forecast::FitConfig forecast_config(const tune::StudyConfig& study, const tune::Values& values) {
  Config file = Config::load(study.objective);
  change(file, study, values);
  return forecast::read_fit_config(file);
}

/// Hands every evaluation on.
class EvaluationReporter : public Reporter {
 public:
  explicit EvaluationReporter(std::function<void(const EvalRecord&)> take) : take_(std::move(take)) {}
  void evaluation(const EvalRecord& record) override { take_(record); }

 private:
  std::function<void(const EvalRecord&)> take_;
};

/// A training run per trial. Its value is a validation loss; every evaluation is reported, so pruning works.
class TrainObjective : public tune::Objective {
 public:
  explicit TrainObjective(const tune::StudyConfig& study) : study_(study) {
    const std::string own = "is the study's to choose: each trial has a directory of its own";
    for (const tune::Parameter& p : study_.tuner.space.parameters)
      INGOT_CHECK(p.name != "output_dir",
                  InvalidConfig("space.output_dir", fmt::format("{} ({})", own, p.where)));
    for (const std::string& assignment : study_.set)
      INGOT_CHECK(assignment.rfind("output_dir=", 0) != 0,
                  InvalidConfig("set", fmt::format("output_dir {} ({})", own, study_.set_where)));
  }

  void check(const tune::SearchSpace&, const tune::Values& values) override {
    Config file = load(values, "check");
    const TrainConfig config = read_train_config(file);
    check_inputs(config);
    static_cast<void>(choose_device(config.device));  // warns here, for what workers say goes to their logs
    INGOT_CHECK(
        !config.validation_datasets.empty() || config.validation_split_ratio > 0,
        InvalidConfig("validation_split_ratio",
                      fmt::format("is 0 in {}; a study compares validation losses", study_.objective)));
  }

  std::optional<std::vector<double>> run(TrialRun& run) override {
    Config file = load(run.trial().values, run.directory());
    TrainConfig config = read_train_config(file);
    fetch_from_hub(config);
    const bool averaged = config.ema_decay > 0;  // what is evaluated is what the model's directory gets
    double best = std::numeric_limits<double>::infinity(), last = std::numeric_limits<double>::quiet_NaN();
    const auto take = [&](const EvalRecord& record) {
      if (record.ema != averaged) return;
      best = std::min(best, record.loss);
      last = record.loss;
      const auto& reports = run.trial().reports;
      if (reports.empty() || reports.back().step < record.step) run.report(record.step, record.loss);
    };
    LanguageTrainerHooks hooks;
    hooks.reporters = {std::make_shared<EvaluationReporter>(take)};
    hooks.should_stop = [&] {
      run.throw_if_stopped();
      return run.pruned();
    };
    LanguageTrainer trainer(config, hooks);
    write_file_atomically(config.output_dir + "/config.yaml", file.dump());
    trainer.run();
    if (run.pruned()) return std::nullopt;
    INGOT_CHECK(!std::isnan(last),
                Error("the run made no evaluation; set eval_steps, or give more validation data"));
    return std::vector<double>{study_.metric == "validation_loss" ? last : best};
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

  // The trials share their tokenized data, keep no checkpoints but the last, and leave their own values on
  // top.
  Config load(const tune::Values& values, const std::string& directory) const {
    Config file = Config::load(study_.objective);
    if (!file.root().has("cache_dir")) file.set("cache_dir=" + study_.output_dir + "/cache");
    file.set("save_steps=0");
    file.set("report_to=[jsonl]");
    change(file, study_, values);
    file.set("output_dir=" + directory);
    return file;
  }

  tune::StudyConfig study_;
  std::set<std::vector<std::string>> checked_;  // inputs that are there
};

/// A forecasting model per trial. Its value is the best validation loss; every epoch is reported.
class ForecastObjective : public tune::Objective {
 public:
  explicit ForecastObjective(const tune::StudyConfig& study) : study_(study) {}

  void check(const tune::SearchSpace&, const tune::Values& values) override {
    const forecast::FitConfig config = forecast_config(study_, values);
    static_cast<void>(choose_device(config.device));
    if (!data_is_fine_) static_cast<void>(forecast::read_data(config));
    data_is_fine_ = true;
  }

  std::optional<std::vector<double>> run(TrialRun& run) override {
    forecast::FitHooks hooks;
    hooks.on_epoch = [&](const forecast::EpochReport& epoch) {
      run.throw_if_stopped();
      return run.report(epoch.epoch, epoch.validation_loss);
    };
    const forecast::FitResult result = forecast::fit(forecast_config(study_, run.trial().values), hooks);
    if (run.pruned()) return std::nullopt;
    return std::vector<double>{result.best_validation_loss};
  }

 private:
  tune::StudyConfig study_;
  bool data_is_fine_ = false;
};

}  // namespace

std::string training_command(const std::string& directory) {
  return fmt::format("ingot train {} --set output_dir=output", shell_word(directory + "/config.yaml"));
}

std::string longer_training_command(const std::string& directory) {
  constexpr std::int64_t kTimes = 3;
  const ConfigReader config = Config::load(directory + "/config.yaml").root();
  const std::int64_t steps = config.get("max_steps", std::int64_t{-1});
  const double seconds = config.get("max_seconds", 0.0);
  std::string command = training_command(directory) + " --set " +
                        (steps > 0 ? fmt::format("max_steps={}", kTimes * steps)
                                   : fmt::format("num_epochs={}", kTimes * config.get("num_epochs", 1.0)));
  if (seconds > 0) command += fmt::format(" --set max_seconds={}", kTimes * seconds);
  return command;
}

std::string forecast_command(const tune::StudyConfig& config, const tune::Values& best) {
  std::vector<std::string> settings = config.set;
  for (std::size_t i = 0; i < best.size(); ++i) {
    if (!std::isnan(best[i])) settings.push_back(assignment(config.tuner.space, i, best[i]));
  }
  const std::filesystem::path data =
      std::filesystem::path(config.directory) / forecast_config(config, best).data;
  std::string command = fmt::format("ingot forecast fit {} --config {}", shell_word(data.string()),
                                    shell_word(config.objective));
  for (const std::string& setting : settings) command += " --set " + shell_word(setting);
  return command;
}

std::unique_ptr<tune::Objective> make_objective(const tune::StudyConfig& config) {
  if (config.kind == "command") return tune::make_command_objective(config);
  if (config.kind == "forecast") return std::make_unique<ForecastObjective>(config);
  return std::make_unique<TrainObjective>(config);
}

}  // namespace ingot::cli
