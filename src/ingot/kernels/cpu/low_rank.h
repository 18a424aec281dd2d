#pragma once

namespace ingot::kernels::cpu {

// Of reference/low_rank.cpp and simd/low_rank.cpp.
void register_low_rank_simd();
void register_low_rank_reference();

}  // namespace ingot::kernels::cpu
