#pragma once

#include <atomic>
#include <string>
#include <string_view>
#include <thread>

#include "ingot/base/error.h"

namespace ingot::python {

/// A call of what takes one call at a time, by a second thread or from its own callback.
class Busy : public Error {
 public:
  explicit Busy(const std::string& what,
                const std::string& why = "for another thread; it takes one call at a time")
      : Error(what + " is at work " + why) {}
  std::string_view kind() const noexcept override { return "busy"; }
};

/// Whose turn it is. Calls that leave Python's lock take a turn.
class OneAtATime {
 public:
  class Turn {
   public:
    /// Throws Busy where another thread has the turn; the same thread's calls, from a callback, may go on
    /// where `inside` says so.
    Turn(OneAtATime& owner, const char* what, bool inside = false) : owner_(owner) {
      std::thread::id nobody;
      if (owner.thread_.compare_exchange_strong(nobody, std::this_thread::get_id())) return;
      if (!inside || nobody != std::this_thread::get_id()) throw Busy(what);
      nested_ = true;
    }
    ~Turn() {
      if (!nested_) owner_.thread_ = std::thread::id();
    }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

   private:
    OneAtATime& owner_;
    bool nested_ = false;
  };

 private:
  std::atomic<std::thread::id> thread_;
};

}  // namespace ingot::python
