#include "ingot/tune/failures.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include <fmt/format.h>

namespace ingot::tune {
namespace {

bool is_failure(const Trial& trial) {
  return trial.state == TrialState::failed ||
         (trial.state == TrialState::pruned && trial.note.starts_with(kDiverged));
}

}  // namespace

std::string Failure::summary() const {
  std::string line =
      fmt::format("{} {}{} (trial {}{}{})", trials.size(), state == TrialState::failed ? "failed: " : "",
                  reason, trials.front(), log.empty() ? "" : ": ", log);
  std::ranges::replace_if(
      line, [](unsigned char c) { return c < 0x20 || c == 0x7F; }, ' ');
  return line;
}

std::vector<Failure> failures_of(const std::vector<Trial>& trials, const StudyConfig& config) {
  std::vector<Failure> failures;
  for (const Trial& trial : trials) {
    if (!is_failure(trial)) continue;
    auto same = std::ranges::find_if(failures, [&](const Failure& failure) {
      return failure.state == trial.state && failure.reason == trial.note;
    });
    if (same == failures.end()) {
      same = failures.insert(failures.end(), {.state = trial.state,
                                              .reason = trial.note,
                                              .trials = {},
                                              .log = written_log(config, trial.number)});
    }
    same->trials.push_back(trial.number);
  }
  std::ranges::stable_sort(failures, std::ranges::greater(),
                           [](const Failure& failure) { return failure.trials.size(); });
  return failures;
}

std::string written_log(const StudyConfig& config, std::int64_t trial) {
  const std::string path = config.trial_log(trial);
  std::error_code missing;
  const std::uintmax_t size = std::filesystem::file_size(path, missing);
  return missing || size == 0 ? "" : path;
}

}  // namespace ingot::tune
