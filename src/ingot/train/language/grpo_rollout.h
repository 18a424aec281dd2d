#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "ingot/data/preference.h"
#include "ingot/dist/communicator.h"
#include "ingot/train/language/grpo_loss.h"

namespace ingot {

struct GrpoAnswer {
  data::PromptedAnswer sequence;
  std::string text;
  bool ended = false;  ///< by a token that ends an answer
};

/// The scored answers to the prompts of a step, which GrpoConfig::num_iterations optimizer steps learn from.
struct GrpoRollout {
  /// What every rank knows of all answers.
  struct Scored {
    std::vector<std::vector<double>> scores;  ///< of each reward
    std::vector<double> lengths;              ///< in tokens
    std::vector<bool> ended;
  };

  std::map<std::size_t, GrpoAnswer> answers;  ///< by number among those of all ranks: this rank's, or all
  Scored all;
  GroupAdvantages advantages;
  /// Log-probabilities of the tokens when they were written, [answers, longest], rows in order; filled by the
  /// first step that learns from them. Empty where there is one only.
  std::vector<float> old_log_probs;
  std::int64_t steps = 0;  ///< that have learned from it

  std::size_t size() const { return all.lengths.size(); }
  /// Tokens of the longest answer.
  std::int64_t longest() const;
  /// old_log_probs of `rows` answers from `first` on, f32 [rows, width] on `device`; undefined before the
  /// first step ended.
  Tensor old_rows(std::size_t first, std::size_t rows, std::int64_t width, Device device) const;
  /// Notes what the first step found, f32 [rows, width].
  void note_rows(std::size_t first, const Tensor& log_probs);
  /// Gives all ranks the answers and old_log_probs of each, so that any of them can save and go on.
  void share(dist::Communicator& ranks);

  /// What a checkpoint holds of it, on the host; texts are not needed any more.
  std::map<std::string, Tensor> state() const;
  /// FormatError where that is not a rollout's state.
  static GrpoRollout from_state(const std::map<std::string, Tensor>& state, const GrpoConfig& config);
};

}  // namespace ingot
