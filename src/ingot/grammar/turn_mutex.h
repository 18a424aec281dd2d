#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace ingot::grammar {

/// A mutex that threads get in the order in which they ask: one that gives it up and asks again comes behind
/// those that wait.
class TurnMutex {
 public:
  void lock() {
    std::unique_lock lock(mutex_);
    const std::uint64_t turn = next_++;
    changed_.wait(lock, [&] { return now_ == turn; });
  }
  void unlock() {
    {
      const std::lock_guard lock(mutex_);
      ++now_;
    }
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t next_ = 0, now_ = 0;
};

}  // namespace ingot::grammar
