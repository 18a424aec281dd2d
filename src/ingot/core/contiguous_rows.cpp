#include "ingot/core/contiguous_rows.h"

namespace ingot {
namespace {

char* end_of(const View& view) {
  return view.as<char>() + view.numel() * static_cast<std::int64_t>(byte_size(view.dtype));
}

bool follows(const Tensor& before, const Tensor& next) {
  return next.defined() && next.storage() == before.storage() && next.dtype() == before.dtype() &&
         next.is_contiguous() && next.rank() == before.rank() &&
         next.shape() == before.shape().with(0, next.dim(0)) && next.view().data == end_of(before.view());
}

}  // namespace

Tensor contiguous_rows(std::span<const Tensor> pieces) {
  const Tensor& first = pieces.front();
  if (!first.defined() || first.rank() == 0 || !first.is_contiguous()) return {};
  std::int64_t rows = first.dim(0);
  for (std::size_t i = 1; i < pieces.size(); ++i) {
    if (!follows(pieces[i - 1], pieces[i])) return {};
    rows += pieces[i].dim(0);
  }
  const Shape shape = first.shape().with(0, rows);
  return {first.storage(), contiguous_view(first.view().data, shape, first.dtype(), first.device())};
}

std::vector<Tensor> split_rows(const Tensor& whole, std::span<const std::int64_t> rows) {
  std::vector<Tensor> pieces;
  char* data = whole.view().as<char>();
  for (const std::int64_t count : rows) {
    const Shape shape = whole.shape().with(0, count);
    const View view = contiguous_view(data, shape, whole.dtype(), whole.device());
    pieces.emplace_back(whole.storage(), view);
    data = end_of(view);
  }
  return pieces;
}

}  // namespace ingot
