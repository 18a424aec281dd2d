#pragma once

namespace ingot::cli {

/// The exit code of work that Ctrl-C ended in order: that of a program which the signal killed (128 +
/// SIGINT).
constexpr int kInterrupted = 130;

/// While one lives, the first Ctrl-C is only noted, so that work may end in order; the second one ends the
/// process. One at a time.
class InterruptWatch {
 public:
  InterruptWatch();
  ~InterruptWatch();
  InterruptWatch(const InterruptWatch&) = delete;
  InterruptWatch& operator=(const InterruptWatch&) = delete;
};

/// Whether Ctrl-C came since the latest InterruptWatch was made.
bool interrupted();

}  // namespace ingot::cli
