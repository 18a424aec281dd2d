#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ingot/train/trainer.h"

namespace ingot::cli {

/// Shows a training run on the terminal, and writes its TensorBoard files and its report: what `ingot train`
/// and `ingot demo` have in common.
class TrainingConsole {
 public:
  struct Options {
    bool json = false;  ///< no bar and no text; the result is printed as JSON by the caller
    std::vector<std::pair<std::string, std::string>> effective_config;  ///< for the report
  };

  TrainingConsole(const TrainConfig& config, Options options);
  ~TrainingConsole();

  /// What the trainer has to call. The console must outlive the trainer's run.
  TrainerHooks hooks();
  /// Starts showing, once the trainer stands: a resumed one starts at its step.
  void begin(Trainer& trainer);
  /// Ends the bar, writes report.html when the configuration asks for it; returns its path, or an empty one.
  std::string finish(Trainer& trainer, std::optional<double> bigram_loss);
  double matmul_flops() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ingot::cli
