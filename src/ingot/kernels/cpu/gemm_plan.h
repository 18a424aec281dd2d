#pragma once

#include <array>
#include <cstdint>
#include <utility>

#include "ingot/kernels/gemm.h"

namespace ingot::kernels::cpu {

/// GemmArgs taken apart: one matmul of m × k by k × n, repeated over `batch` axes (each with an
/// output of its own) and summed over `summed` axes. Axes that extend m, n or k are folded into it, so
/// [B, T, k] times [k, n] is a single matmul.
struct GemmPlan {
  struct Axis {
    std::int64_t size = 1, a = 0, b = 0, c = 0;  // strides in elements
  };
  std::int64_t m = 0, n = 0, k = 0;
  const void* a = nullptr;
  const void* b = nullptr;
  void* c = nullptr;
  std::int64_t a_row = 0, a_col = 0, b_row = 0, b_col = 0, c_row = 0, c_col = 0;
  std::array<Axis, kMaxViewRank> batch{}, summed{};
  int batch_rank = 0, summed_rank = 0;
  std::int64_t batch_count = 1, summed_count = 1;

  explicit GemmPlan(const GemmArgs& args) : a(args.a.data), b(args.b.data), c(args.c.data) {
    plan(args.a, args.b, args.c, static_cast<bool>(args.bias));
  }

  template <class T>
  const T* a_at(std::int64_t offset) const {
    return static_cast<const T*>(a) + offset;
  }
  template <class T>
  const T* b_at(std::int64_t offset) const {
    return static_cast<const T*>(b) + offset;
  }
  template <class T>
  T* c_at(std::int64_t offset) const {
    return static_cast<T*>(c) + offset;
  }

  bool empty() const { return m == 0 || n == 0 || k == 0 || batch_count == 0 || summed_count == 0; }

  /// The same matmul as cᵀ = bᵀ·aᵀ.
  void transpose() {
    std::swap(a, b);
    std::swap(m, n);
    std::swap(a_row, b_col);
    std::swap(a_col, b_row);
    std::swap(c_row, c_col);
    for (auto& axis : batch) std::swap(axis.a, axis.b);
    for (auto& axis : summed) std::swap(axis.a, axis.b);
  }

  /// Element offsets of item `i` (row-major, outermost axis first) of `axes`.
  static Axis offsets(const std::array<Axis, kMaxViewRank>& axes, int rank, std::int64_t i) {
    Axis at;
    for (int r = 0; r < rank; ++r) {  // axes are stored innermost first
      const Axis& axis = axes[static_cast<std::size_t>(r)];
      const std::int64_t index = i % axis.size;
      i /= axis.size;
      at.a += index * axis.a, at.b += index * axis.b, at.c += index * axis.c;
    }
    return at;
  }
  Axis batch_offsets(std::int64_t i) const { return offsets(batch, batch_rank, i); }
  Axis summed_offsets(std::int64_t i) const { return offsets(summed, summed_rank, i); }

 private:
  void plan(const View& va, const View& vb, const View& vc, bool has_bias) {
    m = vc.dim(-2), n = vc.dim(-1), k = va.dim(-1);
    a_row = va.stride(-2), a_col = va.stride(-1);
    b_row = vb.stride(-2), b_col = vb.stride(-1);
    c_row = vc.stride(-2), c_col = vc.stride(-1);
    for (int i = vc.rank - 3; i >= 0; --i) {
      if (vc.dim(i) != 1) add({vc.dim(i), va.stride(i), vb.stride(i), vc.stride(i)}, has_bias);
    }
    for (int i = 0; i < batch_rank; ++i) batch_count *= batch[static_cast<std::size_t>(i)].size;
    for (int i = 0; i < summed_rank; ++i) summed_count *= summed[static_cast<std::size_t>(i)].size;
    // Strides of axes of size 1 may be anything; give them values that a matrix in memory would have.
    if (k == 1) a_col = 1, b_row = b_col == 1 ? n : 1;
    if (m == 1) a_row = a_col == 1 ? k : 1, c_row = c_col == 1 ? n : 1;
    if (n == 1) c_col = 1, b_col = b_row == 1 ? k : 1;
  }

  // Called from the innermost batch axis outwards, so a fold extends what earlier folds made.
  void add(const Axis& axis, bool has_bias) {
    const bool first = batch_rank == 0 && summed_rank == 0;
    if (axis.c == 0) {
      if (first && (k == 1 || (axis.a == k * a_col && axis.b == k * b_row))) {
        if (k == 1) a_col = axis.a, b_row = axis.b;
        k *= axis.size;
      } else {
        summed[static_cast<std::size_t>(summed_rank++)] = axis;
      }
    } else if (first && axis.b == 0 && (m == 1 || (axis.a == m * a_row && axis.c == m * c_row))) {
      if (m == 1) a_row = axis.a, c_row = axis.c;
      m *= axis.size;
    } else if (first && !has_bias && axis.a == 0 &&
               (n == 1 || (axis.b == n * b_col && axis.c == n * c_col))) {
      if (n == 1) b_col = axis.b, c_col = axis.c;
      n *= axis.size;
    } else {
      batch[static_cast<std::size_t>(batch_rank++)] = axis;
    }
  }
};

/// A matmul of few rows: sizes, leading dimensions and factors (simd/gemm.cpp).
struct Skinny {
  std::int64_t m, n, k, lda, ldb, ldc;
  float alpha, beta;
};

}  // namespace ingot::kernels::cpu
