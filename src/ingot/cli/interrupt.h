#pragma once

namespace ingot::cli {

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
