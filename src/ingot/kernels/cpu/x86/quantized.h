#pragma once

#include "ingot/kernels/quantized.h"

// What the instruction sets' files (avx2.cpp, avx512.cpp, avx512_vnni.cpp, amx.cpp) share. Each compiles
// quantized-inl.h, the one text of the kernels, with its own vectors.
namespace ingot::kernels::cpu {

/// y = x · panelᵀ for some rows of x and one panel of 16 rows of the weight.
struct PanelProduct {
  const std::uint8_t* panel;
  std::int64_t steps;
  const std::uint8_t* x;  ///< ActivationBlocks of the first row
  std::int64_t x_stride;  ///< bytes
  float* y;
  std::int64_t y_stride;  ///< floats
  std::int64_t cols;      ///< columns of y that exist, up to 16
  const float* bias;      ///< null: none
  bool next;              ///< the panel behind this one in memory is wanted after it
};

/// Computes `rows` rows of x, any number.
using PanelKernel = void (*)(const PanelProduct& product, std::int64_t rows);

/// AVX-512 with VNNI's, for what is left over beside AMX's tiles; null for the formats of weight_only_matmul.
PanelKernel vnni_panel_kernel(PackedFormat format);

/// Walks over rows and panels so that activations stay in L2 and panels in L1, on all threads.
void multiply_panels(const QuantizedMatmulArgs& args, PanelKernel kernel);

}  // namespace ingot::kernels::cpu
