#include "ingot/core/shape.h"

#include <algorithm>
#include <string>

#include "ingot/base/error.h"

namespace ingot {

Shape::Shape(std::initializer_list<std::int64_t> dims)
    : Shape(std::span<const std::int64_t>(dims.begin(), dims.size())) {}

Shape::Shape(std::span<const std::int64_t> dims) {
  INGOT_CHECK(dims.size() <= kMaxRank, DimensionMismatch("a shape has at most " + std::to_string(kMaxRank) +
                                                         " axes, got " + std::to_string(dims.size())));
  for (const std::int64_t dim : dims) {
    INGOT_CHECK(dim >= 0, DimensionMismatch("a shape's sizes cannot be negative, got " +
                                            ingot::to_string(std::vector(dims.begin(), dims.end()))));
    dims_[static_cast<std::size_t>(rank_++)] = dim;
  }
}

std::int64_t Shape::numel() const {
  std::int64_t n = 1;
  for (const std::int64_t dim : dims()) n *= dim;
  return n;
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
