#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace ingot::serve {

struct WorkQueueOptions {
  int threads = 1;
  std::size_t most_waiting = 256;  ///< pieces of work that have not begun
};

/// Work that is done in the order in which it comes, on threads of its own.
class WorkQueue {
 public:
  explicit WorkQueue(const WorkQueueOptions& options = {});
  /// What still waits is dropped.
  ~WorkQueue();
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;

  /// `work` throws nothing. QueueFull where too much waits.
  void submit(std::function<void()> work);

 private:
  void run();

  const WorkQueueOptions options_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> waiting_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace ingot::serve
