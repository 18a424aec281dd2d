#pragma once

#include <cmath>

namespace ingot::kernels::cuda {

inline float fast_exp2(float x) { return std::exp2(x); }
inline float fast_reciprocal(float x) { return 1.0F / x; }
inline float fast_sqrt(float x) { return std::sqrt(x); }

}  // namespace ingot::kernels::cuda
