#pragma once

#include <array>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "ingot/core/device.h"
#include "ingot/core/dtype.h"

namespace ingot {

inline constexpr int kMaxViewRank = 6;  // kMaxRank, repeated so that this header stays small

/// What a kernel sees of a tensor: memory that somebody else owns, and how to walk it. Trivially copyable.
/// Strides are in elements; a broadcast axis has stride 0. A default view is absent (an optional operand).
struct View {
  void* data = nullptr;
  std::array<std::int64_t, kMaxViewRank> shape{};
  std::array<std::int64_t, kMaxViewRank> strides{};
  std::int32_t rank = 0;
  DType dtype = DType::f32;
  Device device{};

  explicit operator bool() const { return data != nullptr; }

  template <class T>
  T* as() const {
    return static_cast<T*>(data);
  }
  /// Size and stride of axis `i`; negative counts from the last.
  std::int64_t dim(int i) const { return shape[static_cast<std::size_t>(i < 0 ? i + rank : i)]; }
  std::int64_t stride(int i) const { return strides[static_cast<std::size_t>(i < 0 ? i + rank : i)]; }

  std::int64_t numel() const {
    std::int64_t n = 1;
    for (int i = 0; i < rank; ++i) n *= dim(i);
    return n;
  }
  /// Row-major without gaps (axes of size 1 may have any stride).
  bool is_contiguous() const {
    std::int64_t expected = 1;
    for (int i = rank - 1; i >= 0; --i) {
      if (dim(i) == 0) return true;
      if (dim(i) != 1 && stride(i) != expected) return false;
      expected *= dim(i);
    }
    return true;
  }
  /// Product of all sizes but the last: the number of rows of a kernel that works on the last axis.
  std::int64_t rows() const { return rank == 0 ? 1 : (dim(-1) == 0 ? 0 : numel() / dim(-1)); }
};

static_assert(std::is_trivially_copyable_v<View>);

/// `view` with its last two axes exchanged. No check.
inline View transposed(View view) {
  const auto last = static_cast<std::size_t>(view.rank - 1);
  std::swap(view.shape[last], view.shape[last - 1]);
  std::swap(view.strides[last], view.strides[last - 1]);
  return view;
}

}  // namespace ingot
