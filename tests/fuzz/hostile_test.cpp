// Files from generators, given to every fuzz target: none crashes, none takes 10 s or 1 GiB.
// INGOT_HOSTILE_FILES says how many of each kind; ./dev check --deep makes 10,000 in all.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "tests/fuzz/generate/source.h"
#include "tests/support/source_dir.h"
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ingot/base/files.h"

extern "C" {
#define FUZZ_TARGET(name) int fuzz_##name(const std::uint8_t* data, std::size_t size);
#include "fuzz_targets.inc"
#undef FUZZ_TARGET
}

// Where a sanitizer would end the process for a size that no machine has, malloc says no, as without one.
extern "C" const char* __asan_default_options() { return "allocator_may_return_null=1"; }  // NOLINT

namespace ingot {
// The run-time libraries of the sanitizers; null where none is linked.
extern "C" void __asan_init() __attribute__((weak));  // NOLINT
extern "C" void __tsan_init() __attribute__((weak));  // NOLINT

namespace {

using Clock = std::chrono::steady_clock;
using Target = int (*)(const std::uint8_t*, std::size_t);

constexpr auto kLongest = std::chrono::seconds(10);       // of its processors: others may be at work, too
constexpr auto kLongestWait = std::chrono::seconds(100);  // of the clock: it may wait for ever
constexpr rlim_t kMostMemory = rlim_t{1} << 30;
// Shadow memory is more than any limit. Of the layers some may be instrumented and this file not.
const bool kSanitized = __asan_init != nullptr || __tsan_init != nullptr;

std::uint64_t files_of_each_kind() {
  const char* given = std::getenv("INGOT_HOSTILE_FILES");
  return given == nullptr ? 12 : std::strtoull(given, nullptr, 10);
}

std::vector<std::string> corpus_of(const std::string& kind) {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry :
       std::filesystem::directory_iterator(test::source_dir() + "/tests/fuzz/corpus/" + kind))
    paths.push_back(entry.path());
  std::ranges::sort(paths);
  std::vector<std::string> files;
  files.reserve(paths.size());
  for (const auto& path : paths) files.push_back(read_file(path.string()));
  return files;
}

/// Where the child's errors go.
std::string errors_path(const std::string& kind) { return ::testing::TempDir() + "hostile_errors_" + kind; }

/// AddressSanitizer ends a process whose `new` finds no memory, in place of std::bad_alloc.
bool ran_out_of_memory(const std::string& kind) {
  if (!kSanitized) return false;
  const std::string errors = read_file(errors_path(kind));
  return errors.find("out-of-memory") != errors.npos || errors.find("allocation-size-too-big") != errors.npos;
}

/// What the child tells: the file that it is at.
struct Progress {
  volatile std::uint64_t file;
};

/// Gives files [first, end) to the target, in a process of its own. A graph may run as long as --max-seconds
/// would let it.
[[noreturn]] void run_files(const std::string& kind, Target target, std::uint64_t first, std::uint64_t end,
                            const std::vector<std::string>& corpus, Progress& progress) {
  if (!kSanitized) {
    const rlimit memory{kMostMemory, kMostMemory};
    setrlimit(RLIMIT_DATA, &memory);
  }
  ::dup2(::open(errors_path(kind).c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), STDERR_FILENO);
  for (std::uint64_t i = first; i < end; ++i) {
    progress.file = i;
    const std::string file = test::hostile_file(kind, i, corpus);
    if (kind == "onnx_run") std::signal(SIGALRM, [](int) { std::_Exit(75); }), ::alarm(5);
    target(reinterpret_cast<const std::uint8_t*>(file.data()), file.size());
    ::alarm(0);
  }
  progress.file = end;
  std::_Exit(0);
}

std::chrono::nanoseconds processor_time(pid_t child) {
  clockid_t clock{};
  timespec time{};
  if (::clock_getcpuclockid(child, &clock) != 0 || ::clock_gettime(clock, &time) != 0) return {};
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

/// Waits for the child; kills it where it stays at one file for too long. "" where all is well, else what is
/// not.
std::string watch(pid_t child, const Progress& progress) {
  std::uint64_t at = progress.file;
  Clock::time_point since = Clock::now();
  std::chrono::nanoseconds used = processor_time(child);
  for (int status = 0;; std::this_thread::sleep_for(std::chrono::milliseconds(2))) {
    if (::waitpid(child, &status, WNOHANG) == child) {
      if (WIFEXITED(status) && (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 75)) return {};
      return WIFSIGNALED(status) ? "ends with signal " + std::to_string(WTERMSIG(status))
                                 : "ends with exit code " + std::to_string(WEXITSTATUS(status));
    }
    if (progress.file != at) {
      at = progress.file;
      since = Clock::now();
      used = processor_time(child);
    } else if (processor_time(child) - used > (kSanitized ? 4 * kLongest : kLongest) ||
               Clock::now() - since > kLongestWait) {
      ::kill(child, SIGKILL);
      ::waitpid(child, &status, 0);
      return "takes longer than 10 s";
    }
  }
}

void check_kind(const std::string& kind, Target target) {
  const std::vector<std::string> corpus = corpus_of(kind);
  void* shared = ::mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(shared, MAP_FAILED);
  Progress& progress = *static_cast<Progress*>(shared);
  const std::uint64_t end = files_of_each_kind();
  for (std::uint64_t first = 0; first < end; first = progress.file + 1) {
    progress.file = first;
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) run_files(kind, target, first, end, corpus, progress);
    const std::string problem = watch(child, progress);
    if (progress.file >= end) break;
    if (problem.empty() || ran_out_of_memory(kind)) continue;  // a graph that ran out of its seconds
    const std::string path = ::testing::TempDir() + "hostile_" + kind + "_" + std::to_string(progress.file);
    std::ofstream(path, std::ios::binary) << test::hostile_file(kind, progress.file, corpus);
    ADD_FAILURE() << kind << ", file " << progress.file << " " << problem << "; it is in " << path << "\n"
                  << read_file(errors_path(kind)).substr(0, 4000);
  }
  ::munmap(shared, sizeof(Progress));
  std::filesystem::remove(errors_path(kind));
}

#define FUZZ_TARGET(name) \
  TEST(HostileFiles, name) { check_kind(#name, fuzz_##name); }
#include "fuzz_targets.inc"
#undef FUZZ_TARGET

}  // namespace
}  // namespace ingot
