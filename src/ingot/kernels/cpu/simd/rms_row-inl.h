// RMS norm of one row, and its gradients. Included once per Highway target.
#if defined(INGOT_RMS_ROW_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef INGOT_RMS_ROW_INL_H
#undef INGOT_RMS_ROW_INL_H
#else
#define INGOT_RMS_ROW_INL_H
#endif

#include <cmath>
#include <cstdint>

#include <hwy/highway.h>

#include "ingot/kernels/cpu/simd/lanes-inl.h"
#include "ingot/kernels/cpu/simd/loops-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ingot::kernels::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class T>
HWY_INLINE float rms_rstd(const T* x, std::int64_t n, float eps) {
  const float squares = sum_vectors(n, [&](auto d, std::int64_t i, auto sum) {
    const auto v = load_lanes(d, x + i);
    return hn::MulAdd(v, v, sum);
  });
  return 1.0F / std::sqrt(squares / static_cast<float>(n) + eps);
}

template <class T>
HWY_INLINE void rms_scale(const T* x, const T* w, std::int64_t n, float rstd, float weight_offset, T* y) {
  for_vectors(n, [&](auto d, std::int64_t i) {
    const auto weight = hn::Add(hn::Set(d, weight_offset), load_lanes(d, w + i));
    store_lanes(d, hn::Mul(hn::Mul(load_lanes(d, x + i), hn::Set(d, rstd)), weight), y + i);
  });
}

// Gradient: what `dy` is stored as.
template <class T, class Gradient = T>
struct RmsRow {
  const T *x, *weight;
  const Gradient* dy;
  T* dx;  // or null
  std::int64_t n;
  float rstd, weight_offset;
  bool accumulate;  // to dx
};

// Adds this row's share to `dw` unless that is null.
template <class T, class Gradient>
HWY_INLINE void rms_row_backward(const RmsRow<T, Gradient>& row, float* dw) {
  const auto weighted = [&](auto d, std::int64_t i) {
    return hn::Mul(hn::Add(hn::Set(d, row.weight_offset), load_lanes(d, row.weight + i)),
                   load_lanes(d, row.dy + i));
  };
  const float dot = sum_vectors(row.n, [&](auto d, std::int64_t i, auto sum) {
    return hn::MulAdd(weighted(d, i), load_lanes(d, row.x + i), sum);
  });
  const float mean = dot * row.rstd / static_cast<float>(row.n);
  for_vectors(row.n, [&](auto d, std::int64_t i) {
    const auto hat = hn::Mul(load_lanes(d, row.x + i), hn::Set(d, row.rstd));
    if (row.dx != nullptr) {
      const auto out = hn::Mul(hn::Set(d, row.rstd), hn::NegMulAdd(hat, hn::Set(d, mean), weighted(d, i)));
      store_lanes(d, out, row.dx + i, row.accumulate);
    }
    if (dw != nullptr)
      hn::StoreU(hn::MulAdd(load_lanes(d, row.dy + i), hat, hn::LoadU(d, dw + i)), d, dw + i);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace ingot::kernels::cpu
HWY_AFTER_NAMESPACE();
#endif
