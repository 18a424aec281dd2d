#pragma once

#include "ingot/kernels/attention.h"
#include "ingot/kernels/kernel.h"

namespace ingot::kernels {

/// Writes keys or values, or both, into a cache: y[h, i] = x[i, h], rounded to the cache's dtype. x: [n,
/// heads, d] f32, on a GPU also bf16 or f16, adjacent last axis; y: [heads, n, d] f32, bf16, f16 or i8,
/// adjacent last axis. An i8 cache takes one scale per row (f32 [heads, n], adjacent positions) and rounds by
/// the rules of quantize_activations. With `position` (i32 [1], on the device) y is the whole cache [heads,
/// capacity, d], with scale [heads, capacity], and rows go to y[h, position + i], so that a captured launch
/// writes where the sequence ends by then; rows that would lie outside of the cache are not written.
struct KvStoreArgs {
  View x, y;
  View scale{};
  View position{};
  /// A second x with its y and scale, of the sizes and dtypes of the first: values beside keys; or absent.
  View also_x{}, also_y{}, also_scale{};
  /// Only on a GPU: many caches at once, as CacheEntries, u8 [B, sizeof(CacheEntry)]. Row i of x goes to the
  /// keys of entry i / (n / B), of which position is i32 [B], and that of also_x to its values; y and also_y
  /// tell their dtype.
  View caches{};

  /// The second x, y and scale instead of the first.
  KvStoreArgs also() const {
    KvStoreArgs other = *this;
    other.x = also_x;
    other.y = also_y;
    other.scale = also_scale;
    other.also_x = other.also_y = other.also_scale = {};
    return other;
  }
};
inline Kernel<KvStoreArgs> kv_store("kv_store");

}  // namespace ingot::kernels
