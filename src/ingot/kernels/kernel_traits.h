#pragma once

#include <cstdint>
#include <limits>

#include "ingot/core/device.h"

namespace ingot::kernels {

/// What callers have to know of a device's kernels before they make the operands. The defaults suit a device
/// with threads and memory of its own, such as a GPU; a backend whose kernels differ says so where it
/// registers them.
struct KernelTraits {
  /// Bytes of logits that are at once in losses which make them; 0: a share of the device's memory.
  std::int64_t logits_bytes = 0;
  /// kv_store, and attention over caches, take rows in half precision; else f32 alone.
  bool half_precision_caches = true;
  /// Attention and reductions leave partial results in memory that their caller gives them.
  bool scratch = true;
  /// quantized_linear takes inputs that are rounded to int8 before; else it rounds them itself.
  bool rounded_inputs = false;
  /// A matmul of many rows with the dequantized values is faster than one with the quantized weight.
  bool dequantizes_for_many_rows = true;
  /// low_rank takes int8 adapters beside quantized weights without a loss of speed.
  bool int8_low_rank = false;
  /// Up to how many rows low_rank is faster than two matmuls: of f32, and of half precision.
  std::int64_t low_rank_rows = 32, low_rank_rows_in_half = 32;
  /// gelu_tanh of the argument that gemm_gelu leaves has the bits of gemm_gelu's result. Else it took gelu
  /// before it rounded the argument, or a library did.
  bool repeats_gelu = false;
  /// Elements of a head that attention takes where it has gradients, or no cache.
  std::int64_t widest_head = 256;

  static constexpr std::int64_t kAlways = std::numeric_limits<std::int64_t>::max();
};

const KernelTraits& kernel_traits(Device device);
/// Before the first tensor of that type is made.
void set_kernel_traits(DeviceType type, const KernelTraits& traits);

}  // namespace ingot::kernels
