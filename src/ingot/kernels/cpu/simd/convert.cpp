#include "ingot/kernels/cpu/simd/convert.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ingot/kernels/cpu/simd/convert.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ingot/kernels/cpu/simd/lanes-inl.h"
#include "ingot/kernels/cpu/simd/loops-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ingot::kernels::cpu {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

template <class T>
void load_all(const T* from, std::int64_t n, float* to) {
  for_vectors(n, [&](auto d, std::int64_t i) { hn::StoreU(load_lanes(d, from + i), d, to + i); });
}

template <class T>
void store_all(const float* from, std::int64_t n, T* to) {
  for_vectors(n, [&](auto d, std::int64_t i) { store_lanes(d, hn::LoadU(d, from + i), to + i); });
}

void load_halves(const std::uint16_t* from, DType dtype, std::int64_t n, float* to) {
  if (dtype == DType::bf16) return load_all(reinterpret_cast<const bf16*>(from), n, to);
  load_all(reinterpret_cast<const f16*>(from), n, to);
}

void store_halves(const float* from, std::int64_t n, std::uint16_t* to, DType dtype) {
  if (dtype == DType::bf16) return store_all(from, n, reinterpret_cast<bf16*>(to));
  store_all(from, n, reinterpret_cast<f16*>(to));
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace ingot::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ingot::kernels::cpu {
namespace {
HWY_EXPORT(load_halves);
HWY_EXPORT(store_halves);

constexpr std::int64_t kChunk = 256;  // strided elements gathered at a time: 512 bytes of stack

}  // namespace

void load_floats(const void* from, DType dtype, std::int64_t stride, std::int64_t n, float* to) {
  if (dtype == DType::f32) {
    const auto* x = static_cast<const float*>(from);
    if (stride == 1) {
      std::copy_n(x, n, to);
    } else {
      for (std::int64_t i = 0; i < n; ++i) to[i] = x[i * stride];
    }
    return;
  }
  const auto* x = static_cast<const std::uint16_t*>(from);
  if (stride == 1) return HWY_DYNAMIC_DISPATCH(load_halves)(x, dtype, n, to);
  std::uint16_t chunk[kChunk];
  for (std::int64_t start = 0; start < n; start += kChunk) {
    const std::int64_t size = std::min(kChunk, n - start);
    for (std::int64_t i = 0; i < size; ++i) chunk[i] = x[(start + i) * stride];
    HWY_DYNAMIC_DISPATCH(load_halves)(chunk, dtype, size, to + start);
  }
}

void store_floats(const float* from, std::int64_t n, void* to, DType dtype, std::int64_t stride) {
  if (dtype == DType::f32) {
    auto* y = static_cast<float*>(to);
    if (stride == 1) {
      std::copy_n(from, n, y);
    } else {
      for (std::int64_t i = 0; i < n; ++i) y[i * stride] = from[i];
    }
    return;
  }
  auto* y = static_cast<std::uint16_t*>(to);
  if (stride == 1) return HWY_DYNAMIC_DISPATCH(store_halves)(from, n, y, dtype);
  std::uint16_t chunk[kChunk];
  for (std::int64_t start = 0; start < n; start += kChunk) {
    const std::int64_t size = std::min(kChunk, n - start);
    HWY_DYNAMIC_DISPATCH(store_halves)(from + start, size, chunk, dtype);
    for (std::int64_t i = 0; i < size; ++i) y[(start + i) * stride] = chunk[i];
  }
}

}  // namespace ingot::kernels::cpu
#endif  // HWY_ONCE
