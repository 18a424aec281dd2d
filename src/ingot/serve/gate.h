#pragma once

#include <mutex>
#include <shared_mutex>

namespace ingot::serve {

/// Lets callers in until it is closed for good. By it a thread that may outlive an object uses the object
/// only while it is there: a model's thread keeps an exchange for longer than the HTTP server lives, and must
/// not be the one that drops the last hold of a connection once the context that owns the sockets is gone.
class Gate {
 public:
  /// Calls the action while the gate is open, or not at all.
  template <class F>
  void pass(F&& action) {
    const std::shared_lock lock(mutex_);
    if (open_) action();
  }
  /// Returns once nobody is inside.
  void close() {
    const std::unique_lock lock(mutex_);
    open_ = false;
  }

 private:
  std::shared_mutex mutex_;
  bool open_ = true;
};

}  // namespace ingot::serve
