#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "ingot/models/language/decoder.h"
#include "ingot/text/tokenizer.h"
#include "ingot/train/config.h"
#include "ingot/train/history.h"

namespace ingot {

/// What a front end adds to a run.
struct TrainerHooks {
  /// Called after every optimiser step.
  std::function<void(const StepRecord&, std::int64_t total_steps)> on_step;
  std::function<void(const EvalRecord&)> on_eval;
  std::function<void(const SampleRecord&)> on_sample;
  std::function<void(const std::string& path)> on_save;
  /// Continues a prompt with the model as it is; without it no samples are made.
  std::function<std::string(const LanguageModel&, const text::Tokenizer&, const std::string& prompt)> sample;
  /// Asked after every step: true saves a checkpoint and ends the run (Ctrl-C).
  std::function<bool()> should_stop;
};

enum class TrainEnd : std::uint8_t { finished, stopped, stopped_early, out_of_time };

struct TrainResult {
  TrainEnd end = TrainEnd::finished;
  std::int64_t steps = 0;
  double train_loss = 0;
  std::optional<double> validation_loss, best_validation_loss;
  std::string model_directory;  ///< the final weights, as Hugging Face tools open them
  std::string last_checkpoint;
};

/// Trains a language model as a TrainConfig says. Everything that a step depends on is saved in its
/// checkpoints, so a run that is killed and resumed ends with the same bits as one that never was (for the
/// same number of threads).
class Trainer {
 public:
  /// Opens or makes the tokenizer, the data and the model; continues from the newest checkpoint of output_dir
  /// when config.resume_from_checkpoint says so. Throws before anything is written when something cannot
  /// work.
  explicit Trainer(TrainConfig config, TrainerHooks hooks = {});
  ~Trainer();

  /// Trains to the end. Throws NonFinite, naming the step, when the loss or a gradient is not finite;
  /// checkpoints stay.
  TrainResult run();

  const TrainConfig& config() const;
  LanguageModel& model();
  /// Where the model is trained.
  Device device() const;
  const text::Tokenizer& tokenizer() const;
  const RunHistory& history() const;
  std::int64_t total_steps() const;
  /// Optimiser steps done: more than 0 after resuming.
  std::int64_t step() const;
  /// Mean loss on the validation data, in nats per token; nothing where there is none.
  std::optional<double> evaluate();
  /// Nats per token of a bigram model counted on the same data (see baseline.h).
  std::optional<double> bigram_baseline() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The architecture that a run will have, without opening data: for memory planning.
LanguageConfig planned_architecture(const TrainConfig& config);

}  // namespace ingot
