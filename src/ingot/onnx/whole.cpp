#include "ingot/onnx/whole.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/onnx/host.h"
#include "ingot/onnx/op.h"
#include "ingot/ops/view.h"

namespace ingot::onnx {

Tensor reduce_whole(const Tensor& x, const Axes& axes, bool keep,
                    FunctionRef<std::int64_t(std::span<const std::int64_t>)> f) {
  std::vector<int> order, gone;
  std::vector<std::int64_t> dims;
  std::size_t count = 1;
  for (int i = 0; i < x.rank(); ++i) {
    const bool reduced = axes.empty() || std::ranges::find(axes, i) != axes.end();
    (reduced ? gone : order).push_back(i);
    if (!reduced || keep) dims.push_back(reduced ? 1 : x.dim(i));
    if (!reduced) count *= static_cast<std::size_t>(x.dim(i));
  }
  order.insert(order.end(), gone.begin(), gone.end());
  const std::vector<std::int64_t> values = as_integers(permute(x, order));
  const std::size_t width = count == 0 ? 0 : values.size() / count;
  std::vector<std::int64_t> results(count);
  for (std::size_t i = 0; i < count; ++i) results[i] = f(std::span(values).subspan(i * width, width));
  return from_integers(results, to_shape(dims), x.dtype());
}

bool takes_unsigned(const OpCall& call) {
  const ElementType type = call.value_in(0).type;
  if (type == ElementType::plain) return false;
  if (type != ElementType::u16 && type != ElementType::u32 && type != ElementType::u64)
    call.refuse(fmt::format("input {} of element type {}", call.input_label(0), name_of(call.type(0))));
  return true;
}

std::int64_t sum_whole(std::span<const std::int64_t> line) {
  std::uint64_t total = 0;
  for (const std::int64_t v : line) total += static_cast<std::uint64_t>(v);
  return static_cast<std::int64_t>(total);
}

namespace {

/// Sizes in front of the last two axes.
Shape batch_of(const Tensor& x) { return x.shape().drop_last(2); }

std::vector<std::int64_t> spread_over(const Tensor& x, const Shape& batch) {
  const Shape shape = batch.insert(batch.rank(), x.dim(-2)).insert(batch.rank() + 1, x.dim(-1));
  return as_integers(broadcast_to(x, shape));
}

}  // namespace

Tensor matmul_whole(const Tensor& a, const Tensor& b) {
  INGOT_CHECK(a.rank() > 0 && b.rank() > 0, DimensionMismatch("MatMul: of single numbers"));
  const Tensor left = a.rank() == 1 ? unsqueeze(a, 0) : a, right = b.rank() == 1 ? unsqueeze(b, 1) : b;
  const std::int64_t m = left.dim(-2), k = left.dim(-1), n = right.dim(-1);
  INGOT_CHECK(right.dim(-2) == k,
              DimensionMismatch("MatMul: " + to_string(a.shape()) + " by " + to_string(b.shape())));
  const Shape batch = broadcast_shapes(batch_of(left), batch_of(right), "MatMul");
  const std::vector<std::int64_t> x = spread_over(left, batch), y = spread_over(right, batch);
  Shape shape = batch;
  if (a.rank() > 1) shape = shape.insert(shape.rank(), m);
  if (b.rank() > 1) shape = shape.insert(shape.rank(), n);
  std::vector<std::uint64_t> sums(static_cast<std::size_t>(shape.numel()), 0);
  const std::int64_t rows = n == 0 ? 0 : shape.numel() / n;
  parallel_for(rows, 16, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      std::uint64_t* out = sums.data() + row * n;
      for (std::int64_t i = 0; i < k; ++i) {
        const auto factor = static_cast<std::uint64_t>(x[static_cast<std::size_t>(row * k + i)]);
        const std::int64_t* line = y.data() + (row / m * k + i) * n;
        for (std::int64_t j = 0; j < n; ++j) out[j] += factor * static_cast<std::uint64_t>(line[j]);
      }
    }
  });
  return from_integers({sums.begin(), sums.end()}, shape, a.dtype());
}

}  // namespace ingot::onnx
