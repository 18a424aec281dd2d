#pragma once

#include "ingot/kernels/cpu/x86/panel.h"
#include "ingot/kernels/weight_only.h"

// What weight_only_avx2.cpp and weight_only_avx512.cpp share. Each compiles weight_only-inl.h, the one source
// of the kernels, with its own vectors.
namespace ingot::kernels::cpu {

/// y = x · panelsᵀ for some rows of x and one panel, of f32 one or two that lie one behind the other, of 16
/// rows of the weight.
struct FloatPanelMatmul {
  const std::uint8_t* panel;
  std::int64_t panel_bytes, panels;
  const float* x;
  std::int64_t k, x_stride;
  float* y;
  std::int64_t y_stride;
  std::int64_t cols;  ///< columns of y that exist, up to 16 · panels
  const float* bias;  ///< null: none
  bool add;           ///< f32 only: y holds the sums of the columns before these
  bool next;          ///< f32 only: the same columns of the panels behind these are wanted after them
};

/// Computes `rows` rows of x, any number.
using FloatPanelKernel = void (*)(const FloatPanelMatmul& matmul, std::int64_t rows);

/// Walks over rows and panels so that activations stay in L2 and panels in L1, on all threads.
void multiply_f32_panels(const WeightOnlyMatmulArgs& args, FloatPanelKernel kernel);
void multiply_float_panels(const WeightOnlyMatmulArgs& args, FloatPanelKernel kernel);

}  // namespace ingot::kernels::cpu
