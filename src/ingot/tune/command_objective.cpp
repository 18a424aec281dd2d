// Trials that are runs of any program.
#include <algorithm>
#include <cctype>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/wait.h>

#include "ingot/base/command_process.h"
#include "ingot/base/error.h"
#include "ingot/base/json.h"
#include "ingot/base/shell.h"
#include "ingot/base/suggest.h"
#include "ingot/tune/objective.h"

namespace ingot::tune {
namespace {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::json;

constexpr double kGraceSeconds = 5;  // from a polite request to end, to kill
constexpr int kPollMilliseconds = 20;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// {name} by its quoted value ("" where it does not exist); {{ and }} are braces.
std::string fill_in(const std::string& command, const SearchSpace& space, const Values& values) {
  std::vector<std::string> names;
  for (const Parameter& p : space.parameters) names.push_back(p.name);
  std::string result;
  for (std::size_t at = 0; at < command.size(); ++at) {
    const char c = command[at];
    if ((c == '{' || c == '}') && at + 1 < command.size() && command[at + 1] == c) {
      result += c;
      ++at;
      continue;
    }
    if (c != '{') {
      result += c;
      continue;
    }
    const std::size_t end = command.find('}', at);
    INGOT_CHECK(end != std::string::npos,
                InvalidConfig("command", "has a '{' without '}'; write {{ for a brace"));
    const std::string name = command.substr(at + 1, end - at - 1);
    std::size_t i = 0;
    while (i < names.size() && names[i] != name) ++i;
    INGOT_CHECK(
        i < names.size(),
        InvalidConfig("command", fmt::format("'{{{}}}' names no parameter of the space{}; write {{{{ for a "
                                             "brace",
                                             name, did_you_mean(name, names))));
    result += std::isnan(values[i]) ? "''" : shell_quoted(space.word(i, values[i]));
    at = end;
  }
  return result;
}

/// Whether all of `word` is a number that is not finite: nan, -Infinity, 1e999, ... in any language's
/// spelling.
bool is_non_finite(const std::string& word) {
  char* end = nullptr;
  const double value = std::strtod(word.c_str(), &end);
  return !word.empty() && *end == '\0' && !std::isfinite(value);
}

/// JSON has no number that is not finite, and many programs write one: here it becomes null.
std::string without_non_finite(const std::string& line) {
  const auto in_word = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '+' || c == '-' || c == '.';
  };
  std::string result, word;
  bool quoted = false;
  for (std::size_t at = 0; at <= line.size(); ++at) {
    const char c = at < line.size() ? line[at] : ' ';
    if (!quoted && in_word(c)) {
      word += c;
      continue;
    }
    result += is_non_finite(word) ? "null" : word;
    word.clear();
    if (c == '"') quoted = !quoted;
    result += c;
    if (quoted && c == '\\' && at + 1 < line.size()) result += line[++at];
  }
  return result;
}

std::string shown(const std::string& line) {
  constexpr std::size_t kShown = 200;
  return line.size() <= kShown ? line : line.substr(0, kShown) + "...";
}

/// The last line of a log, most likely the error that ended the program, to be put behind what happened.
std::string last_words(const std::string& log) {
  constexpr std::streamoff kEnough = 4096;
  std::ifstream file(log, std::ios::binary);
  file.seekg(0, std::ios::end);
  file.seekg(std::max<std::streamoff>(0, std::streamoff(file.tellg()) - kEnough));
  std::string text{std::istreambuf_iterator<char>(file), {}};
  text.erase(text.find_last_not_of(" \t\r\n") + 1);
  text.erase(0, text.find_last_of("\r\n") + 1);
  return text.empty() ? "" : ": " + shown(text);
}

class CommandObjective : public Objective {
 public:
  explicit CommandObjective(const StudyConfig& config)
      : command_(config.objective),
        metrics_(metrics_of(config)),
        values_(metrics_.size()),
        timeout_(config.timeout_seconds) {}

  void check(const SearchSpace& space, const Values& values) override {
    static_cast<void>(fill_in(command_, space, values));
  }

  std::optional<std::vector<double>> run(TrialRun& run) override {
    const Trial& trial = run.trial();
    std::ranges::fill(values_, std::nullopt);
    line_.clear();
    CommandProcess process(
        fill_in(command_, run.space(), trial.values),
        // Environment: INGOT_TRIAL, INGOT_TRIAL_DIR, INGOT_PARAMS | set for the program that `ingot tune`
        // runs
        // ([tuning.md](tuning.md))
        {fmt::format("INGOT_TRIAL={}", trial.number), "INGOT_TRIAL_DIR=" + absolute(run.directory()),
         "INGOT_PARAMS=" + run.space().to_json(trial.values)},
        run.log());
    const int status = follow(process, run);
    if (run.pruned()) return std::nullopt;
    INGOT_CHECK(!WIFSIGNALED(status), Error(fmt::format("the command was ended by signal {}{}",
                                                        WTERMSIG(status), last_words(run.log()))));
    INGOT_CHECK(WEXITSTATUS(status) == 0, Error(fmt::format("the command ended with exit code {}{}",
                                                            WEXITSTATUS(status), last_words(run.log()))));
    take(line_, run);  // a last one may have no end
    if (run.pruned()) return std::nullopt;
    std::vector<double> values;
    for (std::size_t i = 0; i < metrics_.size(); ++i) {
      INGOT_CHECK(values_[i].has_value(),
                  Error(fmt::format("the command wrote no line of JSON with '{0}'; expected one such as "
                                    "{{\"{0}\": 0.5}}",
                                    metrics_[i])));
      INGOT_CHECK(std::isfinite(*values_[i]), NonFinite(metrics_[i], "is not finite"));
      values.push_back(*values_[i]);
    }
    return values;
  }

 private:
  static std::vector<std::string> metrics_of(const StudyConfig& config) {
    std::vector<std::string> metrics;
    for (const Goal& goal : config.tuner.goals) metrics.push_back(goal.name);
    if (metrics.empty()) metrics.push_back(config.metric.empty() ? "value" : config.metric);
    return metrics;
  }
  static std::string absolute(const std::string& path) { return std::filesystem::absolute(path).string(); }

  // Takes lines until the shell ends, whoever else still holds its output; asks it to end once it is pruned,
  // late, or the worker is to end. Returns its status.
  int follow(CommandProcess& process, TrialRun& run) {
    const auto start = Clock::now();
    std::optional<Clock::time_point> asked;
    bool late = false;
    for (;;) {
      const std::optional<int> status = process.status();
      const std::string text = process.read(status.has_value() ? 0 : kPollMilliseconds);
      if (!asked) take_lines(text, run);  // a program that is ending may break its lines off
      if (status.has_value()) {
        INGOT_CHECK(!late || run.pruned(),
                    Error(fmt::format("took longer than timeout_seconds {}", timeout_)));
        if (asked && !run.pruned()) run.throw_if_stopped();
        return *status;
      }
      if (asked) {
        if (seconds_since(*asked) > kGraceSeconds) process.signal(SIGKILL);
        continue;
      }
      late = timeout_ > 0 && seconds_since(start) > timeout_;
      if (!late && !run.pruned() && !run.stopped()) continue;
      process.signal(SIGTERM);
      asked = Clock::now();
    }
  }

  void take_lines(const std::string& text, TrialRun& run) {
    std::size_t start = 0, end = text.find('\n');
    for (; end != std::string::npos; end = text.find('\n', start)) {
      take(line_ + text.substr(start, end - start), run);
      line_.clear();
      start = end + 1;
    }
    line_ += text.substr(start);
  }

  // Progress that is written over stands on one line with what follows it, each part behind a \r.
  void take(const std::string& line, TrialRun& run) {
    for (std::size_t start = 0; start < line.size();) {
      const std::size_t end = std::min(line.find('\r', start), line.size());
      take_part(line.substr(start, end - start), run);
      start = end + 1;
    }
  }

  void take_part(std::string line, TrialRun& run) {
    if (line.starts_with("\xEF\xBB\xBF")) line.erase(0, 3);
    const std::size_t first = line.find_first_not_of(" \t");
    if (first == std::string::npos || line[first] != '{') return;  // other output
    Json json = parse_json_or_discard<Json>(line);
    if (json.is_discarded()) json = parse_json_or_discard<Json>(without_non_finite(line));
    for (std::size_t i = 0; i < metrics_.size(); ++i) {
      INGOT_CHECK(!json.is_discarded() || line.find(metrics_[i]) == std::string::npos,
                  Error("the command wrote a line that is not JSON: " + shown(line)));
      if (!json.is_object() || !json.contains(metrics_[i])) continue;
      const double value = metric_value(metrics_[i], json[metrics_[i]], line);
      const auto step = json.find("step");
      const bool on_the_way = step != json.end() && !step->is_null();
      if (on_the_way && i == 0) run.report(whole_step(*step, line), value);  // the first stands for a curve
      values_[i] = value;
    }
  }

  // What diverged is written as null, as a number that is not finite, or in quotes.
  static double metric_value(const std::string& name, const Json& metric, const std::string& line) {
    if (metric.is_number()) return metric.get<double>();
    INGOT_CHECK(metric.is_null() || (metric.is_string() && is_non_finite(metric.get<std::string>())),
                Error(fmt::format("the command wrote a '{}' that is not a number: {}", name, shown(line))));
    return std::numeric_limits<double>::quiet_NaN();
  }

  static std::int64_t whole_step(const Json& step, const std::string& line) {
    constexpr double kExact = 9007199254740992.0;  // 2^53
    const double value = step.is_number() ? step.get<double>() : std::numeric_limits<double>::quiet_NaN();
    INGOT_CHECK(value == std::floor(value) && std::abs(value) <= kExact,
                Error("the command wrote a 'step' that is not a whole number: " + shown(line)));
    return static_cast<std::int64_t>(value);
  }

  std::string command_;
  std::vector<std::string> metrics_;           // of the objectives
  std::vector<std::optional<double>> values_;  // of each the last one written
  double timeout_;
  std::string line_;  // that has not ended yet
};

}  // namespace

std::string command_line(const StudyConfig& config, const Values& values) {
  const SearchSpace& space = config.tuner.space;
  const std::string command = fill_in(config.objective, space, values);
  const bool all_named = std::ranges::all_of(space.parameters, [&](const Parameter& parameter) {
    return config.objective.find("{" + parameter.name + "}") != std::string::npos;
  });
  if (all_named) return command;
  return fmt::format("env INGOT_PARAMS={} sh -c {}", shell_word(space.to_json(values)), shell_word(command));
}

std::unique_ptr<Objective> make_command_objective(const StudyConfig& config) {
  return std::make_unique<CommandObjective>(config);
}

}  // namespace ingot::tune
