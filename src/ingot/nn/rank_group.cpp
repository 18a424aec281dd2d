#include "ingot/nn/rank_group.h"

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/core/dtype.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/view.h"

namespace ingot {
namespace {

Tensor host_rows(const Tensor& indices) { return contiguous(to(to(indices, kCpu), DType::i64)); }

}  // namespace

std::int64_t WeightSplit::begin() const { return borders[static_cast<std::size_t>(ranks->rank())]; }
bool WeightSplit::is_here(std::int64_t row) const {
  return row >= begin() && row < borders[static_cast<std::size_t>(ranks->rank()) + 1];
}

Shape WeightSplit::own(const Shape& shape) const {
  if (kind != Kind::vocabulary) return shape;
  return shape.with(0, borders[static_cast<std::size_t>(ranks->rank()) + 1] - begin());
}

Tensor WeightSplit::whole(const Tensor& y) const {
  if (kind == Kind::columns) return ranks->all_reduce(y);
  return kind == Kind::vocabulary ? ranks->all_gather_columns(y, borders) : y;
}

Tensor WeightSplit::own_rows(const Tensor& indices) const {
  const Tensor rows = host_rows(indices), own = Tensor::empty(rows.shape(), DType::i64);
  for (std::int64_t i = 0; i < rows.numel(); ++i) {
    const std::int64_t row = rows.data<std::int64_t>()[i];
    INGOT_CHECK(row >= 0 && row < borders.back(),
                DimensionMismatch(
                    fmt::format("row {} was asked for, but the vocabulary has {}", row, borders.back())));
    own.data<std::int64_t>()[i] = is_here(row) ? row - begin() : 0;
  }
  return own;
}

Tensor WeightSplit::whole_rows(const Tensor& y, const Tensor& indices) const {
  const Tensor rows = host_rows(indices), mask = Tensor::empty(rows.shape(), DType::f32);
  for (std::int64_t i = 0; i < rows.numel(); ++i)
    mask.data<float>()[i] = is_here(rows.data<std::int64_t>()[i]) ? 1.0F : 0.0F;
  return to(ranks->all_reduce(to(y, DType::f32) * unsqueeze(mask, -1)), y.dtype());
}

}  // namespace ingot
