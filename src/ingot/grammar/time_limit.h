#pragma once

#include <chrono>

namespace ingot::grammar {

/// While it lives, compiling a grammar on this thread ends with InvalidConfig once it has worked for so long,
/// or has waited so long for automata that others use.
class CompileTimeLimit {
 public:
  using Clock = std::chrono::steady_clock;

  CompileTimeLimit(std::chrono::milliseconds most_worked, std::chrono::milliseconds most_waited);
  ~CompileTimeLimit();
  CompileTimeLimit(const CompileTimeLimit&) = delete;
  CompileTimeLimit& operator=(const CompileTimeLimit&) = delete;

  /// Whether it was waiting that ended it.
  bool waited_too_long() const { return waited_too_long_; }

  /// By what compiles, again and again.
  static void check();

  /// Time in which this thread waits for others while it lives.
  class Wait {
   public:
    Wait() = default;
    ~Wait();
    Wait(const Wait&) = delete;
    Wait& operator=(const Wait&) = delete;

   private:
    Clock::time_point begin_ = Clock::now();
  };

 private:
  std::chrono::milliseconds most_worked_, most_waited_;
  Clock::time_point until_;
  Clock::duration waited_{0};
  bool waited_too_long_ = false;
  CompileTimeLimit* outer_;
};

}  // namespace ingot::grammar
