#pragma once

// Kernels that are compiled at run time have this text before them (runtime/embedded.h), behind that of
// hardware/approximate.h, and nothing else of ours.
// What ends with a product rounds it by itself: behind it, a compiler must not make one rounding of two. And
// scaled() rounds once wherever it stands: a product that something else needs, too, is not always fused.
#if !defined(__CUDACC_RTC__)
#include "ingot/kernels/cuda/device/device_code.h"
#include "ingot/kernels/cuda/hardware/approximate.h"
#endif

namespace ingot::kernels::cuda {

inline constexpr float kLog2E = 1.44269504F;
inline constexpr float kSqrtHalf = 0.70710678118654752F;
inline constexpr float kInverseSqrtTwoPi = 0.39894228040143268F;
inline constexpr float kInverseSqrtPi = 0.56418958354775629F;
inline constexpr float kGeluCubic = 0.044715F;
inline constexpr float kGeluScale = 0.79788456080286536F;  // sqrt(2 / pi)

/// e^x in two instructions where expf takes eight: to 1e-6 of it for |x| up to 16, 4e-6 for all x. An exact
/// division is worse still: it branches, so that the elements of a vector wait for each other.
__device__ __forceinline__ float fast_exp(float x) { return fast_exp2(__fmul_rn(x, kLog2E)); }
__device__ __forceinline__ float sigmoid(float x) { return fast_reciprocal(1.0F + fast_exp(-x)); }
__device__ __forceinline__ float softplus(float x) { return fmaxf(x, 0.0F) + log1pf(expf(-fabsf(x))); }
__device__ __forceinline__ float sign(float x) { return static_cast<float>((x > 0.0F) - (x < 0.0F)); }
__device__ __forceinline__ float scaled(float x, float alpha, float beta) { return fmaf(alpha, x, beta); }
__device__ __forceinline__ float silu(float x) { return __fmul_rn(x, sigmoid(x)); }
__device__ __forceinline__ float gelu_erf(float x) { return __fmul_rn(0.5F * x, 1.0F + erff(x * kSqrtHalf)); }
__device__ __forceinline__ float gelu_erf_derivative(float s) {
  return 0.5F * (1.0F + erff(s * kSqrtHalf)) + s * fast_exp(-0.5F * s * s) * kInverseSqrtTwoPi;
}
/// 2u, where GELU's approximation takes (1 + tanh u) / 2 = sigmoid(2u).
__device__ __forceinline__ float gelu_argument(float x) {
  return 2.0F * kGeluScale * (x + kGeluCubic * x * x * x);
}
__device__ __forceinline__ float gelu_tanh(float x) { return __fmul_rn(x, sigmoid(gelu_argument(x))); }
__device__ __forceinline__ float gelu_tanh_derivative(float s) {
  const float u = gelu_argument(s), e = fast_exp(-fabsf(u));  // of either sign, so that nothing cancels
  const float larger = fast_reciprocal(1.0F + e), smaller = e * larger;  // sigmoid(|u|), 1 - sigmoid(|u|)
  return (u < 0.0F ? smaller : larger) +
         2.0F * s * smaller * larger * kGeluScale * (1.0F + 3.0F * kGeluCubic * s * s);
}
__device__ __forceinline__ float mish(float x) { return __fmul_rn(x, tanhf(softplus(x))); }
__device__ __forceinline__ float mish_derivative(float x) {
  const float t = tanhf(softplus(x));
  return t + x * sigmoid(x) * (1.0F - t * t);
}
__device__ __forceinline__ float silu_derivative(float x) {
  const float s = sigmoid(x);
  return s * (1.0F + x * (1.0F - s));
}

__device__ __forceinline__ float erf_derivative(float s) {
  return __fmul_rn(2.0F * kInverseSqrtPi, expf(-(s * s)));
}
__device__ __forceinline__ float leaky_relu(float x, float alpha) {
  return x > 0.0F ? x : __fmul_rn(alpha, x);
}
__device__ __forceinline__ float elu(float x, float alpha) {
  return x > 0.0F ? x : __fmul_rn(alpha, expm1f(x));
}
__device__ __forceinline__ float elu_derivative(float s, float alpha) {
  return s > 0.0F ? 1.0F : __fmul_rn(alpha, expf(s));
}
__device__ __forceinline__ float sign_of(float x) { return x > 0.0F ? 1.0F : x < 0.0F ? -1.0F : x; }

}  // namespace ingot::kernels::cuda
