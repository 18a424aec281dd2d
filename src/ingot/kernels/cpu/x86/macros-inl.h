#pragma once

// HWY_PUSH_ATTRIBUTES("avx2,fma") ... HWY_POP_ATTRIBUTES: functions in between may use those instructions.
#include <hwy/base.h>

#define INGOT_INLINE inline __attribute__((always_inline))
#define INGOT_NOINLINE __attribute__((noinline))
#if defined(__clang__)
#define INGOT_UNROLL_ROWS _Pragma("unroll")
#define INGOT_UNROLL_BY_FOUR _Pragma("unroll 4")
#else
#define INGOT_UNROLL_ROWS _Pragma("GCC unroll 12")
#define INGOT_UNROLL_BY_FOUR _Pragma("GCC unroll 4")
#endif
