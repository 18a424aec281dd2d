#include "ingot/cli/run_limits.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <utility>

#include <sys/resource.h>

#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/base/parallel.h"
#include "ingot/cli/command.h"

namespace ingot::cli {

std::uint64_t process_memory() {
  const std::string status = read_file("/proc/self/status");
  const std::size_t at = status.find("VmData:");
  return at == status.npos ? 0 : std::strtoull(status.c_str() + at + 7, nullptr, 10) * 1024;
}

void limit_memory(std::uint64_t bytes) {
  constexpr std::uint64_t kThread = std::uint64_t{16} << 20;  // a stack, and malloc's first pages for it
  rlimit limit{};
  getrlimit(RLIMIT_DATA, &limit);
  const std::uint64_t now = process_memory() + kThread * static_cast<std::uint64_t>(num_threads());
  const std::uint64_t wanted = bytes < UINT64_MAX - now ? now + bytes : UINT64_MAX;
  limit.rlim_cur = std::min<rlim_t>(wanted, limit.rlim_max);
  setrlimit(RLIMIT_DATA, &limit);
}

TimeLimit::TimeLimit(double seconds, const std::string& message, bool json) {
  if (seconds <= 0) return;
  watch_ = std::thread([this, seconds, json, error = Error(message)] {
    std::unique_lock lock(mutex_);
    if (ended_.wait_for(lock, std::chrono::duration<double>(seconds), [this] { return over_; })) return;
    std::_Exit(report_error(error, json));
  });
}

TimeLimit::~TimeLimit() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  ended_.notify_all();
  if (watch_.joinable()) watch_.join();
}

}  // namespace ingot::cli
