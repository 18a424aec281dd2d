#include "ingot/ops/composed_attention.h"

#include <limits>
#include <numeric>
#include <vector>

#include "ingot/autograd/grad_mode.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/matmul.h"
#include "ingot/ops/reduce.h"
#include "ingot/ops/view.h"

namespace ingot {
namespace {

// 0, 1, 2, ... as f32.
Tensor counted(std::int64_t count, Device device) {
  std::vector<float> numbers(static_cast<std::size_t>(count));
  std::iota(numbers.begin(), numbers.end(), 0.0F);
  return Tensor::from(numbers, {count}, device);
}

Tensor constant(double value, Device device) { return Tensor::zeros({1}, DType::f32, device) + value; }

// [tokens, heads, size] of the one sequence as [heads, tokens, size].
Tensor by_heads(const Tensor& rows, DType dtype) { return to(transpose(select(rows, 0, 0), 0, 1), dtype); }

}  // namespace

Tensor composed_attention(const Tensor& q, const CachedSequence& s, const AttentionOptions& options) {
  const NoGrad no_grad;
  const std::int64_t n = q.dim(0), heads = q.dim(1), keys = s.keys.dim(1), kv_heads = s.keys.dim(2);
  const Device device = q.device();
  const Tensor at = counted(keys, device), rows = reshape(counted(n, device), {n, 1});
  const Tensor length =
      s.length.defined() ? to(s.length, DType::f32) : constant(static_cast<double>(keys), device);
  const Tensor position = rows + (length - static_cast<double>(n));  // [n, 1]
  const Tensor grouped = reshape(transpose(q, 0, 1), {kv_heads, heads / kv_heads * n, q.dim(2)});
  const Tensor products = matmul(grouped, transpose(by_heads(s.keys, q.dtype()), 1, 2));
  Tensor scores = to(products, DType::f32) * static_cast<double>(options.scale);
  if (options.softcap > 0) {
    const auto cap = static_cast<double>(options.softcap);
    scores = tanh(scores * (1 / cap)) * cap;
  }
  const Tensor none = constant(-std::numeric_limits<double>::infinity(), device);
  scores = where(less_equal(at, position), reshape(scores, {kv_heads, heads / kv_heads, n, keys}), none);
  if (options.window > 0)
    scores = where(less(position - at, constant(static_cast<double>(options.window), device)), scores, none);
  if (options.chunk > 0) {
    const auto chunk = static_cast<double>(options.chunk);
    scores = where(less(at, floor((position + 0.5) * (1 / chunk)) * chunk), none, scores);
  }
  const Tensor weights = reshape(to(softmax(scores), q.dtype()), grouped.shape().with(2, keys));
  // What a cache holds behind its length is not a number.
  const Tensor zero = Tensor::zeros({1}, q.dtype(), device);
  const Tensor values = where(reshape(less(at, length), {keys, 1}), by_heads(s.values, q.dtype()), zero);
  return transpose(reshape(matmul(weights, values), {heads, n, s.values.dim(3)}), 0, 1);
}

}  // namespace ingot
