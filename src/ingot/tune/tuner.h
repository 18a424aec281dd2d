#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ingot/tune/pruner.h"
#include "ingot/tune/sampler.h"
#include "ingot/tune/store.h"

namespace ingot::tune {

struct TunerOptions {
  SearchSpace space;
  Direction direction = Direction::minimize;
  std::vector<Goal> goals = {};  ///< several objectives instead of one direction; empty: one
  SamplerOptions sampler;
  PrunerOptions pruner;
  std::int64_t trials = 100;  ///< how many the study shall have; a grid may end before
  std::string study;      ///< the SQLite file, made where it is not, or "postgresql://host/database#study";
                          ///< empty: in memory, for this process only
  std::string objective;  ///< what is tried; a study with another objective is refused
  double lease_seconds = 60;  ///< a worker that was not heard of for so long has lost its trial
  std::int64_t max_attempts = 3;

  /// Throws InvalidConfig naming the key.
  void validate() const;
};

/// Looks for the values of a search space that make an objective best. Several tuners, in one process or
/// many, may share a study's file.
///
///   Tuner tuner({.space = space, .trials = 50, .study = "lr.db"});
///   while (auto trial = tuner.suggest()) {
///     double loss = 0;
///     for (int step = 1; step <= 10; ++step) {
///       loss = train_a_bit(trial->values);
///       if (tuner.report(*trial, step, loss)) break;  // pruned
///     }
///     if (trial->state == TrialState::running) tuner.complete(*trial, loss);
///   }
///
/// While a trial runs, a thread of the tuner keeps its lease. Not thread-safe beyond that.
class Tuner {
 public:
  /// Throws InvalidConfig (a study about something else, a bad option), FormatError, IoError.
  explicit Tuner(TunerOptions options);
  ~Tuner();  // as put_back()
  Tuner(const Tuner&) = delete;
  Tuner& operator=(const Tuner&) = delete;

  /// Begins the next trial; nothing where all are begun. They may not be finished: see is_complete().
  std::optional<Trial> suggest();
  /// The value of a parameter that a running trial asks for, of a study with an open space: conditions and
  /// ranges are then the program's own. Asked again, the same value where the range allows it. Each parameter
  /// is sampled by itself, from the trials that had it. InvalidConfig where the study knows the name as
  /// something else.
  double choose(Trial& trial, const Parameter& parameter);
  /// An intermediate value at a step from 0 on that grows. True: the pruner has ended the trial (its state is
  /// pruned).
  bool report(Trial& trial, std::int64_t step, double value);
  /// The final value. NaN makes it a failed trial.
  void complete(Trial& trial, double value);
  /// The final values of all objectives, in the order of the goals. InvalidConfig where their number differs.
  void complete(Trial& trial, const std::vector<double>& objectives);
  /// Ends a trial that is going nowhere, for the caller's own reason.
  void prune(Trial& trial, const std::string& why);
  void fail(Trial& trial, const std::string& why);
  /// Puts failed trials back into the queue, as if they had not been begun: it was not for their values.
  void retry(const std::vector<Trial>& failed);
  /// Gives up the trials that run here, as if they had not been begun. From any thread.
  void put_back();
  // The others throw TrialLost where the trial was given to another worker, and IoError.

  /// Whether the study has as many finished trials as it shall have. Trials of workers that are gone go back
  /// to be suggested.
  bool is_complete();
  /// Of all workers, as of now: the caller's own, so that later ones do not change them.
  std::vector<Trial> trials();
  /// By the value, which is the first of several objectives.
  std::optional<Trial> best_trial();
  /// Of several objectives, the trials that no other dominates; of one, the best alone.
  std::vector<Trial> best_trials();
  /// How many trials the study shall have.
  std::int64_t budget() const;
  /// What is searched; of an open space, with what trials have asked for so far.
  SearchSpace space() const;
  /// A trial's values by their names, as JSON. From any thread, also beside choose() of this trial.
  std::string parameters(const Trial& trial) const;
  Direction direction() const;  ///< of the first objective
  const std::vector<Goal>& goals() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ingot::tune
