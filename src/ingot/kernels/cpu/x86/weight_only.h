#pragma once

#include "ingot/kernels/cpu/x86/panel.h"
#include "ingot/kernels/weight_only.h"

// What weight_only_avx2.cpp and weight_only_avx512.cpp share. Each compiles weight_only-inl.h, the one source
// of the kernels, with its own vectors.
namespace ingot::kernels::cpu {

/// y = x · panelsᵀ for some rows of x and one panel, of f32 up to eight that lie one behind the other, of 16
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
  const std::uint8_t*
      next;  ///< f32 only: as many panels, from these columns on, are wanted after these; or null
};

/// Rows of x with which f32 matmuls wait for the panels, not for the sums.
inline constexpr std::int64_t kFewFloatRows = 4;
/// Rows of x that the registers hold at once with vectors of so many lanes, 16 or 8.
constexpr std::int64_t f32_tile_rows(std::int64_t lanes) { return lanes == 16 ? 12 : 6; }
/// Panels of f32 that are multiplied at once with so many rows: enough sums that no multiply-add waits for
/// the one before.
constexpr std::int64_t f32_panels(std::int64_t lanes, std::int64_t rows) {
  if (rows == 1) return 4;
  return lanes == 16 || rows == 2 ? 2 : 1;
}

/// Computes `rows` rows of x, any number.
using FloatPanelKernel = void (*)(const FloatPanelMatmul& matmul, std::int64_t rows);

/// Walks over rows and panels on all threads: of f32 so that activations stay in L1 and panels in L2, of
/// shorter floats the other way round.
void multiply_f32_panels(const WeightOnlyMatmulArgs& args, std::int64_t lanes, FloatPanelKernel kernel);
void multiply_float_panels(const WeightOnlyMatmulArgs& args, FloatPanelKernel kernel);

}  // namespace ingot::kernels::cpu
