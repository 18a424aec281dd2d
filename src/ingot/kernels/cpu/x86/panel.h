#pragma once

#include <algorithm>
#include <cstdint>

#include "ingot/kernels/cpu/x86/macros-inl.h"
#include "ingot/kernels/quantized.h"

namespace ingot::kernels::cpu {

/// One of the panels of a matmul with several: a PanelMatmul or a FloatPanelMatmul. Inlined, so that it
/// takes the instruction set of its caller.
template <class Matmul>
INGOT_INLINE Matmul panel_of(const Matmul& p, std::int64_t panel) {
  Matmul one = p;
  one.panel += panel * p.panel_bytes;
  one.panels = 1;
  one.y += panel * kPanelRows;
  one.cols = std::min(p.cols - panel * kPanelRows, kPanelRows);
  if (one.bias != nullptr) one.bias += panel * kPanelRows;
  return one;
}

}  // namespace ingot::kernels::cpu
