// RoPE of one head. Included once per Highway target.
#if defined(INGOT_ROPE_HEAD_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef INGOT_ROPE_HEAD_INL_H
#undef INGOT_ROPE_HEAD_INL_H
#else
#define INGOT_ROPE_HEAD_INL_H
#endif

#include <cstdint>
#include <utility>

#include <hwy/highway.h>

#include "ingot/kernels/cpu/simd/lanes-inl.h"
#include "ingot/kernels/rope.h"

HWY_BEFORE_NAMESPACE();
namespace ingot::kernels::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// What all heads of a token have in common.
struct Rotation {
  const float *cos, *sin;  // of the token's position
  std::int64_t half;
  bool interleaved, inverse, accumulate;
};

inline Rotation rotation_of(const RopeAngles& angles, std::int64_t position, bool inverse, bool accumulate) {
  const std::int64_t half = angles.cos.dim(1);
  return {.cos = angles.cos.as<float>() + position * half,
          .sin = angles.sin.as<float>() + position * half,
          .half = half,
          .interleaved = angles.interleaved,
          .inverse = inverse,
          .accumulate = accumulate};
}

template <class T>
HWY_INLINE void put(float value, T* y, bool accumulate) {
  *y = static_cast<T>(accumulate ? value + static_cast<float>(*y) : value);
}

// A pair of vectors rotated.
template <class Tag>
HWY_INLINE auto rotate_lanes(Tag d, hn::Vec<Tag> u, hn::Vec<Tag> v, const float* cos, const float* sin,
                             hn::Vec<Tag> signs) {
  const auto c = hn::LoadU(d, cos), w = hn::Mul(signs, hn::LoadU(d, sin));
  return std::pair(hn::NegMulAdd(v, w, hn::Mul(u, c)), hn::MulAdd(u, w, hn::Mul(v, c)));
}

template <class T>
HWY_INLINE void rotate_head(const T* x, T* y, const Rotation& rotation) {
  const D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const std::int64_t half = rotation.half;
  const float sign = rotation.inverse ? -1.0F : 1.0F;
  const auto signs = hn::Set(d, sign);
  std::int64_t i = 0;
  for (; !rotation.interleaved && i + lanes <= half; i += lanes) {
    const auto [first, second] = rotate_lanes(d, load_lanes(d, x + i), load_lanes(d, x + half + i),
                                              rotation.cos + i, rotation.sin + i, signs);
    store_lanes(d, first, y + i, rotation.accumulate);
    store_lanes(d, second, y + half + i, rotation.accumulate);
  }
  for (; i < half; ++i) {
    const std::int64_t first = rotation.interleaved ? 2 * i : i,
                       second = rotation.interleaved ? 2 * i + 1 : i + half;
    const float u = static_cast<float>(x[first]), v = static_cast<float>(x[second]),
                w = sign * rotation.sin[i];
    put(u * rotation.cos[i] - v * w, y + first, rotation.accumulate);
    put(v * rotation.cos[i] + u * w, y + second, rotation.accumulate);
  }
}

template <class T>
HWY_INLINE void copy_elements(const T* x, T* y, std::int64_t begin, std::int64_t end, bool accumulate) {
  const D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t i = begin;
  for (; i + lanes <= end; i += lanes) store_lanes(d, load_lanes(d, x + i), y + i, accumulate);
  for (; i < end; ++i) put(static_cast<float>(x[i]), y + i, accumulate);
}

}  // namespace HWY_NAMESPACE
}  // namespace ingot::kernels::cpu
HWY_AFTER_NAMESPACE();
#endif
