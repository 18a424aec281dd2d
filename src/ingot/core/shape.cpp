#include "ingot/core/shape.h"

#include <algorithm>
#include <string>

#include "ingot/base/error.h"
#include "ingot/core/checked.h"

namespace ingot {

Shape::Shape(std::initializer_list<std::int64_t> dims)
    : Shape(std::span<const std::int64_t>(dims.begin(), dims.size())) {}

Shape::Shape(std::span<const std::int64_t> dims) {
  INGOT_CHECK(dims.size() <= kMaxRank, DimensionMismatch("a shape has at most " + std::to_string(kMaxRank) +
                                                         " axes, got " + std::to_string(dims.size())));
  checked_numel(dims, "shape");
  for (const std::int64_t dim : dims) dims_[static_cast<std::size_t>(rank_++)] = dim;
}

// Sizes can be assigned one by one, so what the constructor found does not hold for ever.
std::int64_t Shape::numel() const {
  std::int64_t n = 1;
  bool wraps = false;
  for (const std::int64_t dim : dims()) wraps |= __builtin_mul_overflow(n, dim, &n);
  return wraps || n > kMaxElements ? checked_numel(dims(), "shape") : n;
}

bool Shape::operator==(const Shape& other) const { return std::ranges::equal(dims(), other.dims()); }

Shape Shape::drop_last(int n) const {
  return Shape(dims().first(static_cast<std::size_t>(std::max(rank_ - n, 0))));
}

Shape Shape::insert(int axis, std::int64_t size) const {
  std::vector<std::int64_t> dims = to_vector();
  dims.insert(dims.begin() + axis, size);
  return Shape(dims);
}

Shape Shape::erase(int axis) const {
  std::vector<std::int64_t> dims = to_vector();
  dims.erase(dims.begin() + (axis < 0 ? axis + rank_ : axis));
  return Shape(dims);
}

Shape Shape::with(int axis, std::int64_t size) const {
  Shape result = *this;
  result[axis] = size;
  checked_numel(result.dims(), "shape");
  return result;
}

std::string to_string(const Shape& shape) { return to_string(shape.to_vector()); }

int normalize_axis(int axis, int rank, const char* where) {
  INGOT_CHECK(axis >= -rank && axis < rank,
              DimensionMismatch(std::string(where) + ": axis " + std::to_string(axis) +
                                " is outside a tensor of rank " + std::to_string(rank)));
  return axis < 0 ? axis + rank : axis;
}

Shape broadcast_shapes(const Shape& a, const Shape& b, const char* where) {
  const int rank = std::max(a.rank(), b.rank());
  std::array<std::int64_t, kMaxRank> dims{};
  for (int i = 1; i <= rank; ++i) {
    const std::int64_t da = i <= a.rank() ? a[-i] : 1;
    const std::int64_t db = i <= b.rank() ? b[-i] : 1;
    INGOT_CHECK(da == db || da == 1 || db == 1,
                ShapeMismatch(where, a.to_vector(), b.to_vector(), "sizes must agree, or one of them be 1"));
    dims[static_cast<std::size_t>(rank - i)] = da == 1 ? db : da;
  }
  return Shape(std::span<const std::int64_t>(dims.data(), static_cast<std::size_t>(rank)));
}

}  // namespace ingot
