#pragma once

#include <vector>

#include "ingot/core/tensor.h"

namespace ingot::benchmark {

/// Bytes per second that all threads, or a GPU, read of a block of memory together: what decoding cannot
/// exceed. Hosts are uneven, so samples are best taken in turn with what they are compared with.
class ReadBandwidth {
 public:
  /// A block of `bytes`, within 1 MB and 1 GB.
  explicit ReadBandwidth(double bytes, Device device = kCpu);
  /// Reads the block three times.
  void sample();
  /// The median of all passes so far.
  double bytes_per_second() const;

 private:
  void pass();
  double seconds_on_device() const;
  Tensor block_;
  std::vector<double> times_;
};

}  // namespace ingot::benchmark
