#pragma once

#include "ingot/kernels/cpu/x86/panel.h"
#include "ingot/kernels/quantized.h"

// What the instruction sets' files (avx2.cpp, avx512.cpp, avx512_vnni.cpp, amx.cpp) share. Each compiles
// quantized-inl.h, the one source of the kernels, with its own vectors.
namespace ingot::kernels::cpu {

/// y = x · panelsᵀ for some rows of x and one or two panels, one behind the other, of 16 rows of the weight.
struct PanelMatmul {
  const std::uint8_t* panel;
  std::int64_t panel_bytes, panels;
  std::int64_t steps;     ///< of each panel that count, from `panel` on
  const std::uint8_t* x;  ///< ActivationBlocks of the first row
  std::int64_t x_stride;  ///< bytes
  float* y;
  std::int64_t y_stride;  ///< floats
  std::int64_t cols;      ///< columns of y that exist, up to 16 · panels
  const float* bias;      ///< null: none
  bool add;               ///< of two panels: y holds the sums of the columns before these
  bool next;              ///< what is behind these panels in memory is wanted after them
};

/// Computes `rows` rows of x, any number.
using PanelKernel = void (*)(const PanelMatmul& matmul, std::int64_t rows);

/// y = x · panelsᵀ for some rows of x and `panels` panels, one behind the other, of a weight in w8a8, or of
/// the int16 codes that requantized-inl.h makes.
struct RowScaledMatmul {
  const std::uint8_t* panel;
  std::int64_t panel_bytes, panels;
  const std::uint8_t* x;  ///< the first row, an ActivationRow and its codes or an ActivationSpan
  std::int64_t x_stride;  ///< bytes
  float* y;
  std::int64_t y_stride;     ///< floats
  std::int64_t cols;         ///< columns of y that exist, up to 16 · panels
  const float* bias;         ///< null: none
  bool add;                  ///< to what y holds, the columns before these, instead of the bias
  std::int64_t ahead_lines;  ///< cache lines behind the panels that are wanted after them
};

/// For one instruction set: computes any number of rows, and up to `panels` panels.
struct RowScaledKernel {
  void (*run)(const RowScaledMatmul& matmul, std::int64_t rows);
  std::int64_t panels;
};
void multiply_row_scaled(const RowScaledMatmulArgs& args, const RowScaledKernel& kernel);

/// The same for a weight of another format, which is rounded anew span by span (quantized_matmul).
struct RequantizedMatmul {
  RowScaledMatmul matmul;    ///< with the panels as they are, x at the first span, and no lines ahead
  std::int64_t span_stride;  ///< bytes from a span of x to the next
  std::int64_t blocks;       ///< of 32 columns, in each panel
};

/// For one instruction set and format, as a RowScaledKernel; `run` is null for the formats of other kernels.
struct RequantizedKernel {
  void (*run)(const RequantizedMatmul& matmul, std::int64_t rows);
  std::int64_t panels;
};
void multiply_requantized(const QuantizedMatmulArgs& args, const RequantizedKernel& kernel);

/// AVX-512 with VNNI's, for what is left over beside AMX's tiles; null for the formats of other kernels.
PanelKernel vnni_panel_kernel(PackedFormat format);

/// Walks over rows and panels so that activations stay in L2 and panels in L1, on all threads.
void multiply_panels(const QuantizedMatmulArgs& args, PanelKernel kernel);

}  // namespace ingot::kernels::cpu
