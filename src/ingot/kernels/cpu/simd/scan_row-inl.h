// One step of one row of a state, of scans and of the delta rule. Included once per SIMD target, so no
// #pragma once.
#if defined(INGOT_SCAN_ROW_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef INGOT_SCAN_ROW_INL_H_
#undef INGOT_SCAN_ROW_INL_H_
#else
#define INGOT_SCAN_ROW_INL_H_
#endif

#include <cstdint>

#include <hwy/highway.h>

#include "ingot/kernels/cpu/simd/loops-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ingot::kernels::cpu {
namespace HWY_NAMESPACE {

// to = decay · row + x · keys, and its product with queries. `to` may be row.
HWY_INLINE float scan_row(float* to, const float* row, float decay, float x, const float* keys,
                          const float* queries, std::int64_t width) {
  namespace hn = hwy::HWY_NAMESPACE;
  return sum_vectors(width, [&](auto d, std::int64_t n, auto sum) HWY_ATTR {
    const auto s =
        hn::MulAdd(hn::Set(d, x), hn::LoadU(d, keys + n), hn::Mul(hn::Set(d, decay), hn::LoadU(d, row + n)));
    hn::StoreU(s, d, to + n);
    return hn::MulAdd(s, hn::LoadU(d, queries + n), sum);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace ingot::kernels::cpu
HWY_AFTER_NAMESPACE();
#endif
