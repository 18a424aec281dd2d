// Loops over contiguous floats, whole registers first and then single elements, so that a kernel writes its
// body once. Included once per SIMD target, so no #pragma once.
#if defined(INGOT_LOOPS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef INGOT_LOOPS_INL_H_
#undef INGOT_LOOPS_INL_H_
#else
#define INGOT_LOOPS_INL_H_
#endif

#include <cstdint>

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace ingot::kernels::cpu {
namespace HWY_NAMESPACE {

// body(tag, i) for each whole register of [0, n), then for single elements.
template <class Body>
HWY_INLINE void for_vectors(std::int64_t n, Body&& body) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) body(d, i);
  for (; i < n; ++i) body(hn::CappedTag<float, 1>(), i);
}

// A sum over [0, n) in a fixed order: body(tag, i, sum) gives `sum` plus the terms of one register. Four
// sums, so that additions overlap.
template <class Body>
HWY_INLINE float sum_vectors(std::int64_t n, Body&& body) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  auto s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
  std::int64_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    s0 = body(d, i, s0);
    s1 = body(d, i + lanes, s1);
    s2 = body(d, i + 2 * lanes, s2);
    s3 = body(d, i + 3 * lanes, s3);
  }
  for (; i + lanes <= n; i += lanes) s0 = body(d, i, s0);
  float sum = hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(s0, s1), hn::Add(s2, s3))));
  const hn::CappedTag<float, 1> one;
  for (; i < n; ++i) sum = hn::GetLane(body(one, i, hn::Set(one, sum)));
  return sum;
}

}  // namespace HWY_NAMESPACE
}  // namespace ingot::kernels::cpu
HWY_AFTER_NAMESPACE();
#endif
