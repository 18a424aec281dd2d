#include "ingot/train/language/language_trainer.h"

#include <algorithm>
#include <cmath>

#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/models/language/model_directory.h"

namespace ingot {
namespace {

std::string model_directory(const TrainConfig& config) {
  return config.output_dir + (config.adapter.enabled ? "/adapter" : "/model");
}

std::optional<SavedCheckpoint> checkpoint_to_resume(const TrainConfig& config) {
  config.validate();
  const CheckpointDirectory checkpoints(config.output_dir);
  if (config.resume_from_checkpoint) return checkpoints.newest();
  INGOT_CHECK(
      checkpoints.list().empty(),
      InvalidConfig("output_dir", config.output_dir +
                                      " holds checkpoints of a run; go on with it by --resume (more steps: "
                                      "--set max_steps=N), or write elsewhere: --set output_dir=DIRECTORY"));
  return std::nullopt;
}

// Steps from one to the next, where so many are wanted in an epoch.
std::int64_t steps_between(double per_epoch, std::int64_t steps, const LanguageTask& task) {
  if (per_epoch <= 0) return steps;
  return std::max<std::int64_t>(1, std::llround(1 / (per_epoch * task.step_size().epochs)));
}

// Whether each rank has a part of what a checkpoint holds.
bool writes_together(LanguageTask& task) { return task.optimizer().shard() != nullptr; }

TrainerOptions options_of(LanguageTask& task) {
  const TrainConfig& config = task.config();
  TrainerOptions options{.total_steps = task.total_steps(),
                         .eval_steps = steps_between(config.evals_per_epoch, config.eval_steps, task),
                         .early_stopping_patience = config.early_stopping_patience,
                         .max_seconds = config.max_seconds,
                         .loss_watch = config.loss_watch,
                         .save_steps = steps_between(config.saves_per_epoch, config.save_steps, task),
                         .record_origins = config.record_origins,
                         .save_total_limit = config.save_total_limit};
  if (writes_together(task))
    options.checkpoints.emplace(config.output_dir, CheckpointNames{}, &task.communicator());
  else if (task.communicator().is_first())  // all ranks have the same
    options.checkpoints.emplace(config.output_dir);
  return options;
}

RunInfo info_of(const LanguageTask& task) {
  RunInfo info = task.info();
  if (!task.communicator().is_first()) info.output_dir.clear();  // the first writes
  return info;
}

TrainerHooks hooks_of(const LanguageTask& task, const LanguageTrainerHooks& hooks) {
  TrainerHooks all{.should_stop = hooks.should_stop};
  dist::Communicator& communicator = task.communicator();
  if (communicator.size() > 1) all.ranks = &communicator;
  if (!communicator.is_first()) return all;
  all.reporters = make_reporters(task.config().report_to);
  all.reporters.insert(all.reporters.end(), hooks.reporters.begin(), hooks.reporters.end());
  return all;
}

}  // namespace

struct LanguageTrainer::State {
  State(const TrainConfig& config, const std::optional<SavedCheckpoint>& saved,
        const LanguageTrainerHooks& hooks)
      : task(config, saved, hooks.sample),
        trainer(task, options_of(task), info_of(task), hooks_of(task, hooks)) {
    if (saved.has_value()) trainer.resume(*saved);
    if (!task.communicator().is_first()) return;
    make_directories(config.output_dir);
    // Refused now, not after the run, where it cannot be written.
    const AtomicDirectory probe(model_directory(config));
  }

  LanguageTask task;
  Trainer trainer;
};

LanguageTrainer::LanguageTrainer(TrainConfig config, LanguageTrainerHooks hooks) {
  const std::optional<SavedCheckpoint> saved = checkpoint_to_resume(config);
  state_ = std::make_unique<State>(config, saved, hooks);
}

LanguageTrainer::~LanguageTrainer() = default;

std::string LanguageTrainer::save() {
  LanguageTask& task = state_->task;
  return task.communicator().is_first() || writes_together(task) ? state_->trainer.save() : std::string();
}
void LanguageTrainer::plan(std::int64_t total_steps, std::int64_t eval_steps) {
  state_->task.plan(std::max(total_steps, steps_done()));
  state_->trainer.plan(total_steps, eval_steps);
}
bool LanguageTrainer::step() { return state_->trainer.step(); }

TrainResult LanguageTrainer::finish() {
  LanguageTask& task = state_->task;
  Trainer& trainer = state_->trainer;
  if (info().baselines.empty() && config().reports_to("html")) {
    if (const std::optional<double> loss = bigram_baseline()) info().baselines = {{"bigram", *loss}};
  }
  TrainResult result;
  result.end = trainer.finish();
  result.steps = steps_done();
  result.train_loss = trainer.train_loss();
  result.last_checkpoint = trainer.last_checkpoint();
  result.memory = trainer.history().memory().back();
  result.events = trainer.history().events();
  if (!history().evaluations().empty()) result.validation_loss = history().evaluations().back().loss;
  const double best = trainer.progress().best.loss;
  if (std::isfinite(best)) result.best_validation_loss = best;
  if (result.end == TrainEnd::stopped) return result;
  result.model_directory = model_directory(config());
  task.write_model(result.model_directory);
  task.communicator().barrier();
  return result;
}

TrainResult LanguageTrainer::run() {
  while (step()) {
  }
  return finish();
}

const TrainConfig& LanguageTrainer::config() const { return state_->task.config(); }
Device LanguageTrainer::device() const { return state_->task.device(); }
LanguageModel& LanguageTrainer::model() { return state_->task.language_model(); }
const text::Tokenizer& LanguageTrainer::tokenizer() const { return state_->task.tokenizer(); }
const RunHistory& LanguageTrainer::history() const { return state_->trainer.history(); }
std::int64_t LanguageTrainer::total_steps() const { return state_->task.total_steps(); }
std::int64_t LanguageTrainer::steps_done() const { return state_->trainer.progress().step; }
std::optional<double> LanguageTrainer::evaluate(const std::function<bool()>& stops) {
  return state_->task.evaluate(stops);
}
std::optional<double> LanguageTrainer::bigram_baseline() const { return state_->task.bigram_baseline(); }
RunInfo& LanguageTrainer::info() { return state_->trainer.info(); }

LanguageConfig planned_architecture(const TrainConfig& config) {
  LanguageConfig model;
  if (config.from_scratch) {
    model = config.architecture;
    if (model.vocab_size == 0) model.vocab_size = config.vocab_size;
  } else {
    const ModelCheckpoint checkpoint = open_checkpoint(config.model);
    model = LanguageConfig::from_json(checkpoint.config_json, checkpoint.config_path);
  }
  model.dtype = config.dtype;
  model.validate();
  return model;
}

}  // namespace ingot
