// The gated delta rule of a chunk of steps as matmuls (the WY representation: Yang, Kautz and Hatamizadeh
// 2024, arXiv:2412.06464, 3.3). Included once per SIMD target, so no #pragma once.
#if defined(INGOT_DELTA_CHUNK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef INGOT_DELTA_CHUNK_INL_H_
#undef INGOT_DELTA_CHUNK_INL_H_
#else
#define INGOT_DELTA_CHUNK_INL_H_
#endif

#include <algorithm>
#include <cmath>
#include <cstdint>

#include <hwy/highway.h>

#include "ingot/kernels/cpu/delta_chunk.h"
#include "ingot/kernels/cpu/simd/attention-inl.h"
#include "ingot/kernels/cpu/simd/loops-inl.h"
#include "ingot/kernels/cpu/simd/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ingot::kernels::cpu {
namespace HWY_NAMESPACE {
namespace {

HWY_INLINE void add_scaled(float* to, const float* from, float factor, std::int64_t n) {
  namespace hn = hwy::HWY_NAMESPACE;
  for_vectors(n, [&](auto d, std::int64_t i) HWY_ATTR {
    hn::StoreU(hn::MulAdd(hn::Set(d, factor), hn::LoadU(d, from + i), hn::LoadU(d, to + i)), d, to + i);
  });
}

// to may be from.
HWY_INLINE void scale_row(float* to, const float* from, float factor, std::int64_t n) {
  namespace hn = hwy::HWY_NAMESPACE;
  for_vectors(n, [&](auto d, std::int64_t i) HWY_ATTR {
    hn::StoreU(hn::Mul(hn::Set(d, factor), hn::LoadU(d, from + i)), d, to + i);
  });
}

HWY_INLINE float dot_row(const float* a, const float* b, std::int64_t n) {
  namespace hn = hwy::HWY_NAMESPACE;
  return sum_vectors(n, [&](auto d, std::int64_t i, auto sum)
                            HWY_ATTR { return hn::MulAdd(hn::LoadU(d, a + i), hn::LoadU(d, b + i), sum); });
}

// f(begin, end) for blocks of rows of the micro-kernel.
template <class F>
HWY_INLINE void for_row_blocks(std::int64_t rows, F&& f) {
  for (std::int64_t begin = 0; begin < rows; begin += kBlockRows)
    f(begin, std::min(begin + kBlockRows, rows));
}

// The whole matmul, a panel of b at a time, which then lies in L1.
HWY_INLINE void multiply(const SmallGemm& whole) {
  for (std::int64_t col = 0; col < whole.n; col += kPanel) {
    SmallGemm g = whole;
    g.n = std::min(kPanel, whole.n - col);
    g.b += col;
    g.c += col;
    for_row_blocks(
        g.m, [&](std::int64_t begin, std::int64_t end) HWY_ATTR { small_row_block(g, begin, end - begin); });
  }
}

// c[i] += Σ a(i, k)·b[k] over k < i, and of k = i with `diagonal`. What is above the diagonal is not read.
HWY_INLINE void multiply_lower(const SmallGemm& g, bool diagonal) {
  for_row_blocks(g.m, [&](std::int64_t begin, std::int64_t end) HWY_ATTR {
    SmallGemm before = g;
    before.k = begin;
    before.accumulate = true;
    if (begin > 0) small_row_block(before, begin, end - begin);
    for (std::int64_t i = begin; i < end; ++i) {
      for (std::int64_t k = begin; k < i + (diagonal ? 1 : 0); ++k)
        add_scaled(g.c + i * g.ldc, g.b + k * g.ldb, g.a[i * g.a_row + k * g.a_col], g.n);
    }
  });
}

// c[i] += Σ a(i, k)·b[k] over k >= i.
HWY_INLINE void multiply_upper(const SmallGemm& g) {
  for_row_blocks(g.m, [&](std::int64_t begin, std::int64_t end) HWY_ATTR {
    SmallGemm behind = g;
    behind.k = g.m - end;
    behind.a += end * g.a_col;
    behind.b += end * g.ldb;
    behind.accumulate = true;
    if (behind.k > 0) small_row_block(behind, begin, end - begin);
    for (std::int64_t i = begin; i < end; ++i) {
      for (std::int64_t k = i; k < end; ++k)
        add_scaled(g.c + i * g.ldc, g.b + k * g.ldb, g.a[i * g.a_row + k * g.a_col], g.n);
    }
  });
}

// What of a chunk does not depend on values and states. With c[t] the sum of its decays up to step t,
// matrices of steps by steps, of which only s <= t is read:
struct DeltaChunk {
  std::int64_t steps = 0, width = 0, key_stride = 0;
  float *keys = nullptr, *queries = nullptr;        // [steps, width]
  float *keys_in = nullptr, *queries_in = nullptr;  // −exp(c[t])·keys[t] and exp(c[t])·queries[t]
  float* between = nullptr;                         // exp(c[t] − c[s])
  float* corrections = nullptr;                     // −between·(keys[t]·keys[s]) of s < t
  float* answers = nullptr;                         // between·(queries[t]·keys[s])
  float* turned = nullptr;                          // keys, transposed
  float *reach = nullptr, *left = nullptr, *beta = nullptr;  // exp(c[t]), exp(c[last] − c[t])
  float *high = nullptr, *low = nullptr;                     // c[t] = high + low

  static std::int64_t floats(std::int64_t width) {
    return kDeltaChunk * (4 * (width + kColumns) + 3 * kDeltaStride + 5) + width * kDeltaStride;
  }
  DeltaChunk(FloatArena& arena, std::int64_t key_width) : width(key_width), key_stride(key_width + kColumns) {
    for (float** rows : {&keys, &queries, &keys_in, &queries_in})
      *rows = arena.take(kDeltaChunk * key_stride);
    for (float** square : {&between, &corrections, &answers})
      *square = arena.take(kDeltaChunk * kDeltaStride);
    turned = arena.take(width * kDeltaStride);
    for (float** one : {&reach, &left, &beta, &high, &low}) *one = arena.take(kDeltaChunk);
  }

  float last_reach() const { return reach[steps - 1]; }

  // Args: those of the forward or of the backward pass.
  template <class Args>
  void load(const Args& args, const ScanHead& at, const DeltaPiece& piece) {
    steps = piece.steps();
    const std::int64_t stride = at.groups * width;
    load_tile({args.keys.template as<float>() + at.keys(piece.begin), DType::f32, steps, width, stride}, keys,
              key_stride);
    load_tile({args.queries.template as<float>() + at.keys(piece.begin), DType::f32, steps, width, stride},
              queries, key_stride);
    double sum = 0;
    for (std::int64_t t = 0; t < steps; ++t) {
      const std::int64_t i = at.step(piece.begin + t);
      // exp(−1000) is 0 as exp(−∞) is, and differences of such sums are numbers.
      sum += std::max(static_cast<double>(args.decay.template as<float>()[i]), -1000.0);
      high[t] = static_cast<float>(sum);
      low[t] = static_cast<float>(sum - static_cast<double>(high[t]));
      beta[t] = args.beta.template as<float>()[i];
    }
    weigh();
    for (std::int64_t t = 0; t < steps; ++t) {
      scale_row(keys_in + t * key_stride, keys + t * key_stride, -reach[t], width);
      scale_row(queries_in + t * key_stride, queries + t * key_stride, reach[t], width);
    }
    relate(keys, corrections, -1);
    relate(queries, answers, 1);
  }

 private:
  void weigh() {
    namespace hn = hwy::HWY_NAMESPACE;
    const hn::ScalableTag<float> d;
    const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
    std::fill(high + steps, high + round_up(steps, kColumns), 0.0F);
    std::fill(low + steps, low + round_up(steps, kColumns), 0.0F);
    const auto weights = [&](float* to, float from, float rest, float sign, std::int64_t n) HWY_ATTR {
      for (std::int64_t s = 0; s < n; s += lanes) {
        const auto difference = hn::Add(hn::Sub(hn::Set(d, from), hn::LoadU(d, high + s)),
                                        hn::Sub(hn::Set(d, rest), hn::LoadU(d, low + s)));
        hn::StoreU(exp(hn::Mul(hn::Set(d, sign), difference)), d, to + s);
      }
    };
    weights(reach, 0, 0, -1, steps);
    weights(left, high[steps - 1], low[steps - 1], 1, steps);
    for (std::int64_t t = 0; t < steps; ++t) weights(between + t * kDeltaStride, high[t], low[t], 1, t + 1);
  }

  // to[t, s] = sign · between[t, s] · (rows[t] · keys[s]).
  void relate(const float* rows, float* to, float sign) {
    if (rows == keys)
      load_tile_transposed({keys, DType::f32, steps, width, key_stride}, turned, kDeltaStride);
    const SmallGemm g{.k = width,
                      .a = rows,
                      .a_row = key_stride,
                      .b = turned,
                      .ldb = kDeltaStride,
                      .c = to,
                      .ldc = kDeltaStride};
    for_row_blocks(steps, [&](std::int64_t begin, std::int64_t end) HWY_ATTR {
      SmallGemm block = g;
      block.n = round_up(end, kColumns);
      small_row_block(block, begin, end - begin);
      for (std::int64_t t = begin; t < end; ++t) {
        float* row = to + t * kDeltaStride;
        const float* weights = between + t * kDeltaStride;
        for (std::int64_t s = 0; s <= t; ++s) row[s] *= sign * weights[s];
      }
    });
  }
};

// Values of a panel's columns: errors [steps, stride] hold x, and then x − S'·keys; what is added to the
// state, `added`, is beta times that. state: [width, stride], or null where it is zero.
HWY_INLINE void find_errors(const DeltaChunk& chunk, const float* state, float* errors, float* added,
                            std::int64_t columns, std::int64_t stride) {
  if (state != nullptr)
    multiply({.m = chunk.steps,
              .n = columns,
              .k = chunk.width,
              .a = chunk.keys_in,
              .a_row = chunk.key_stride,
              .b = state,
              .ldb = stride,
              .c = errors,
              .ldc = stride,
              .accumulate = true});
  for_row_blocks(chunk.steps, [&](std::int64_t begin, std::int64_t end) HWY_ATTR {
    for (std::int64_t col = 0; col < columns && begin > 0; col += kPanel)
      small_row_block({.n = std::min(kPanel, columns - col),
                       .k = begin,
                       .a = chunk.corrections,
                       .a_row = kDeltaStride,
                       .b = added + col,
                       .ldb = stride,
                       .c = errors + col,
                       .ldc = stride,
                       .accumulate = true},
                      begin, end - begin);
    for (std::int64_t t = begin; t < end; ++t) {
      for (std::int64_t s = begin; s < t; ++s)
        add_scaled(errors + t * stride, added + s * stride, chunk.corrections[t * kDeltaStride + s], columns);
      scale_row(added + t * stride, errors + t * stride, chunk.beta[t], columns);
    }
  });
}

// The state behind the chunk; `added` gets the factors of its steps. fresh: the state before is zero.
HWY_INLINE void advance_state(const DeltaChunk& chunk, bool fresh, float* added, float* state,
                              std::int64_t columns, std::int64_t stride) {
  for (std::int64_t t = 0; t < chunk.steps; ++t)
    scale_row(added + t * stride, added + t * stride, chunk.left[t], columns);
  for (std::int64_t n = 0; !fresh && n < chunk.width; ++n)
    scale_row(state + n * stride, state + n * stride, chunk.last_reach(), columns);
  multiply({.m = chunk.width,
            .n = columns,
            .k = chunk.steps,
            .a = chunk.keys,
            .a_row = 1,
            .a_col = chunk.key_stride,
            .b = added,
            .ldb = stride,
            .c = state,
            .ldc = stride,
            .accumulate = !fresh});
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace ingot::kernels::cpu
HWY_AFTER_NAMESPACE();
#endif
