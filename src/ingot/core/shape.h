#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

namespace ingot {

/// Tensors have at most this many axes.
inline constexpr int kMaxRank = 6;

/// Sizes of a tensor's axes, outermost first. Sizes are never negative; a rank of 0 is a scalar.
class Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<std::int64_t> dims);
  explicit Shape(std::span<const std::int64_t> dims);

  int rank() const { return rank_; }
  /// Size of axis `i`; negative counts from the last axis.
  std::int64_t operator[](int i) const { return dims_[static_cast<std::size_t>(i < 0 ? i + rank_ : i)]; }
  std::int64_t& operator[](int i) { return dims_[static_cast<std::size_t>(i < 0 ? i + rank_ : i)]; }
  std::int64_t back() const { return (*this)[-1]; }
  std::int64_t numel() const;
  std::span<const std::int64_t> dims() const { return {dims_.data(), static_cast<std::size_t>(rank_)}; }
  std::vector<std::int64_t> to_vector() const { return {dims_.begin(), dims_.begin() + rank_}; }
  bool operator==(const Shape& other) const;

  /// The shape without its last `n` axes.
  Shape drop_last(int n = 1) const;
  /// The shape with axis `axis` of size `size` put in (axis == rank appends).
  Shape insert(int axis, std::int64_t size) const;
  Shape erase(int axis) const;
  /// The shape with one axis' size replaced.
  Shape with(int axis, std::int64_t size) const;

 private:
  std::array<std::int64_t, kMaxRank> dims_{};
  int rank_ = 0;
};

/// "[2, 3]"
std::string to_string(const Shape& shape);

/// `axis` with negatives counted from the end; throws DimensionMismatch naming `where` unless in [-rank,
/// rank).
int normalize_axis(int axis, int rank, const char* where);

/// NumPy's rule: shapes align at the last axis, sizes agree or one is 1. Throws ShapeMismatch naming `where`.
Shape broadcast_shapes(const Shape& a, const Shape& b, const char* where);

}  // namespace ingot
