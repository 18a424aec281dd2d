#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace ingot::serve {

/// Work that is done one piece behind another on a thread of its own.
class WorkQueue {
 public:
  WorkQueue();
  /// What still waits is dropped.
  ~WorkQueue();
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;

  /// `work` throws nothing. QueueFull where too much waits.
  void submit(std::function<void()> work);

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> waiting_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace ingot::serve
