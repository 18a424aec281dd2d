#pragma once

#include <chrono>

namespace ingot::grammar {

/// While it lives, compiling a grammar on this thread ends with InvalidConfig once so long has passed.
class CompileTimeLimit {
 public:
  explicit CompileTimeLimit(std::chrono::milliseconds most);
  ~CompileTimeLimit();
  CompileTimeLimit(const CompileTimeLimit&) = delete;
  CompileTimeLimit& operator=(const CompileTimeLimit&) = delete;

  /// By what compiles, again and again.
  static void check();

 private:
  std::chrono::milliseconds most_;
  std::chrono::steady_clock::time_point until_;
  CompileTimeLimit* outer_;
};

}  // namespace ingot::grammar
