#pragma once

// Functions of one instruction. Kernels that are compiled at run time begin with this text
// (runtime/embedded.h).
namespace ingot::kernels::cuda {

/// 2^x, to 2 units in the last place; 0 of -infinity and where it is below 2^-126.
__device__ __forceinline__ float fast_exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
/// 1 / x, to 1 unit in the last place; 0 where |x| is above 2^126.
__device__ __forceinline__ float fast_reciprocal(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
/// The root of x, to 1 unit in the last place; 0 where x is below 2^-126.
__device__ __forceinline__ float fast_sqrt(float x) {
  float y;
  asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

}  // namespace ingot::kernels::cuda
