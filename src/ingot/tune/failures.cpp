#include "ingot/tune/failures.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <iterator>
#include <string_view>
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

std::string environment_cause(const std::string& note) {
  static constexpr std::array kErrors{ENOENT, ENOSPC, EDQUOT, EROFS,  EACCES, EPERM,
                                      EIO,    EMFILE, ENFILE, ENODEV, ESTALE, ENOTDIR};
  for (const int error : kErrors) {
    const std::string words = std::generic_category().message(error);
    if (note.find(words) != std::string::npos) return words;
  }
  for (const std::string_view words : {"does not exist", "exit code 126", "exit code 127"}) {
    if (note.find(words) != std::string::npos) return std::string(words);
  }
  return {};
}

std::vector<Trial> failed_by_environment(const std::vector<Trial>& trials, std::size_t in_a_row) {
  std::vector<Trial> ended;
  std::ranges::copy_if(trials, std::back_inserter(ended), &Trial::finished);
  if (ended.size() < in_a_row) return {};
  std::ranges::stable_sort(ended, std::ranges::greater(), &Trial::ended);
  ended.resize(in_a_row);
  const std::string cause = environment_cause(ended.front().note);
  const bool same = !cause.empty() && std::ranges::all_of(ended, [&](const Trial& trial) {
    return trial.state == TrialState::failed && environment_cause(trial.note) == cause;
  });
  return same ? ended : std::vector<Trial>{};
}

std::string written_log(const StudyConfig& config, std::int64_t trial) {
  const std::string path = config.trial_log(trial);
  std::error_code missing;
  const std::uintmax_t size = std::filesystem::file_size(path, missing);
  return missing || size == 0 ? "" : path;
}

}  // namespace ingot::tune
