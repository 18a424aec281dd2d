#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <optional>
#include <thread>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include "ingot/base/config.h"
#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/base/plural.h"
#include "ingot/base/printable.h"
#include "ingot/base/progress.h"
#include "ingot/base/shell.h"
#include "ingot/base/stop_watcher.h"
#include "ingot/base/trace.h"
#include "ingot/base/units.h"
#include "ingot/base/worker_pool.h"
#include "ingot/cli/commands.h"
#include "ingot/cli/config_keys.h"
#include "ingot/cli/tune_objectives.h"
#include "ingot/cli/tune_result.h"
#include "ingot/core/backend.h"
#include "ingot/train/run_metadata.h"
#include "ingot/tune/database.h"
#include "ingot/tune/study_keys.h"
#include "ingot/tune/study_report.h"

namespace ingot::cli {
namespace {

using tune::Trial;
using tune::TrialState;
using tune::Tuner;

constexpr const char* kStandardInput = "-";

struct TuneOptions {
  std::string study;
  std::vector<std::string> set;
  std::int64_t workers = 0;
  std::optional<std::string> keys;
  bool json = false;
};

volatile std::sig_atomic_t told_to_stop = 0;  // the signal
void on_stop(int number) { told_to_stop = number; }

/// The table that grows while a study runs: one line per finished trial, above a bar.
class TrialTable {
 public:
  TrialTable(Tuner& tuner, bool quiet) : tuner_(tuner), quiet_(quiet) {
    for (const tune::Parameter& p : tuner.space().parameters) {
      widths_.push_back(std::max<int>(display_width(p.name), 9));
    }
    for (const Trial& trial : tuner.trials()) shown_.push_back(trial.finished());
    if (quiet_) return;
    if (const std::int64_t done = finished(); done > 0)
      fmt::print("going on after {}\n", counted(done, "trial"));
    std::string header = fmt::format("{:>5}  {:>11}  {:<8}  {:>7}", "trial", "value", "state", "time");
    for (std::size_t i = 0; i < widths_.size(); ++i) {
      header += "  " + to_the_right(tuner.space().parameters[i].name, widths_[i]);
    }
    say(header);
    bar_ = std::make_unique<ProgressBar>(
        ProgressOptions{.label = "trials", .total = tuner.budget(), .done = finished()});
  }

  /// Shows what is new; returns how many trials have finished.
  std::int64_t update() {
    const std::vector<Trial> trials = tuner_.trials();
    const Trial* best = tune::best_of(trials, tuner_.direction());
    shown_.resize(trials.size());
    std::int64_t running = 0;
    for (const Trial& trial : trials) {
      running += trial.state == TrialState::running ? 1 : 0;
      if (!trial.finished() || shown_[static_cast<std::size_t>(trial.number)]) continue;
      shown_[static_cast<std::size_t>(trial.number)] = true;
      add_to_trace(trial);
      if (!quiet_) say(row(trial, &trial == best));
    }
    const std::int64_t done = finished();
    if (bar_ != nullptr) {
      const std::string leader =
          best == nullptr ? "" : fmt::format("best {:.5g} (trial {}) · ", best->value, best->number);
      bar_->update(done, fmt::format("{}{} running", leader, running));
    }
    return done;
  }
  void finish() {
    if (bar_ != nullptr) bar_->finish();
  }

 private:
  std::int64_t finished() const { return std::ranges::count(shown_, true); }

  // A bar for each trial, by the clock of its worker; those that ran in parallel are on rows of their own.
  void add_to_trace(const Trial& trial) {
    if (!trace::active() || trial.started <= 0 || trial.ended < trial.started) return;
    using std::chrono::duration;
    const double now = duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
    const auto at = [&](double seconds) {
      return trace::now() - static_cast<std::int64_t>(std::max(0.0, now - seconds) * 1e9);
    };
    auto row = std::ranges::find_if(rows_end_, [&](double end) { return end <= trial.started; });
    if (row == rows_end_.end()) row = rows_end_.insert(row, 0);
    *row = trial.ended;
    trace::add({.kind = ScopeKind::work,
                .name = "trial",
                .begin = at(trial.started),
                .end = at(trial.ended),
                .number = trial.number,
                .row = trace::row("trials", fmt::format("{}", row - rows_end_.begin() + 1))});
  }

  std::string row(const Trial& trial, bool leads) const {
    const double last = trial.reports.empty() ? trial.value : trial.reports.back().value;
    const double value = trial.state == TrialState::complete ? trial.value : last;
    std::string line = fmt::format(
        "{:>5}  {:>11}  {:<8}  {:>7}", trial.number, std::isnan(value) ? "-" : fmt::format("{:.5g}", value),
        leads ? "best" : name(trial.state), human_duration(trial.ended - trial.started));
    for (std::size_t i = 0; i < widths_.size(); ++i) {
      const double x = trial.values[i];
      const bool real = tuner_.space().parameters[i].kind == tune::ParameterKind::real;
      const std::string text =
          std::isnan(x) ? "" : (real ? fmt::format("{:.4g}", x) : tuner_.space().text(i, x));
      line += "  " + to_the_right(text, widths_[i]);
    }
    return trial.state == TrialState::failed ? line + "  " + trial.note : line;
  }

  static std::string to_the_right(const std::string& text, int width) {
    return std::string(static_cast<std::size_t>(std::max(0, width - display_width(text))), ' ') + text;
  }

  static void say(std::string line) {
    std::ranges::replace_if(
        line, [](unsigned char c) { return c < 0x20 || c == 0x7F; }, ' ');
    line = printable(line);
    if (is_terminal(STDOUT_FILENO)) line = fit_width(line, std::max(20, terminal_columns(STDOUT_FILENO)));
    const ProgressPause pause;
    fmt::print("{}\n", line);
    std::fflush(stdout);
  }

  Tuner& tuner_;
  bool quiet_;
  std::vector<int> widths_;
  std::vector<bool> shown_;
  std::vector<double> rows_end_;  // of a trace: when the last trial of each ended
  std::unique_ptr<ProgressBar> bar_;
};

std::vector<std::string> own_command_line(const TuneOptions& o, const std::string& study) {
  std::vector<std::string> words{"ingot", "tune", study};
  for (const std::string& assignment : o.set) words.insert(words.end(), {"--set", assignment});
  return words;
}

// What goes on with a study that was told to stop, for the user's shell; empty where it was not.
std::string command_to_go_on(const TuneOptions& o) {
  if (told_to_stop == 0) return "";
  std::vector<std::string> words = own_command_line(o, o.study);
  if (o.workers > 0) words.insert(words.end(), {"--workers", std::to_string(o.workers)});
  for (std::string& word : words) word = shell_word(word);
  return fmt::format("{}", fmt::join(words, " "));
}

std::int64_t gpus() {
  return std::ranges::count_if(BackendRegistry::instance().all(),
                               [](const ComputeBackend* each) { return !each->capabilities().host_memory; });
}

void run_workers(const TuneOptions& o, const tune::StudyConfig& config, const LaunchRank& launch,
                 TrialTable& table) {
  const std::string logs = launch.size > 1 ? fmt::format("{}/worker-{}", config.output_dir, launch.rank)
                                           : config.output_dir + "/worker";
  const std::int64_t usual = launch.size > 1 ? 1 : config.workers;  // the launcher has given the number
  const bool piped = o.study == kStandardInput;
  const std::string study = piped ? o.study : std::filesystem::absolute(o.study).string();
  WorkerPool workers(own_command_line(o, study), o.workers > 0 ? o.workers : usual, logs,
                     piped ? read_file(o.study) : "", gpus());
  while (told_to_stop == 0 && !workers.done()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    if (told_to_stop == 0) workers.tend(table.update());  // a signal from the terminal reaches workers, too
  }
}

// What is known is shown whatever went wrong; the first error is thrown at the end.
class FirstError {
 public:
  template <typename Work>
  void catch_from(const Work& work) {
    try {
      work();
    } catch (const Error&) {
      if (!error_) error_ = std::current_exception();
    }
  }
  void rethrow() const {
    if (!error_) return;
    std::fflush(stdout);
    std::rethrow_exception(error_);
  }

 private:
  std::exception_ptr error_;
};

// Shows the study until all of it is done, while processes of their own run the trials.
int lead(const TuneOptions& o, const tune::StudyConfig& config, Tuner& tuner) {
  const LaunchRank launch = LaunchRank::from_environment();
  const bool first = launch.rank == 0;
  RunMetadata metadata;
  metadata.describe_process(kCpu);
  metadata.device.clear();  // each trial chooses its own
  std::signal(SIGINT, on_stop);
  std::signal(SIGTERM, on_stop);
  if (std::signal(SIGHUP, on_stop) == SIG_IGN) std::signal(SIGHUP, SIG_IGN);  // as under nohup
  TrialTable table(tuner, o.json || !first);
  FirstError error;
  if (!tuner.is_complete()) error.catch_from([&] { run_workers(o, config, launch, table); });
  table.update();
  table.finish();
  if (!first) {
    error.rethrow();
    return 0;
  }
  const std::string report = config.output_dir + "/report.html";
  error.catch_from(
      [&] { write_study_report(report, config, tuner, tune_commands(config, tuner), metadata.rows()); });
  if (o.json) {
    print_tune_json(config, tuner, report);
  } else {
    print_tune_result(config, tuner, report, command_to_go_on(o));
  }
  error.rethrow();
  if (told_to_stop != 0) return 128 + told_to_stop;
  return tuner.best_trial().has_value() ? 0 : 1;
}

int work_until_told(const tune::StudyConfig& config, tune::Objective& objective) {
  bool stopped = false;
  {
    Tuner tuner(config.tuner);
    const StopWatcher watcher([&tuner] { tuner.put_back(); });
    work(tuner, objective, config, watcher.token());
    stopped = watcher.token().stop_requested();
  }
  if (stopped) StopWatcher::end_process();
  return 0;
}

/// Where what is tried finds its relative paths, while it lives.
class InDirectory {
 public:
  explicit InDirectory(const std::string& directory) : before_(std::filesystem::current_path()) {
    std::filesystem::current_path(directory);
  }
  ~InDirectory() {
    std::error_code code;
    std::filesystem::current_path(before_, code);
  }
  InDirectory(const InDirectory&) = delete;
  InDirectory& operator=(const InDirectory&) = delete;

 private:
  std::filesystem::path before_;
};

int run(const TuneOptions& o) {
  if (o.keys) return print_config_keys(tune::study_reference(), *o.keys, o.json);
  INGOT_CHECK(
      !o.study.empty(),
      InvalidConfig("study", "is missing: name a YAML file (ingot tune --keys tells what may stand in it)"));
  INGOT_CHECK(o.workers >= 0,
              InvalidConfig("--workers", fmt::format("must be at least 0, got {}", o.workers)));
  const bool is_worker = std::getenv(WorkerPool::kVariable) != nullptr;
  ::unsetenv(WorkerPool::kVariable);  // an `ingot tune` inside a trial is none
  if (is_worker) StopWatcher::block_signals();
  Config file = Config::load(o.study);
  for (const std::string& assignment : o.set) file.set(assignment);
  const bool piped = o.study == kStandardInput;
  INGOT_CHECK(!piped || is_worker || LaunchRank::from_environment().size == 1,
              InvalidConfig("study", "standard input reaches only one process of a launcher; name a file"));
  const tune::StudyConfig config = tune::read_study_config(file, piped ? "study.yaml" : o.study);
  const auto objective = make_objective(config);
  if (is_worker) {
    const InDirectory there(config.directory);
    return work_until_told(config, *objective);
  }
  {
    const InDirectory there(config.directory);
    check_space(*objective, config.tuner.space);
  }
  const std::filesystem::path directory = std::filesystem::path(config.tuner.study).parent_path();
  if (!directory.empty() && !tune::is_database_url(config.tuner.study)) make_directories(directory.string());
  Tuner tuner(config.tuner);
  make_directories(config.output_dir);  // not for a study that is refused
  return lead(o, config, tuner);
}

}  // namespace

void add_tune(Command& root) {
  auto o = std::make_shared<TuneOptions>();
  Command command =
      root.subcommand("tune", "Look for the best settings of a training run, a forecast or any program");
  command.option("study", o->study, "Study file (YAML), or - for standard input; --keys lists every key");
  command.option("--set", o->set, "Change a key: --set trials=200 (may be repeated)")
      .placeholder("KEY=VALUE");
  command.option("--keys", o->keys, "List the keys of a study, or those that tell of WORD, and end")
      .alone("");
  command.option("--workers", o->workers,
                 "Processes that run trials side by side; 0: as the study says, under mpirun 1");
  command.flag("--json", o->json, "No table and no bar; print the result, or --keys, as JSON");
  command.example("ingot tune study.yaml", "run a study, or go on with it: trials that are finished stay");
  command.example("ingot tune study.yaml --set trials=200 --workers 4", "add trials, four at a time");
  command.example("mpirun -n 8 ingot tune study.yaml", "one worker per rank, sharing the study's file");
  command.run([o] { return run(*o); });
}

}  // namespace ingot::cli
