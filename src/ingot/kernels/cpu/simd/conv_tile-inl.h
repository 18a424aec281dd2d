// Register tiles of the convolutions: up to 12 × 32 results in registers, weights in panels of 32 columns.
// Included once per Highway target.
#if defined(INGOT_CONV_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef INGOT_CONV_TILE_INL_H_
#undef INGOT_CONV_TILE_INL_H_
#else
#define INGOT_CONV_TILE_INL_H_
#endif

#include <algorithm>
#include <cstdint>

#include <hwy/highway.h>

#include "ingot/kernels/conv.h"

HWY_BEFORE_NAMESPACE();
namespace ingot::kernels::cpu {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;

constexpr int kMaxRows = HWY_MAX_BYTES >= 64 ? 12 : 6;  // of 32 or 16 registers; two columns of registers

// Writes (or adds) a register tile; `cols` of the 2 · lanes columns exist.
template <int R>
HWY_INLINE void store_tile(const hn::Vec<D>* acc0, const hn::Vec<D>* acc1, float* c, std::int64_t cs,
                           std::int64_t cols, const float* bias, bool add) {
  const D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  if (cols >= 2 * lanes) {
    const auto bias0 = bias != nullptr ? hn::LoadU(d, bias) : hn::Zero(d);
    const auto bias1 = bias != nullptr ? hn::LoadU(d, bias + lanes) : hn::Zero(d);
#pragma GCC unroll 12
    for (int i = 0; i < R; ++i) {
      float* row = c + i * cs;
      const auto base0 = add ? hn::LoadU(d, row) : bias0;
      const auto base1 = add ? hn::LoadU(d, row + lanes) : bias1;
      hn::StoreU(hn::Add(acc0[i], base0), d, row);
      hn::StoreU(hn::Add(acc1[i], base1), d, row + lanes);
    }
    return;
  }
  HWY_ALIGN float edge[2 * HWY_MAX_BYTES / sizeof(float)];
#pragma GCC unroll 12
  for (int i = 0; i < R; ++i) {
    hn::Store(acc0[i], d, edge);
    hn::Store(acc1[i], d, edge + lanes);
    for (std::int64_t j = 0; j < cols; ++j) {
      c[i * cs + j] = edge[j] + (add ? c[i * cs + j] : (bias != nullptr ? bias[j] : 0.0F));
    }
  }
}

// c[i, :] = Σ_k a[i·as + k] · b[k, :] for R rows and `cols` ≤ 32 columns. On the way it asks for the data at
// `ahead`, `ahead_step` floats per k: what the calling thread needs next.
template <int R>
HWY_NOINLINE void product_tile(const float* a, std::int64_t as, const float* b, std::int64_t k, float* c,
                               std::int64_t cs, std::int64_t cols, const float* bias, bool add,
                               const float* ahead, std::int64_t ahead_step) {
  const D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (int i = 0; i < R; ++i) {
    __builtin_prefetch(c + i * cs, 1);
    __builtin_prefetch(c + i * cs + kConvPanel / 2, 1);
  }
  for (std::int64_t j = 0; j < cols; j += 2 * lanes) {
    hn::Vec<D> acc0[R], acc1[R];
#pragma GCC unroll 12
    for (int i = 0; i < R; ++i) acc0[i] = acc1[i] = hn::Zero(d);
    // One base pointer for each three rows, hidden from the optimizer, which would otherwise keep a pointer
    // per row and spill them all.
    const float* base[(R + 2) / 3];
#pragma GCC unroll 4
    for (int g = 0; g < (R + 2) / 3; ++g) {
      base[g] = a + 3 * g * as;
      asm("" : "+r"(base[g]));
    }
    const float* panel = b + j;
    for (std::int64_t kk = 0; kk < k; ++kk) {
      const auto b0 = hn::LoadU(d, panel), b1 = hn::LoadU(d, panel + lanes);
      panel += kConvPanel;
      __builtin_prefetch(ahead, 0, 2);
      ahead += ahead_step;
#pragma GCC unroll 12
      for (int i = 0; i < R; ++i) {
        const auto v = hn::Set(d, base[i / 3][(i % 3) * as]);
        acc0[i] = hn::MulAdd(v, b0, acc0[i]);
        acc1[i] = hn::MulAdd(v, b1, acc1[i]);
      }
#pragma GCC unroll 4
      for (int g = 0; g < (R + 2) / 3; ++g) ++base[g];
    }
    store_tile<R>(acc0, acc1, c + j, cs, cols - j, bias != nullptr ? bias + j : nullptr, add);
  }
}

// c[i, :] (+)= Σ_{s,w} a[s, w, i] · b[s, w, :]: `samples` blocks of `rows` rows, `as` apart in `a`; in `b`
// the blocks are `block` rows of 32 apart.
template <int R>
HWY_NOINLINE void outer_tile(const float* a, std::int64_t as, const float* b, std::int64_t samples,
                             std::int64_t rows, std::int64_t block, float* c, std::int64_t cs,
                             std::int64_t cols, bool add) {
  const D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (int i = 0; i < R; ++i) {
    __builtin_prefetch(c + i * cs, 1);
    __builtin_prefetch(c + i * cs + kConvPanel / 2, 1);
  }
  for (std::int64_t j = 0; j < cols; j += 2 * lanes) {
    hn::Vec<D> acc0[R], acc1[R];
#pragma GCC unroll 12
    for (int i = 0; i < R; ++i) acc0[i] = acc1[i] = hn::Zero(d);
    const float* left = a;
    for (std::int64_t s = 0; s < samples; ++s) {
      const float* right = b + s * block * kConvPanel + j;
      for (std::int64_t w = 0; w < rows; ++w) {
        const auto b0 = hn::LoadU(d, right), b1 = hn::LoadU(d, right + lanes);
        right += kConvPanel;
#pragma GCC unroll 12
        for (int i = 0; i < R; ++i) {
          const auto v = hn::Set(d, left[i]);
          acc0[i] = hn::MulAdd(v, b0, acc0[i]);
          acc1[i] = hn::MulAdd(v, b1, acc1[i]);
        }
        left += as;
      }
    }
    store_tile<R>(acc0, acc1, c + j, cs, cols - j, nullptr, add);
  }
}

#define INGOT_FOR_ROWS(rows, call) \
  switch (rows) {                  \
    case 1:                        \
      call(1);                     \
      break;                       \
    case 2:                        \
      call(2);                     \
      break;                       \
    case 3:                        \
      call(3);                     \
      break;                       \
    case 4:                        \
      call(4);                     \
      break;                       \
    case 5:                        \
      call(5);                     \
      break;                       \
    case 6:                        \
      call(6);                     \
      break;                       \
    default:                       \
      break;                       \
  }                                \
  if constexpr (kMaxRows > 6) {    \
    switch (rows) {                \
      case 7:                      \
        call(7);                   \
        break;                     \
      case 8:                      \
        call(8);                   \
        break;                     \
      case 9:                      \
        call(9);                   \
        break;                     \
      case 10:                     \
        call(10);                  \
        break;                     \
      case 11:                     \
        call(11);                  \
        break;                     \
      case 12:                     \
        call(12);                  \
        break;                     \
      default:                     \
        break;                     \
    }                              \
  }

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace ingot::kernels::cpu
HWY_AFTER_NAMESPACE();
#endif
