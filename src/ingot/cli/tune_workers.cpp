#include "ingot/cli/tune_workers.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <thread>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ingot/base/error.h"
#include "ingot/base/files.h"

namespace ingot::cli {
namespace {

constexpr std::int64_t kDeathsToGiveUp = 5;

std::int64_t number_from(const char* text, std::int64_t fallback) {
  if (text == nullptr || *text == '\0') return fallback;
  char* end = nullptr;
  const long long value = std::strtoll(text, &end, 10);
  return *end == '\0' ? value : fallback;
}

// What it said last: the error that ended it.
std::string last_line(const std::string& path) {
  std::string text = read_file(path);
  while (!text.empty() && text.back() == '\n') text.pop_back();
  const std::string line = text.substr(text.rfind('\n') + 1);
  constexpr std::string_view own = "ingot: ";
  return line.rfind(own, 0) == 0 ? line.substr(own.size()) : line;
}

}  // namespace

LaunchRank LaunchRank::from_environment() {
  // Open MPI, MPICH and Intel MPI, Slurm: a worker needs its rank only, so no MPI library is linked.
  for (const auto& [rank, size] : {std::pair{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                                   {"PMI_RANK", "PMI_SIZE"},
                                   {"SLURM_PROCID", "SLURM_NTASKS"}}) {
    const char* found = std::getenv(rank);
    if (found != nullptr) return {number_from(found, 0), number_from(std::getenv(size), 1)};
  }
  return {};
}

WorkerPool::WorkerPool(std::vector<std::string> arguments, std::int64_t count, std::string log_prefix)
    : arguments_(std::move(arguments)) {
  for (std::int64_t i = 0; i < count; ++i) processes_.push_back({0, fmt::format("{}-{}.log", log_prefix, i)});
  for (Process& process : processes_) start(process);
}

WorkerPool::~WorkerPool() { stop(); }

void WorkerPool::start(Process& process) const {
  // Between fork and exec only calls that are safe there: everything is made before.
  std::vector<std::string> environment;
  for (char** entry = environ; *entry != nullptr; ++entry) environment.emplace_back(*entry);
  environment.push_back(fmt::format("{}=1", kVariable));
  if (std::getenv("OMP_NUM_THREADS") == nullptr) {
    const auto cores = static_cast<std::size_t>(std::max(1U, std::thread::hardware_concurrency()));
    environment.push_back(
        fmt::format("OMP_NUM_THREADS={}", std::max<std::size_t>(1, cores / processes_.size())));
  }
  if (processes_.size() > 1 && std::getenv("OMP_WAIT_POLICY") == nullptr) {
    environment.emplace_back("OMP_WAIT_POLICY=passive");
  }
  std::vector<std::string> words = arguments_;
  std::vector<char*> argv, variables;
  for (std::string& word : words) argv.push_back(word.data());
  for (std::string& entry : environment) variables.push_back(entry.data());
  argv.push_back(nullptr);
  variables.push_back(nullptr);
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(127);
    const int log = ::open(process.log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
    const int null = ::open("/dev/null", O_RDWR);
    ::dup2(null, 0);
    ::dup2(null, 1);
    ::dup2(log, 2);
    ::execve("/proc/self/exe", argv.data(), variables.data());
    ::_exit(127);
  }
  INGOT_CHECK(pid > 0, Error(fmt::format("cannot start a worker: {}", std::strerror(errno))));
  process.pid = pid;
}

void WorkerPool::tend(std::int64_t progress) {
  for (Process& process : processes_) {
    if (process.pid == 0) continue;
    int status = 0;
    if (::waitpid(static_cast<pid_t>(process.pid), &status, WNOHANG) == 0) continue;
    process.pid = 0;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) continue;
    INGOT_CHECK(WIFSIGNALED(status),
                Error(fmt::format("a worker failed: {} ({})", last_line(process.log), process.log)));
    deaths_ = progress == progress_at_death_ ? deaths_ + 1 : 1;
    progress_at_death_ = progress;
    INGOT_CHECK(deaths_ < kDeathsToGiveUp,
                Error(fmt::format("workers keep dying, the last one of signal {} ({})", WTERMSIG(status),
                                  process.log)));
    start(process);
  }
}

bool WorkerPool::done() const {
  return std::ranges::all_of(processes_, [](const Process& process) { return process.pid == 0; });
}

void WorkerPool::stop() {
  for (Process& process : processes_) {
    if (process.pid == 0) continue;
    ::kill(static_cast<pid_t>(process.pid), SIGKILL);
    ::waitpid(static_cast<pid_t>(process.pid), nullptr, 0);
    process.pid = 0;
  }
}

}  // namespace ingot::cli
