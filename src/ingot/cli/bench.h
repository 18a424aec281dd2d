#pragma once

#include <vector>

#include "ingot/cli/command.h"
#include "ingot/core/tensor.h"

namespace ingot::cli {

/// `ingot bench decode`, `prefill` and `matmul`.
void add_bench_inference(Command& bench);
void add_bench_policy(Command& bench);
/// `ingot bench selfplay`.
void add_bench_selfplay(Command& bench);
void add_bench_matmul(Command& bench);
/// `ingot bench kernels`.
void add_bench_kernels(Command& bench);
/// `ingot bench products`.
void add_bench_products(Command& bench);
/// `ingot bench serve`.
void add_bench_serve(Command& bench);

/// Of a clock that only goes forward.
double seconds();
/// Bytes per second that all threads, or a card, read of a block of memory together: what decoding cannot
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
  double seconds_on_card() const;
  Tensor block_;
  std::vector<double> times_;
};

}  // namespace ingot::cli
