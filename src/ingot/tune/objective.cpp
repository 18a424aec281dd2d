#include "ingot/tune/objective.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <thread>

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/base/log.h"

namespace ingot::tune {
namespace {

constexpr std::int64_t kFailuresToGiveUp = 3;

// Bad settings fail every trial: better to say so after a few than after all.
void give_up_if_nothing_works(Tuner& tuner) {
  std::int64_t failed = 0;
  const Trial* last = nullptr;
  const std::vector<Trial> trials = tuner.trials();
  for (const Trial& trial : trials) {
    if (trial.state == TrialState::complete || trial.state == TrialState::pruned) return;
    if (trial.state != TrialState::failed) continue;
    ++failed;
    last = &trial;
  }
  if (failed < kFailuresToGiveUp) return;
  throw Error(fmt::format("every trial so far has failed ({}); the last one, trial {}: {}", failed,
                          last->number, last->note));
}

}  // namespace

const std::string& TrialRun::directory() {
  make_directories(directory_);
  return directory_;
}

bool TrialRun::report(std::int64_t step, double value) {
  if (pruned()) return true;
  try {
    return tuner_->report(trial_, step, value);
  } catch (const InvalidConfig&) {
    throw;  // a wrong step is the objective's own fault
  } catch (...) {
    study_error_ = std::current_exception();
    throw;
  }
}

std::vector<std::string> TrialRun::assignments() const {
  std::vector<std::string> list;
  for (std::size_t i = 0; i < space().size(); ++i) {
    if (std::isnan(trial_.values[i])) continue;
    list.push_back(space().parameters[i].name + "=" + space().text(i, trial_.values[i]));
  }
  return list;
}

void TrialSweeper::sweep() {
  if (config_->keep == "all") return;
  const std::vector<Trial> trials = tuner_->trials();
  const Trial* best = best_of(trials, tuner_->direction());
  swept_.resize(trials.size());
  for (std::size_t i = 0; i < trials.size(); ++i) {
    const Trial& trial = trials[i];
    const bool over = trial.state == TrialState::complete || trial.state == TrialState::pruned;
    // A failed one explains itself.
    if (swept_[i] || !over || (&trial == best && config_->keep == "best")) continue;
    std::error_code ignored;  // another worker may be removing it
    std::filesystem::remove_all(config_->trial_directory(trial.number), ignored);
    swept_[i] = true;
  }
}

void work(Tuner& tuner, Objective& objective, const StudyConfig& config) {
  TrialSweeper sweeper(tuner, config);
  for (;;) {
    std::optional<Trial> trial = tuner.suggest();
    if (!trial.has_value()) {
      if (tuner.is_complete()) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(200));  // others are running: one of them may die
      continue;
    }
    TrialRun run(tuner, *trial, config.trial_directory(trial->number));
    try {
      try {
        const std::optional<double> value = objective.run(run);
        if (value.has_value() && !run.pruned()) tuner.complete(run.trial_, *value);
      } catch (const NonFinite& error) {
        if (run.study_error_) std::rethrow_exception(run.study_error_);
        if (!run.pruned()) tuner.prune(run.trial_, std::string("diverged: ") + error.what());
      } catch (const std::exception& error) {
        if (run.study_error_) std::rethrow_exception(run.study_error_);
        tuner.fail(run.trial_, error.what());
        log(LogLevel::warn, "ingot::tune", fmt::format("trial {} failed: {}", trial->number, error.what()));
        give_up_if_nothing_works(tuner);
      }
    } catch (const TrialLost& lost) {
      log(LogLevel::warn, "ingot::tune", lost.what());
    }
    sweeper.sweep();
  }
}

}  // namespace ingot::tune
