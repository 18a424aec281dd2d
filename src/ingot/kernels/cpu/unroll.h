#pragma once

/// Before a loop over the accumulators of a register block (at most 8 iterations): unrolled whole, so that
/// they live in registers. GCC leaves such loops, and arrays in memory, at -O2.
#if defined(__clang__)
#define INGOT_UNROLL _Pragma("unroll")
#else
#define INGOT_UNROLL _Pragma("GCC unroll 8")
#endif
