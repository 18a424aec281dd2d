// Trials that are runs of any program.
#include <array>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstring>
#include <limits>

#include <fcntl.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

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
    result += std::isnan(values[i]) ? "''" : shell_quoted(space.text(i, values[i]));
    at = end;
  }
  return result;
}

/// A shell that runs a command in a process group of its own; its output comes through a pipe.
class Child {
 public:
  Child(const std::string& command, std::vector<std::string> environment) {
    std::array<int, 2> ends{};
    INGOT_CHECK(::pipe2(ends.data(), O_CLOEXEC) == 0, Error(fmt::format("pipe: {}", std::strerror(errno))));
    // Between fork and exec only calls that are safe there: everything is made before.
    for (char** entry = environ; *entry != nullptr; ++entry) environment.emplace_back(*entry);
    std::vector<char*> variables;
    variables.reserve(environment.size() + 1);
    for (std::string& entry : environment) variables.push_back(entry.data());
    variables.push_back(nullptr);
    std::string shell = "/bin/sh", option = "-c", text = command;
    std::array<char*, 4> argv{shell.data(), option.data(), text.data(), nullptr};
    const pid_t parent = ::getpid();
    pid_ = ::fork();
    if (pid_ == 0) {
      ::setpgid(0, 0);
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (::getppid() != parent) ::_exit(127);
      ::dup2(ends[1], 1);
      ::execve(argv[0], argv.data(), variables.data());
      ::_exit(127);
    }
    const int code = errno;
    ::close(ends[1]);
    output_ = ends[0];
    if (pid_ < 0) {
      ::close(output_);
      throw Error(fmt::format("cannot start a process: {}", std::strerror(code)));
    }
  }
  ~Child() {
    ::close(output_);
    if (pid_ <= 0) return;
    ::kill(-pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  int output() const { return output_; }
  void signal(int number) const { ::kill(-pid_, number); }
  int wait() {
    int status = 0;
    while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    ::kill(-pid_, SIGKILL);  // what it left in the background
    pid_ = 0;
    return status;
  }

 private:
  pid_t pid_ = 0;
  int output_ = -1;
};

class CommandObjective : public Objective {
 public:
  explicit CommandObjective(const StudyConfig& config)
      : command_(config.objective),
        metric_(config.metric.empty() ? "value" : config.metric),
        timeout_(config.timeout_seconds) {}

  void check(const SearchSpace& space, const Values& values) override {
    static_cast<void>(fill_in(command_, space, values));
  }

  std::optional<double> run(TrialRun& run) override {
    const Trial& trial = run.trial();
    value_ = std::numeric_limits<double>::quiet_NaN();
    found_ = stopped_ = false;
    Child child(fill_in(command_, run.space(), trial.values),
                {fmt::format("INGOT_TRIAL={}", trial.number), "INGOT_TRIAL_DIR=" + run.directory(),
                 "INGOT_PARAMS=" + run.space().to_json(trial.values)});
    follow(child, run);
    const int status = child.wait();
    if (run.pruned()) return std::nullopt;
    INGOT_CHECK(!stopped_, Error(fmt::format("took longer than timeout_seconds {}", timeout_)));
    INGOT_CHECK(!WIFSIGNALED(status),
                Error(fmt::format("the command was ended by signal {}", WTERMSIG(status))));
    INGOT_CHECK(WEXITSTATUS(status) == 0,
                Error(fmt::format("the command ended with exit code {}", WEXITSTATUS(status))));
    INGOT_CHECK(found_,
                Error(fmt::format("the command wrote no line of JSON with '{0}'; expected one such as "
                                  "{{\"{0}\": 0.5}}",
                                  metric_)));
    return value_;
  }

 private:
  // Reads lines until the output ends; asks the program to end once it is pruned or late.
  void follow(Child& child, TrialRun& run) {
    const auto start = Clock::now();
    std::optional<Clock::time_point> asked;
    std::string line;
    std::array<char, 4096> buffer{};
    for (;;) {
      const std::chrono::duration<double> taken = Clock::now() - start;
      if (!asked && (run.pruned() || (timeout_ > 0 && taken.count() > timeout_))) {
        stopped_ = !run.pruned();
        child.signal(SIGTERM);
        asked = Clock::now();
      }
      if (asked && Clock::now() - *asked > std::chrono::duration<double>(kGraceSeconds))
        return child.signal(SIGKILL);
      pollfd ready{.fd = child.output(), .events = POLLIN, .revents = 0};
      if (::poll(&ready, 1, 200) <= 0) continue;
      const ssize_t n = ::read(child.output(), buffer.data(), buffer.size());
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) break;
      for (const char c : std::string_view(buffer.data(), static_cast<std::size_t>(n))) {
        if (c != '\n') {
          line += c;
          continue;
        }
        take(line, run);
        line.clear();
      }
    }
    take(line, run);
  }

  void take(const std::string& line, TrialRun& run) {
    const Json json = parse_json_or_discard<Json>(line);
    if (!json.is_object() || !json.contains(metric_)) return;
    const Json& metric = json[metric_];
    // JSON has no NaN: programs write null, or a word.
    const double value = metric.is_number() ? metric.get<double>() : std::numeric_limits<double>::quiet_NaN();
    const auto step = json.find("step");
    if (step != json.end() && step->is_number_integer()) run.report(step->get<std::int64_t>(), value);
    value_ = value;
    found_ = true;
  }

  std::string command_, metric_;
  double timeout_;
  double value_ = 0;
  bool found_ = false, stopped_ = false;
};

}  // namespace

std::unique_ptr<Objective> make_command_objective(const StudyConfig& config) {
  return std::make_unique<CommandObjective>(config);
}

}  // namespace ingot::tune
