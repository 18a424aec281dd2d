#include "ingot/base/command_process.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <string_view>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ingot/base/error.h"

namespace ingot {
namespace {

constexpr std::size_t kPipeBytes = 65536;  // that the kernel keeps: one read takes all that waits

struct Pipe {
  int out = -1, in = -1;
};

Pipe make_pipe() {
  std::array<int, 2> ends{};
  INGOT_CHECK(::pipe2(ends.data(), O_CLOEXEC) == 0, Error(fmt::format("pipe: {}", std::strerror(errno))));
  return {ends[0], ends[1]};
}

void close_end(int& descriptor) {
  if (descriptor >= 0) ::close(std::exchange(descriptor, -1));
}

void reap(pid_t process, int* status = nullptr) {
  while (::waitpid(process, status, 0) < 0 && errno == EINTR) {
  }
}

/// Whether mpirun or srun has set it for this process as one of a run. A command is none: its MPI would take
/// this rank's place, and wait for the other ranks. What users set for all (OMPI_MCA_btl) stays, but for
/// what mpirun sets itself (OMPI_MCA_orte_tmpdir_base); so does the job that srun needs to start one.
bool is_of_launcher(std::string_view name) {
  constexpr std::string_view kMca = "OMPI_MCA_";
  if (name.starts_with("OMPI_ALLOW_RUN_AS_ROOT") || name.starts_with("PMIX_MCA_")) return false;
  if (name.starts_with(kMca)) {
    const std::string_view parameter = name.substr(kMca.size());
    return parameter == "ess" || parameter == "pmix" || parameter.starts_with("ess_") ||
           parameter.starts_with("orte_");
  }
  constexpr std::array<std::string_view, 6> kPrefixes = {"OMPI_",       "PMIX_",     "PMI_",
                                                         "SLURM_STEP_", "MPI_LOCAL", "PRTE_"};
  constexpr std::array<std::string_view, 5> kTask = {"SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID",
                                                     "SLURM_STEPID", "SLURM_TASK_PID"};
  return std::ranges::any_of(kPrefixes, [&](std::string_view prefix) { return name.starts_with(prefix); }) ||
         std::ranges::find(kTask, name) != kTask.end();
}

/// `own` and what this process has beside it: a shell takes the last of two settings of a name.
std::vector<std::string> with_inherited(std::vector<std::string> own) {
  const auto name = [](const std::string& entry) { return entry.substr(0, entry.find('=')); };
  std::vector<std::string> names;
  names.reserve(own.size());
  for (const std::string& entry : own) names.push_back(name(entry));
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string inherited = name(*entry);
    if (std::ranges::find(names, inherited) == names.end() && !is_of_launcher(inherited))
      own.emplace_back(*entry);
  }
  return own;
}

// Leads the group, and outlives everything in it: the group's number stays this group's. Only calls that are
// safe after a fork in a process with threads.
[[noreturn]] void guard_group(const Pipe& lifeline) {
  sigset_t all;
  sigfillset(&all);
  ::sigprocmask(SIG_BLOCK, &all, nullptr);  // what asks the command to end is not meant for the guard
  ::setpgid(0, 0);
  ::close(lifeline.in);
  // Nobody shall wait for the end of a pipe only because the guard holds it, too.
  ::dup2(lifeline.out, 0);
  ::close_range(1, ~0U, 0);  // kernels before 5.9 keep them open
  char byte = 0;
  while (::read(0, &byte, 1) < 0 && errno == EINTR) {
  }
  ::kill(0, SIGKILL);
  ::_exit(0);
}

}  // namespace

CommandProcess::CommandProcess(const std::string& command, std::vector<std::string> environment,
                               const std::string& log)
    : CommandProcess() {  // so that the destructor cleans up where something throws
  // Between fork and exec only calls that are safe there: everything is made before.
  std::vector<std::string> settings = with_inherited(std::move(environment));
  std::vector<char*> variables;
  variables.reserve(settings.size() + 1);
  for (std::string& entry : settings) variables.push_back(entry.data());
  variables.push_back(nullptr);
  std::string shell = "/bin/sh", option = "-c", text = command;
  std::array<char*, 4> argv{shell.data(), option.data(), text.data(), nullptr};
  sigset_t none;
  sigemptyset(&none);
  const pid_t parent = ::getpid();

  Pipe lifeline = make_pipe();
  guard_ = ::fork();
  if (guard_ == 0) guard_group(lifeline);
  const int guard_error = errno;
  close_end(lifeline.out);
  lifeline_ = lifeline.in;
  INGOT_CHECK(guard_ > 0, Error(fmt::format("cannot start a process: {}", std::strerror(guard_error))));
  ::setpgid(guard_, guard_);  // the guard does it, too: whoever comes first

  Pipe output = make_pipe();
  output_ = output.out;
  int errors = ::open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0644);
  const int log_error = errno;
  if (errors < 0) close_end(output.in);
  INGOT_CHECK(errors >= 0, IoError(log, fmt::format("cannot be written: {}", std::strerror(log_error))));
  shell_ = ::fork();
  if (shell_ == 0) {
    if (::setpgid(0, guard_) != 0 || ::getppid() != parent) ::_exit(127);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    ::dup2(output.in, 1);
    ::dup2(errors, 2);
    ::execve(argv[0], argv.data(), variables.data());
    ::_exit(127);
  }
  const int shell_error = errno;
  close_end(output.in);
  close_end(errors);
  INGOT_CHECK(shell_ > 0, Error(fmt::format("cannot start a process: {}", std::strerror(shell_error))));
  ::setpgid(shell_, guard_);
  ::fcntl(output_, F_SETFL, O_NONBLOCK);
}

CommandProcess::~CommandProcess() {
  kill_group();
  close_end(output_);
}

std::string CommandProcess::read(int milliseconds) {
  pollfd ready{.fd = output_, .events = POLLIN, .revents = 0};  // without an output it only waits
  if (::poll(&ready, 1, milliseconds) <= 0 || output_ < 0) return "";
  std::string text(kPipeBytes, '\0');
  const ssize_t n = ::read(output_, text.data(), text.size());
  if (n == 0) close_end(output_);
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(n, 0)));
  return text;
}

std::optional<int> CommandProcess::status() {
  int status = 0;
  if (shell_ > 0 && ::waitpid(shell_, &status, WNOHANG) == shell_) {
    shell_ = 0;
    status_ = status;
    kill_group();  // what it left in the background
  }
  return status_;
}

void CommandProcess::signal(int number) const {
  if (guard_ > 0) ::kill(-guard_, number);
}

void CommandProcess::kill_group() {
  signal(SIGKILL);
  if (shell_ > 0) {
    ::kill(shell_, SIGKILL);  // where it made a group of its own
    reap(std::exchange(shell_, 0));
  }
  if (guard_ > 0) reap(std::exchange(guard_, 0));
  close_end(lifeline_);
}

}  // namespace ingot
