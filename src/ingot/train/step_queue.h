#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "ingot/core/transfer.h"

namespace ingot {

/// Steps that were put into a device's stream and whose metrics the host has not looked at. On a device that
/// works beside the host the next step is in the stream before the metrics of this one are read.
class StepQueue {
 public:
  explicit StepQueue(Device device);

  /// How many steps may run while the host goes on: 1, or 0 where the host itself computes.
  std::int64_t most_running() const { return most_running_; }
  std::int64_t running() const { return pushed_ - popped_; }
  /// Puts a copy of a step's metrics, one f32 vector that always has the same size, into the stream. At most
  /// most_running() + 1 steps run at once.
  void push(const Tensor& metrics);
  /// The metrics of the earliest step that runs, until the next push(). Waits for them, not for later work.
  std::span<const float> pop();

 private:
  static constexpr std::int64_t kSlots = 2;
  Download& slot(std::int64_t step) { return *downloads_[static_cast<std::size_t>(step % kSlots)]; }

  Device device_;
  std::int64_t most_running_;
  std::array<std::optional<Download>, kSlots> downloads_;
  std::int64_t pushed_ = 0, popped_ = 0;
};

}  // namespace ingot
