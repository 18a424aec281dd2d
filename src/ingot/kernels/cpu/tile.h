#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "ingot/core/dtype.h"

namespace ingot::kernels::cpu {

/// A rows × cols piece of a matrix whose columns are adjacent; `row_stride` in elements.
template <class Pointer>
struct BasicTile {
  Pointer data = nullptr;
  DType dtype = DType::f32;
  std::int64_t rows = 0, cols = 0, row_stride = 0;

  template <class T>
  auto* row(std::int64_t i) const {
    using Element = std::conditional_t<std::is_same_v<Pointer, const void*>, const T, T>;
    return static_cast<Element*>(data) + i * row_stride;
  }
};
using Tile = BasicTile<void*>;
using ConstTile = BasicTile<const void*>;

/// to = from as floats (row stride `to_stride`), times `scale`. from: f32, f16, bf16 or i8.
void load_tile(const ConstTile& from, float* to, std::int64_t to_stride, float scale = 1.0F);

/// The same, transposed: to[c * to_stride + r] = from[r, c] * scale.
void load_tile_transposed(const ConstTile& from, float* to, std::int64_t to_stride, float scale = 1.0F);

/// to = from, or += with `accumulate`; rounds to to.dtype (f32, f16 or bf16).
void store_tile(const float* from, std::int64_t from_stride, const Tile& to, bool accumulate);

/// Scratch memory of the calling thread, at least `count` floats, 64-byte aligned, not initialized. Grows and
/// is kept; the next call with the same slot may return the same memory.
float* thread_scratch(std::size_t slot, std::size_t count);

}  // namespace ingot::kernels::cpu
