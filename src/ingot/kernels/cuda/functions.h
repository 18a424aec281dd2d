#pragma once

#include "ingot/kernels/cuda/device_code.h"

namespace ingot::kernels::cuda {

inline constexpr float kSqrtHalf = 0.70710678118654752F;
inline constexpr float kInverseSqrtTwoPi = 0.39894228040143268F;
inline constexpr float kGeluCubic = 0.044715F;
inline constexpr float kGeluScale = 0.79788456080286536F;  // sqrt(2 / pi)

__device__ __forceinline__ float sigmoid(float x) { return 1.0F / (1.0F + expf(-x)); }
__device__ __forceinline__ float softplus(float x) { return fmaxf(x, 0.0F) + log1pf(expf(-fabsf(x))); }
__device__ __forceinline__ float sign(float x) { return static_cast<float>((x > 0.0F) - (x < 0.0F)); }
__device__ __forceinline__ float gelu_argument(float x) { return kGeluScale * (x + kGeluCubic * x * x * x); }
__device__ __forceinline__ float gelu_tanh(float x) { return 0.5F * x * (1.0F + tanhf(gelu_argument(x))); }
__device__ __forceinline__ float mish(float x) { return x * tanhf(softplus(x)); }
__device__ __forceinline__ float mish_derivative(float x) {
  const float t = tanhf(softplus(x));
  return t + x * sigmoid(x) * (1.0F - t * t);
}
__device__ __forceinline__ float silu_derivative(float x) {
  const float s = sigmoid(x);
  return s * (1.0F + x * (1.0F - s));
}

}  // namespace ingot::kernels::cuda
