#include "ingot/tune/objective.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <map>
#include <set>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/base/log.h"
#include "ingot/tune/failures.h"
#include "ingot/tune/sampler.h"

namespace ingot::tune {
namespace {

constexpr std::int64_t kFailuresToGiveUp = 3;

// What the machine lacks, it lacks for every trial: none is spent on that.
void stop_if_environment_fails(Tuner& tuner, const StudyConfig& config) {
  const std::vector<Trial> failed =
      failed_by_environment(tuner.trials(), static_cast<std::size_t>(kFailuresToGiveUp));
  if (failed.empty()) return;
  tuner.retry(failed);
  const Trial& last = failed.front();
  const std::string log = written_log(config, last.number);
  throw Error(fmt::format(
      "{} trials in a row failed for one cause, '{}', and wait to be tried again; set that right and "
      "run the study again; the last one, trial {}: {}{}{}",
      failed.size(), environment_cause(last.note), last.number, last.note,
      log.empty() ? "" : "; its log: ", log));
}

// Bad settings fail every trial: better to say so after a few than after all.
void give_up_if_nothing_works(Tuner& tuner, const StudyConfig& config) {
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
  const std::string log = written_log(config, last->number);
  throw Error(fmt::format("every trial so far has failed ({}); the last one, trial {}: {}{}{}", failed,
                          last->number, last->note, log.empty() ? "" : "; its log: ", log));
}

// Enough that choices below choices turn up, and few enough that bad settings are told at once.
constexpr std::int64_t kDrawsToCheck = 1000, kRefusalsToBelieve = 20;

/// A parameter, and which of its choices: something that a configuration may not know.
using Part = std::pair<std::size_t, std::int64_t>;

std::vector<Part> parts_of(const SearchSpace& space, const Values& values) {
  std::vector<Part> parts;
  for (std::size_t i = 0; i < space.size(); ++i) {
    if (std::isnan(values[i])) continue;
    const bool chosen = space.parameters[i].kind == ParameterKind::categorical;
    parts.emplace_back(i, chosen ? static_cast<std::int64_t>(values[i]) : 0);
  }
  return parts;
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
    throw;  // a step that does not grow: the objective's own fault
  } catch (...) {
    study_error_ = std::current_exception();
    throw;
  }
}

void TrialRun::throw_if_stopped() const {
  INGOT_CHECK(!stopped(), Interrupted("the worker was told to end"));
}

void check_space(Objective& objective, const SearchSpace& space) {
  const std::unique_ptr<Sampler> sampler = make_random_sampler({}, space);
  std::set<Part> fine;
  std::map<Part, std::int64_t> refused;
  for (std::int64_t number = 0; number < kDrawsToCheck; ++number) {
    const Values values = sampler->sample(number, {});
    std::vector<Part> open = parts_of(space, values);
    std::erase_if(open, [&](const Part& part) { return fine.contains(part); });
    if (open.empty()) continue;
    try {
      objective.check(space, values);
      fine.insert(open.begin(), open.end());
    } catch (const InvalidConfig&) {
      for (const Part& part : open) {
        if (++refused[part] == kRefusalsToBelieve) throw;
      }
    }
  }
}

void TrialSweeper::sweep() {
  if (config_->keep == "all") return;
  const std::vector<Trial> trials = tuner_->trials();
  std::set<std::int64_t> best;
  for (const Trial& trial : tuner_->best_trials()) best.insert(trial.number);
  swept_.resize(trials.size());
  for (std::size_t i = 0; i < trials.size(); ++i) {
    const Trial& trial = trials[i];
    const bool over = trial.state == TrialState::complete || trial.state == TrialState::pruned;
    // A failed one explains itself.
    if (swept_[i] || !over || (best.contains(trial.number) && config_->keep == "best")) continue;
    std::error_code ignored;  // another worker may be removing it
    std::filesystem::remove_all(config_->trial_directory(trial.number), ignored);
    std::filesystem::remove(config_->trial_log(trial.number), ignored);
    swept_[i] = true;
  }
}

void work(Tuner& tuner, Objective& objective, const StudyConfig& config, const std::stop_token& stop) {
  TrialSweeper sweeper(tuner, config);
  while (!stop.stop_requested()) {
    std::optional<Trial> trial = tuner.suggest();
    if (!trial.has_value()) {
      if (tuner.is_complete()) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(200));  // others are running: one of them may die
      continue;
    }
    TrialRun run(tuner, *trial, config, stop);
    try {
      try {
        std::filesystem::remove_all(run.directory_);  // what an attempt that died has left
        const std::optional<std::vector<double>> values = objective.run(run);
        if (values.has_value() && !run.pruned()) tuner.complete(run.trial_, *values);
      } catch (const Interrupted&) {
        return;  // the tuner puts the trial back
      } catch (const NonFinite& error) {
        if (run.study_error_) std::rethrow_exception(run.study_error_);
        if (!run.pruned()) tuner.prune(run.trial_, std::string(kDiverged) + error.what());
      } catch (const std::exception& error) {
        if (run.study_error_) std::rethrow_exception(run.study_error_);
        tuner.fail(run.trial_, error.what());
        log(LogLevel::warn, "ingot::tune", fmt::format("trial {} failed: {}", trial->number, error.what()));
        stop_if_environment_fails(tuner, config);
        give_up_if_nothing_works(tuner, config);
      }
    } catch (const TrialLost& lost) {
      log(LogLevel::warn, "ingot::tune", lost.what());
    }
    sweeper.sweep();
  }
}

}  // namespace ingot::tune
