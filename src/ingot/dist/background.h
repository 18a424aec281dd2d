#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

namespace ingot::dist {

/// A thread that does what it is given, one after the other, while the caller computes: communication, which
/// waits more than it works. It takes no part of the machine's threads for parallel loops.
class Background {
 public:
  /// `most`: so much may wait to be done; run() waits beyond that.
  explicit Background(std::size_t most);
  ~Background();
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

  void run(std::function<void()> work);
  /// Until all is done. Rethrows the first exception; what was given after the work that threw it is dropped.
  void wait();
  /// Drops what waits, and returns once what is being done has ended; how does not matter any more.
  void abandon() noexcept;

 private:
  void loop();

  std::size_t most_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> waiting_;
  bool working_ = false, ends_ = false;
  std::exception_ptr failure_;
  std::thread thread_;
};

}  // namespace ingot::dist
