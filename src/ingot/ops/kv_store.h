#pragma once

#include "ingot/core/tensor.h"

namespace ingot {

/// Where keys and values are cached: heads · positions · D of a dtype that kernels::kv_store writes, with the
/// scale of each row where that dtype needs one.
struct KvDestination {
  Tensor keys, values, key_scale, value_scale;
};

/// Writes new keys and values [S, heads, D] into a cache, in one launch; keys alone where it holds no values.
/// `position` (one i32 or i64 on the device) tells where they begin; undefined: at the start of the
/// destination. `caches` (as kernels::kv_store describes it) spreads the rows over several caches. No
/// gradient.
void store_keys_and_values(const Tensor& keys, const Tensor& values, const KvDestination& to,
                           const Tensor& position = {}, const Tensor& caches = {});

}  // namespace ingot
