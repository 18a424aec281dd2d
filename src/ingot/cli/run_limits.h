#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>

namespace ingot::cli {

/// Bytes of memory that this process has asked the system for and may write to.
std::uint64_t process_memory();

/// From now on the process gets at most `bytes` beyond what it has: what asks for more fails, whoever it is.
void limit_memory(std::uint64_t bytes);

/// Ends the process with exit code 1 and an error once `seconds` have passed since it was made, whatever is
/// going on then; not after it is destroyed. `seconds` 0: never.
class TimeLimit {
 public:
  /// `message` is the error's; with `json` it is written as JSON.
  TimeLimit(double seconds, const std::string& message, bool json);
  ~TimeLimit();
  TimeLimit(const TimeLimit&) = delete;
  TimeLimit& operator=(const TimeLimit&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable ended_;
  bool over_ = false;
  std::thread watch_;
};

}  // namespace ingot::cli
