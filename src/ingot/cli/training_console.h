#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ingot/train/language/language_trainer.h"

namespace ingot::cli {

/// A training run on the terminal: what `ingot train` and `ingot demo` have in common.
class TrainingConsole {
 public:
  struct Options {
    bool json = false;       ///< no bar and no text; the result is printed as JSON by the caller
    bool dashboard = false;  ///< a page instead of the bar, on a terminal
    std::vector<Setting> effective_config;  ///< for the report
  };

  TrainingConsole(const TrainConfig& config, Options options);
  ~TrainingConsole();

  /// What the trainer has to call. The console must outlive the trainer's run.
  LanguageTrainerHooks hooks() const;
  /// Trains to the end, or to Ctrl-C; `after_step` is called after each step. The limit of matmuls is
  /// measured again where training is faster: the machine had other work.
  TrainResult run(LanguageTrainer& trainer, const std::function<void()>& after_step = {});
  /// The path of report.html; empty where the configuration does not ask for it.
  std::string report() const;
  double matmul_flops() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ingot::cli
