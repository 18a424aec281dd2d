#include "ingot/kernels/cpu/simd/convert.h"

#include <algorithm>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ingot/kernels/cpu/simd/convert.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ingot/kernels/cpu/simd/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ingot::kernels::cpu {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

// Runs body(i) for whole vectors; the rest goes through padded copies, so that no byte outside is touched.
template <class Vector>
void for_half(const std::uint16_t* from, std::int64_t n, float* to, Vector&& vector) {
  const D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(vector(hn::LoadU(Half(), from + i)), d, to + i);
  if (i == n) return;
  std::uint16_t in[HWY_MAX_BYTES / 4] = {};
  float out[HWY_MAX_BYTES / 4];
  const auto rest = static_cast<std::size_t>(n - i);
  std::memcpy(in, from + i, rest * sizeof(in[0]));
  hn::StoreU(vector(hn::LoadU(Half(), in)), d, out);
  std::memcpy(to + i, out, rest * sizeof(out[0]));
}

template <class Vector>
void to_half(const float* from, std::int64_t n, std::uint16_t* to, Vector&& vector) {
  const D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(vector(hn::LoadU(d, from + i)), Half(), to + i);
  if (i == n) return;
  float in[HWY_MAX_BYTES / 4] = {};
  std::uint16_t out[HWY_MAX_BYTES / 4];
  const auto rest = static_cast<std::size_t>(n - i);
  std::memcpy(in, from + i, rest * sizeof(in[0]));
  hn::StoreU(vector(hn::LoadU(d, in)), Half(), out);
  std::memcpy(to + i, out, rest * sizeof(out[0]));
}

void load_bf16(const std::uint16_t* from, std::int64_t n, float* to) {
  for_half(from, n, to, [](auto v) { return widen_bf16(v); });
}
void store_bf16(const float* from, std::int64_t n, std::uint16_t* to) {
  to_half(from, n, to, [](auto v) { return narrow_bf16(v); });
}
void load_f16(const std::uint16_t* from, std::int64_t n, float* to) {
  for_half(from, n, to, [](auto v) { return widen_f16(v); });
}
void store_f16(const float* from, std::int64_t n, std::uint16_t* to) {
  to_half(from, n, to, [](auto v) { return narrow_f16(v); });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace ingot::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ingot::kernels::cpu {
namespace {
HWY_EXPORT(load_bf16);
HWY_EXPORT(store_bf16);
HWY_EXPORT(load_f16);
HWY_EXPORT(store_f16);

constexpr std::int64_t kChunk = 256;  // strided elements gathered at a time: 512 bytes of stack

void load_halves(const std::uint16_t* from, DType dtype, std::int64_t n, float* to) {
  if (dtype == DType::bf16) {
    HWY_DYNAMIC_DISPATCH(load_bf16)(from, n, to);
  } else {
    HWY_DYNAMIC_DISPATCH(load_f16)(from, n, to);
  }
}

void store_halves(const float* from, std::int64_t n, std::uint16_t* to, DType dtype) {
  if (dtype == DType::bf16) {
    HWY_DYNAMIC_DISPATCH(store_bf16)(from, n, to);
  } else {
    HWY_DYNAMIC_DISPATCH(store_f16)(from, n, to);
  }
}

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
  if (stride == 1) return load_halves(x, dtype, n, to);
  std::uint16_t chunk[kChunk];
  for (std::int64_t start = 0; start < n; start += kChunk) {
    const std::int64_t size = std::min(kChunk, n - start);
    for (std::int64_t i = 0; i < size; ++i) chunk[i] = x[(start + i) * stride];
    load_halves(chunk, dtype, size, to + start);
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
  if (stride == 1) return store_halves(from, n, y, dtype);
  std::uint16_t chunk[kChunk];
  for (std::int64_t start = 0; start < n; start += kChunk) {
    const std::int64_t size = std::min(kChunk, n - start);
    store_halves(from + start, size, chunk, dtype);
    for (std::int64_t i = 0; i < size; ++i) y[(start + i) * stride] = chunk[i];
  }
}

}  // namespace ingot::kernels::cpu
#endif  // HWY_ONCE
