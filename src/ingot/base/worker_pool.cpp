#include "ingot/base/worker_pool.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <sstream>
#include <thread>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ingot/base/env.h"
#include "ingot/base/error.h"
#include "ingot/base/files.h"

namespace ingot {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t kDeathsToGiveUp = 5;
// From SIGTERM on, longer than a StopWatcher of the worker waits.
constexpr std::chrono::seconds kKillAfter{10};

std::int64_t number_from(const char* text, std::int64_t fallback) {
  if (text == nullptr || *text == '\0') return fallback;
  char* end = nullptr;
  const long long value = std::strtoll(text, &end, 10);
  return *end == '\0' ? value : fallback;
}

// What it said last since its log had so many bytes: the error that ended it.
std::string last_line(const std::string& path, std::size_t start) {
  std::string text = read_file(path);
  text.erase(0, start);
  while (!text.empty() && text.back() == '\n') text.pop_back();
  if (text.empty()) return "it could not say why; is the disk of its log full?";
  const std::string line = text.substr(text.rfind('\n') + 1);
  constexpr std::string_view own = "ingot: ";
  return line.rfind(own, 0) == 0 ? line.substr(own.size()) : line;
}

// srun gives its tasks the number of their step. The script of sbatch has SLURM_PROCID 0 and the job's
// SLURM_NTASKS, too, but is one process: in no step, or in one of the numbers at the end that Slurm keeps for
// scripts and shells.
bool is_task_of_srun() {
  constexpr std::int64_t kFirstReserved = 0xFFFFFFF0;
  const std::int64_t step = number_from(std::getenv("SLURM_STEP_ID"), -1);
  return step >= 0 && step < kFirstReserved;
}

constexpr const char* kVisibleGpus = "CUDA_VISIBLE_DEVICES";  // of CUDA itself, so that any program heeds it

// Which GPU the worker of this index on the machine has to itself; none where there are no two, or the user
// has chosen one.
std::optional<std::string> gpu_of(std::int64_t place, std::int64_t gpus) {
  if (env_setting("CUDA_DEVICE").has_value() || env_flag("FORCE_CPU").value_or(false)) return std::nullopt;
  std::vector<std::string> names;
  // Environment: CUDA_VISIBLE_DEVICES | the GPUs that a process sees, as CUDA has it; `ingot tune` shares
  // them out among its workers
  if (const char* visible = std::getenv(kVisibleGpus); visible != nullptr) {
    std::istringstream list(visible);
    for (std::string name; std::getline(list, name, ',');) names.push_back(name);
  } else {
    while (std::ssize(names) < gpus) names.push_back(std::to_string(names.size()));
  }
  if (names.size() < 2) return std::nullopt;
  return names[static_cast<std::size_t>(place) % names.size()];
}

// A file of its own for each reader, which no other one moves on.
int open_text(const std::string& text) {
  const int fd = ::memfd_create("input", MFD_CLOEXEC);
  const auto size = static_cast<ssize_t>(text.size());
  INGOT_CHECK(fd >= 0 && ::pwrite(fd, text.data(), text.size(), 0) == size,
              Error(fmt::format("cannot keep a worker's input in memory: {}", std::strerror(errno))));
  return fd;
}

}  // namespace

LaunchRank LaunchRank::from_environment() {
  // Open MPI, MPICH and Intel MPI, Slurm: a worker needs its rank only, so no MPI library is linked.
  struct Names {
    const char *rank, *size, *rank_here, *size_here;
    bool launched = true;
  };
  // Environment: OMPI_COMM_WORLD_RANK, PMI_RANK, SLURM_PROCID | set by `mpirun` and `srun`, with those of
  // size and local rank: which process of a run this is
  for (const Names& names : {Names{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
                                   "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"},
                             Names{"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
                             Names{"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID",
                                   "SLURM_NTASKS_PER_NODE", is_task_of_srun()}}) {
    const char* found = std::getenv(names.rank);
    if (found == nullptr || !names.launched) continue;
    return {number_from(found, 0), number_from(std::getenv(names.size), 1),
            number_from(std::getenv(names.rank_here), 0),
            std::max<std::int64_t>(1, number_from(std::getenv(names.size_here), 1))};
  }
  return {};
}

WorkerPool::WorkerPool(std::vector<std::string> arguments, std::int64_t count, std::string log_prefix,
                       std::string input, std::int64_t gpus)
    : arguments_(std::move(arguments)), input_(std::move(input)), gpus_(gpus) {
  for (std::int64_t i = 0; i < count; ++i) processes_.push_back({0, fmt::format("{}-{}.log", log_prefix, i)});
  for (Process& process : processes_) start(process);
}

WorkerPool::~WorkerPool() { stop(); }

void WorkerPool::start(Process& process) const {
  // Between fork and exec only calls that are safe there: everything is made before.
  std::vector<std::string> environment;
  for (char** entry = environ; *entry != nullptr; ++entry) environment.emplace_back(*entry);
  environment.push_back(fmt::format("{}=1", kVariable));
  const LaunchRank launch = LaunchRank::from_environment();
  const auto count = static_cast<std::int64_t>(processes_.size()), sharing = count * launch.size_here;
  if (const auto gpu = gpu_of(launch.rank_here * count + (&process - processes_.data()), gpus_)) {
    const std::string variable = fmt::format("{}=", kVisibleGpus);
    std::erase_if(environment, [&](const std::string& entry) { return entry.starts_with(variable); });
    environment.push_back(variable + *gpu);
  }
  // Environment: OMP_NUM_THREADS | threads of an operation
  if (std::getenv("OMP_NUM_THREADS") == nullptr) {
    const std::int64_t cores = std::thread::hardware_concurrency();
    environment.push_back(fmt::format("OMP_NUM_THREADS={}", std::max<std::int64_t>(1, cores / sharing)));
  }
  if (sharing > 1 && std::getenv("OMP_WAIT_POLICY") == nullptr) {
    environment.emplace_back("OMP_WAIT_POLICY=passive");
  }
  std::vector<std::string> words = arguments_;
  std::vector<char*> argv, variables;
  for (std::string& word : words) argv.push_back(word.data());
  for (std::string& entry : environment) variables.push_back(entry.data());
  argv.push_back(nullptr);
  variables.push_back(nullptr);
  const int log = ::open(process.log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  INGOT_CHECK(log >= 0, IoError(process.log, fmt::format("cannot be written: {}", std::strerror(errno))));
  process.log_start = std::filesystem::file_size(process.log);
  const int input = input_.empty() ? ::open("/dev/null", O_RDONLY | O_CLOEXEC) : open_text(input_);
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(127);
    ::dup2(input, 0);
    ::dup2(::open("/dev/null", O_WRONLY | O_CLOEXEC), 1);
    ::dup2(log, 2);
    ::execve("/proc/self/exe", argv.data(), variables.data());
    ::_exit(127);
  }
  const int error = errno;
  ::close(log);
  ::close(input);
  INGOT_CHECK(pid > 0, Error(fmt::format("cannot start a worker: {}", std::strerror(error))));
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
                Error(fmt::format("a worker failed: {} ({})", last_line(process.log, process.log_start),
                                  process.log)));
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
  for (const Process& process : processes_) {
    if (process.pid != 0) ::kill(static_cast<pid_t>(process.pid), SIGTERM);
  }
  const auto deadline = Clock::now() + kKillAfter;
  while (!done() && Clock::now() < deadline) {
    for (Process& process : processes_) {
      if (process.pid != 0 && ::waitpid(static_cast<pid_t>(process.pid), nullptr, WNOHANG) != 0)
        process.pid = 0;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  for (Process& process : processes_) {
    if (process.pid == 0) continue;
    ::kill(static_cast<pid_t>(process.pid), SIGKILL);
    ::waitpid(static_cast<pid_t>(process.pid), nullptr, 0);
    process.pid = 0;
  }
}

}  // namespace ingot
