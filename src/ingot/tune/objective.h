#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "ingot/base/error.h"
#include "ingot/tune/study_config.h"
#include "ingot/tune/tuner.h"

namespace ingot::tune {

/// The worker is to end before its trial has: the trial goes back, as if it had not been begun.
class Interrupted : public Error {
 public:
  using Error::Error;
  std::string_view kind() const noexcept override { return "interrupted"; }
};

/// A trial that runs: what an objective sees of the tuner.
class TrialRun {
 public:
  TrialRun(Tuner& tuner, Trial trial, const StudyConfig& config, std::stop_token stop = {})
      : tuner_(&tuner),
        trial_(std::move(trial)),
        directory_(config.trial_directory(trial_.number)),
        log_(config.trial_log(trial_.number)),
        stop_(std::move(stop)) {}

  const Trial& trial() const { return trial_; }
  SearchSpace space() const { return tuner_->space(); }
  /// The trial's own; made when it is first asked for.
  const std::string& directory();
  /// Where what is tried may tell people what it does; kept as long as the directory.
  const std::string& log() const { return log_; }
  /// An intermediate value. True: pruned; the objective should end soon.
  bool report(std::int64_t step, double value);
  bool pruned() const { return trial_.state == TrialState::pruned; }
  /// Whether the worker was told to end. Objectives look as often as they can, and throw Interrupted.
  bool stopped() const { return stop_.stop_requested(); }
  void throw_if_stopped() const;

 private:
  friend void work(Tuner&, class Objective&, const StudyConfig&, const std::stop_token&);
  Tuner* tuner_;
  Trial trial_;
  std::string directory_, log_;
  std::stop_token stop_;
  std::exception_ptr study_error_;  // the study's own, which must not pass for the objective's
};

/// What is tried.
class Objective {
 public:
  virtual ~Objective() = default;
  /// Throws InvalidConfig where these values could not work (an unknown key, a bad combination), and other
  /// errors where none could (a missing file).
  virtual void check(const SearchSpace& space, const Values& values) = 0;
  /// The value, or those of several objectives; nothing where the trial was pruned. NonFinite ends the trial
  /// as pruned (it diverged), any other exception as failed.
  virtual std::optional<std::vector<double>> run(TrialRun& run) = 0;
};

/// Runs a program per trial: {name} in the command stands for a value (quoted for the shell). It gets
/// INGOT_TRIAL (the number), INGOT_TRIAL_DIR and INGOT_PARAMS (JSON), and writes lines of JSON:
/// {"step": 3, "<metric>": 0.5} on the way, {"<metric>": 0.4} at the end; other output is ignored. A final
/// value that is not finite (null, NaN, ...) is a trial that diverged. Its stderr goes to the trial's log.
/// The command of a study with these values in it, for /bin/sh; with INGOT_PARAMS, too, where it does not
/// name all of them.
std::string command_line(const StudyConfig& config, const Values& values);
std::unique_ptr<Objective> make_command_objective(const StudyConfig& config);

/// Throws where a parameter of the space, or a choice of one, has never worked: check() refuses each of many
/// draws that have it. A bad combination of values is left to fail its trial.
void check_space(Objective& objective, const SearchSpace& space);

/// Takes trials of the study and runs them until it is complete, or `stop` is requested. A trial begins with
/// a directory that is empty. Throws Error when every trial fails, and when three in a row fail for one cause
/// of the machine (failed_by_environment()): those wait to be tried again.
void work(Tuner& tuner, Objective& objective, const StudyConfig& config, const std::stop_token& stop = {});

/// Removes the directories and logs of trials that config.keep does not keep.
class TrialSweeper {
 public:
  TrialSweeper(Tuner& tuner, const StudyConfig& config) : tuner_(&tuner), config_(&config) {}
  void sweep();

 private:
  Tuner* tuner_;
  const StudyConfig* config_;
  std::vector<bool> swept_;  // by number: each is removed once
};

}  // namespace ingot::tune
