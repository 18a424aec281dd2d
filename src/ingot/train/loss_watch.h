#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "ingot/train/history.h"

namespace ingot {

/// What happens where the training loss no longer falls.
enum class PlateauAction : std::uint8_t { warn, reduce, stop };
std::string_view name(PlateauAction action);
/// InvalidConfig that names "plateau_action" for another word.
PlateauAction parse_plateau_action(std::string_view word);

/// What a run does about its training loss. Everything is off until it is asked for.
struct LossWatchConfig {
  double threshold = 0;       ///< the run ends where the loss is higher; 0: off
  std::int64_t patience = 3;  ///< in so many steps in a row
  bool reduces_on_spikes = false;
  std::int64_t plateau_steps = 0;    ///< mean losses of so many steps are compared; 0: off
  double plateau_threshold = 0.001;  ///< the share of the least one that the next has to be lower by
  PlateauAction plateau_action = PlateauAction::warn;

  bool is_on() const { return threshold > 0 || reduces_on_spikes || plateau_steps > 0; }
};

/// Watches the training loss and the gradients' norm, step by step. What it decides depends on them alone, so
/// ranks that see the same numbers decide alike.
///
/// A spike is a loss more than three standard deviations, and 0.5, above the mean of the last 100 steps, or a
/// norm of more than ten times its mean over them; the first 50 steps have none. It halves the learning rate:
/// the first two for 50 steps, a third to fifth for the rest of the run. None is seen in the 50 steps behind
/// another. Its definition is that of Surogate's LossGuard.
///
/// A halved rate holds from the step after the next, as a device that works beside the host has begun the
/// next one by then: all devices take steps of the same rates. Where a run ends, such a device has taken the
/// next step, which the CPU has not.
class LossWatch {
 public:
  explicit LossWatch(const LossWatchConfig& config) : config_(config) {}

  /// Takes in a step, in their order, and tells what it led to.
  std::vector<EventRecord> note(const StepRecord& record);
  /// What the learning rate of a step, counted from 1, is multiplied by.
  double lr_factor(std::int64_t step) const;
  /// Whether a plateau, or a loss that was too high, ended the run.
  bool ended_by_plateau() const { return ended_ == Ended::by_plateau; }
  bool ended_by_threshold() const { return ended_ == Ended::by_threshold; }
  /// Whether the last loss was above the threshold, or losses ended the run: what was saved before they rose
  /// is needed.
  bool is_above() const { return above_ > 0 || ended_by_threshold(); }
  /// The first of the steps whose losses ended the run; 0: none did.
  std::int64_t rose_at() const { return rose_at_; }

  /// A JSON object with all that a run needs to go on, and back. What the configuration no longer asks for is
  /// left out.
  std::string state() const;
  void restore(const std::string& state);

 private:
  enum class Ended : std::uint8_t { no, by_plateau, by_threshold };
  struct Reduction {
    std::int64_t from = 0, until = 0;  ///< steps; until 0: all that follow
    bool of_spike = false;
  };

  void note_threshold(const StepRecord& record, std::vector<EventRecord>& events);
  void note_spike(const StepRecord& record, std::vector<EventRecord>& events);
  void note_plateau(const StepRecord& record, std::vector<EventRecord>& events);
  std::string spike_in(const StepRecord& record, EventRecord& event) const;
  std::string reduce(std::int64_t step, std::int64_t steps, bool of_spike);

  LossWatchConfig config_;
  Ended ended_ = Ended::no;
  std::vector<Reduction> reductions_;
  std::int64_t above_ = 0, rose_at_ = 0;       // steps in a row with a loss above the threshold
  std::deque<double> losses_, norms_;          // of the last steps
  std::int64_t spikes_ = 0, last_spike_ = -1;  // -1: none
  double block_sum_ = 0, least_mean_ = 0;      // of the block of steps that runs, and of those before
  std::int64_t block_count_ = 0, blocks_ = 0;
};

}  // namespace ingot
