#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

namespace ingot {

/// Tells of calls into code that is not ours (a game of a plugin, an opponent) that do not come back: such a
/// call cannot be ended from outside, but whoever waits should know for what.
class StallWatch {
 public:
  using Tell = std::function<void(const std::string& call, std::chrono::seconds waited)>;
  /// `tell` is called from another thread, once for a call that takes as long as `patience`.
  StallWatch(std::chrono::milliseconds patience, Tell tell);
  ~StallWatch();
  StallWatch(const StallWatch&) = delete;
  StallWatch& operator=(const StallWatch&) = delete;

  /// Runs `call`, watched. `name` outlives it. One at a time.
  template <class F>
  void run(std::string_view name, F&& call) {
    const Watched watched(*this, name);
    call();
  }

 private:
  using Clock = std::chrono::steady_clock;
  struct Watched {
    Watched(StallWatch& watch, std::string_view name) : watch_(watch) { watch_.begin(name); }
    ~Watched() { watch_.end(); }
    Watched(const Watched&) = delete;
    Watched& operator=(const Watched&) = delete;
    StallWatch& watch_;
  };
  void begin(std::string_view name);
  void end();
  void watch();

  const std::chrono::milliseconds patience_;
  const Tell tell_;
  std::mutex mutex_;
  std::condition_variable over_changed_;
  bool over_ = false;
  std::optional<std::string_view> name_;  // of the call that runs
  Clock::time_point began_;
  std::thread thread_;
};

}  // namespace ingot
