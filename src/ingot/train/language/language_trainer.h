#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "ingot/train/language/language_task.h"
#include "ingot/train/trainer.h"

namespace ingot {

/// What a front end adds to a run.
struct LanguageTrainerHooks {
  std::vector<std::shared_ptr<Reporter>> reporters = {};  ///< beside those of config.report_to
  std::function<bool()> should_stop = {};                 ///< TrainerHooks::should_stop
  SampleFunction sample = {};                             ///< without it no samples are made
};

struct TrainResult {
  TrainEnd end = TrainEnd::finished;
  std::int64_t steps = 0;
  double train_loss = 0;
  std::optional<double> validation_loss, best_validation_loss;
  std::string
      model_directory;  ///< the final weights, as Hugging Face tools open them; of adapters, as PEFT does
  std::string last_checkpoint;
  MemoryRecord memory;  ///< until then
  std::vector<EventRecord> events;
};

/// Trains a language model as a TrainConfig says: a LanguageTask and the Trainer that runs it.
class LanguageTrainer {
 public:
  /// Opens or makes the tokenizer, the data and the model; continues from the newest checkpoint of output_dir
  /// when config.resume_from_checkpoint says so. Throws before anything is written when something cannot
  /// work.
  explicit LanguageTrainer(TrainConfig config, LanguageTrainerHooks hooks = {});
  ~LanguageTrainer();

  /// Trains to the end, and writes the model. Errors as Trainer::step's.
  TrainResult run();
  /// One optimizer step: Trainer::step. finish() ends such a run.
  bool step();
  TrainResult finish();
  /// Trains for so many steps in all, with the schedule of such a run from here on, and evaluates every
  /// `eval_steps`: for runs that are to take so much time.
  void plan(std::int64_t total_steps, std::int64_t eval_steps);
  /// Writes a checkpoint now: Trainer::save.
  std::string save();

  const TrainConfig& config() const;
  LanguageModel& model();
  /// Where the model is trained.
  Device device() const;
  const text::Tokenizer& tokenizer() const;
  const RunHistory& history() const;
  std::int64_t total_steps() const;
  /// Optimizer steps done: more than 0 after resuming.
  std::int64_t steps_done() const;
  /// Mean loss on the validation data, in nats per token; nothing where there is none. `stops` is asked
  /// between batches, and by true has it throw WorkStopped.
  std::optional<double> evaluate(const std::function<bool()>& stops = {});
  /// Nats per token of a bigram model counted on the same data (see baseline.h).
  std::optional<double> bigram_baseline() const;
  /// What reporters show, to be completed before the first step.
  RunInfo& info();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The architecture that a run will have, without opening data: for memory planning.
LanguageConfig planned_architecture(const TrainConfig& config);

}  // namespace ingot
