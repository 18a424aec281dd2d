#pragma once

#include <atomic>
#include <functional>
#include <stop_token>
#include <thread>

namespace ingot {

/// What a worker does when it is told to end (Ctrl-C, SIGTERM, SIGHUP): it requests `token()`, and where the
/// work has not ended by itself some seconds later, calls `put_back` and ends the process.
class StopWatcher {
 public:
  /// To be called before the process starts its first thread: the signals have to reach the watcher.
  static void block_signals();
  explicit StopWatcher(std::function<void()> put_back);
  ~StopWatcher();
  StopWatcher(const StopWatcher&) = delete;
  StopWatcher& operator=(const StopWatcher&) = delete;

  std::stop_token token() const { return stop_.get_token(); }
  /// Ends this process as SIGTERM does, so that who waits for it knows that it did not finish.
  [[noreturn]] static void end_process();

 private:
  void watch();

  std::function<void()> put_back_;
  std::stop_source stop_;
  std::atomic<bool> over_ = false;
  std::thread thread_;
};

}  // namespace ingot
