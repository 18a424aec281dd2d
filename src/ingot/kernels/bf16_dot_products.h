#pragma once

#include <optional>

namespace ingot::kernels {

/// Whether large CPU matmuls of bf16 take the processor's dot products of bf16 (AVX512-BF16, AMX), rather
/// than FMAs of f32 on widened operands. Where a processor has them they may still be slower: a Xeon of the
/// fourth generation whose AMX is hidden reaches 165 GFLOP/s with them and 290 without. So the first call
/// measures both, within milliseconds, and takes f32 where that is clearly faster.
bool use_bf16_dot_products();

/// Sets what use_bf16_dot_products() says, for all threads; nullopt: as measured, or as
/// INGOT_BF16_DOT_PRODUCTS says.
void set_bf16_dot_products(std::optional<bool> use);

}  // namespace ingot::kernels
