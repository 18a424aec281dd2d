#pragma once

#include <cstdint>

#include "ingot/base/rng.h"
#include "ingot/core/tensor.h"

namespace ingot {

/// Where a thread's default generator stands. Op number `calls` since the state was set draws from the stream
/// mix_stream(stream, calls), so restoring a state replays the same numbers: a block that is run again for
/// its backward pass saves random_state() before the first run and opens a RandomScope with it for the
/// second.
struct RandomState {
  std::uint64_t seed = 0;
  std::uint64_t stream = 0;  ///< of the position: a training step, a layer, a data loader
  std::uint64_t calls = 0;
};

RandomState random_state();
void set_random_state(const RandomState& state);
/// The next key of this thread's generator.
RngKey next_random_key();

/// Sets this thread's generator for a scope; what it was before continues after.
class RandomScope {
 public:
  explicit RandomScope(const RandomState& state);
  RandomScope(std::uint64_t seed, std::uint64_t stream) : RandomScope(RandomState{seed, stream, 0}) {}
  ~RandomScope();
  RandomScope(const RandomScope&) = delete;
  RandomScope& operator=(const RandomScope&) = delete;

 private:
  RandomState previous_;
};

/// Zeroes each element with probability p and scales the rest by 1/(1 - p) (Srivastava et al. 2014). The mask
/// is a function of the key and the element's position; backward computes it again. p in [0, 1); p = 0 is x
/// itself and draws no key.
Tensor dropout(const Tensor& x, double p, RngKey key);
Tensor dropout(const Tensor& x, double p);

/// In place, on a contiguous tensor: uniform in [low, high), or normal. Bits depend on the key alone, not on
/// threads.
void uniform_(const Tensor& y, double low, double high, RngKey key);
void normal_(const Tensor& y, double mean, double deviation, RngKey key);

}  // namespace ingot
