#pragma once

#include <cstdint>

#include "ingot/core/dtype.h"

namespace ingot::kernels::cpu {

/// Whether load_floats and store_floats know the dtype: f32, bf16, f16.
constexpr bool is_simd_float(DType dtype) { return dtype == DType::f32 || is_half_precision(dtype); }

/// Calls f.operator()<T>() with the C++ type of such a dtype.
template <class F>
void dispatch_simd_float(DType dtype, F&& f) {
  if (dtype == DType::f32) return f.template operator()<float>();
  if (dtype == DType::bf16) return f.template operator()<bf16>();
  f.template operator()<f16>();
}

/// to[i] = from[i·stride] as f32, for n elements of `dtype`.
void load_floats(const void* from, DType dtype, std::int64_t stride, std::int64_t n, float* to);
/// to[i·stride] = from[i], rounded to nearest even.
void store_floats(const float* from, std::int64_t n, void* to, DType dtype, std::int64_t stride);

}  // namespace ingot::kernels::cpu
