#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ingot/base/error.h"
#include "ingot/tune/pareto.h"
#include "ingot/tune/trial.h"

namespace ingot::tune {

/// What a study is about. It cannot change once the study exists.
struct StudyIdentity {
  SearchSpace space;
  Direction direction = Direction::minimize;
  std::string objective;         ///< what is tried, in words; any text
  std::vector<Goal> goals = {};  ///< of several objectives; empty: there is one
};

/// The trial was given to another worker, because this one had not been heard of for too long.
class TrialLost : public Error {
 public:
  using Error::Error;
  std::string_view kind() const noexcept override { return "trial_lost"; }
};

/// The trials of a study that several processes share: in an SQLite file, or on a PostgreSQL server. Every
/// call is one transaction: a process that dies at any moment leaves a whole study. A finished trial is on
/// the disk when finish() returns.
///
/// A worker holds its trial by a lease: it has to beat() more often than every lease_seconds. A trial whose
/// worker is gone (its process on this machine ended, or the lease of one elsewhere ran out) waits for the
/// next worker.
class StudyStore {
 public:
  struct Options {
    double lease_seconds = 60;
    std::int64_t max_attempts = 3;  ///< a trial that took so many workers with it has failed
  };

  /// Opens or creates (an empty path: in memory; "postgresql://host/database#study": on a server).
  /// InvalidConfig, with the differences, where the study is about something else; FormatError where the file
  /// is not a study.
  StudyStore(const std::string& path, const StudyIdentity& identity, Options options);
  ~StudyStore();
  StudyStore(const StudyStore&) = delete;
  StudyStore& operator=(const StudyStore&) = delete;

  /// Every trial as of the last sync() or claim(), by number.
  const std::vector<Trial>& trials() const;
  /// Reads what other processes have written since; costs little where that is little.
  void sync();

  /// The values of a new trial, given all those before it; nothing where there shall be no more.
  using Sample = std::function<std::optional<Values>(const std::vector<Trial>& trials)>;
  /// Begins a trial: a waiting one, or a new one with the values that `sample` gives, which no other process
  /// can get before. Nothing where there is none to begin.
  std::optional<Trial> claim(const Sample& sample);
  /// Gives up the trials of workers that are gone.
  void reclaim();

  /// What the study searches; of an open space, with what trials have asked for up to the last sync().
  const SearchSpace& space() const;

  // These throw TrialLost where the trial is no longer this worker's.
  /// The value of one parameter of an open space in a running trial, which gets one by `sample` where it has
  /// none in this range: of the parameter at an index of the space, given all trials. InvalidConfig where the
  /// study knows the name as something else.
  using SampleOne = std::function<double(std::size_t index, const std::vector<Trial>& trials)>;
  double choose(Trial& trial, const Parameter& parameter, const SampleOne& sample);
  void beat(const Trial& trial);
  /// The step is above those that the trial has reported.
  void report(Trial& trial, std::int64_t step, double value);
  /// `objectives`: of a complete trial; the first is its value.
  void finish(Trial& trial, TrialState state, const std::vector<double>& objectives, const std::string& note);
  /// Puts a running trial back, as if it had not been begun.
  void release(const Trial& trial);
  /// The same for a failed one that nobody has put back since.
  void retry(const Trial& trial);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ingot::tune
