#pragma once

#include "ingot/kernels/attention.h"
#include "ingot/kernels/kernel.h"

namespace ingot::kernels {

/// Writes keys or values into a cache: y[h, i] = x[i, h], rounded to the cache's dtype. x: [n, heads, d] f32,
/// on a GPU also bf16 or f16, adjacent last axis; y: [heads, n, d] f32, bf16, f16 or i8, adjacent last axis.
/// An i8 cache takes one scale per row (f32 [heads, n], adjacent positions) and rounds by the rules of
/// quantize_activations.
/// With `position` (i32 [1], on the device) y is the whole cache [heads, capacity, d], with scale [heads,
/// capacity], and rows go to y[h, position + i], so that a captured launch writes where the text ends by
/// then; rows that would lie outside of the cache are not written.
struct KvStoreArgs {
  View x, y;
  View scale{};
  View position{};
  /// Only on a GPU: many caches at once, as CacheEntries, u8 [B, sizeof(CacheEntry)]. Row i goes to the keys,
  /// or the `values`, of entry i / (n / B), of which position is i32 [B]; y tells their dtype.
  View caches{};
  bool values = false;
};
inline Kernel<KvStoreArgs> kv_store("kv_store");

}  // namespace ingot::kernels
