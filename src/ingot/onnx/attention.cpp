#include "ingot/onnx/attention.h"

#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/onnx/host.h"
#include "ingot/onnx/rearrange.h"
#include "ingot/ops/attention.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/index.h"
#include "ingot/ops/matmul.h"
#include "ingot/ops/reduce.h"
#include "ingot/ops/view.h"

namespace ingot::onnx {

DType computed_in(DType dtype) { return dtype == DType::f64 ? DType::f64 : DType::f32; }
float masked_score() { return -std::numeric_limits<float>::infinity(); }

float scale_of(const OpCall& call, std::int64_t head_size) {
  return call.number("scale", static_cast<float>(1 / std::sqrt(static_cast<double>(head_size))));
}

Tensor split_heads(const OpCall& call, const Tensor& x, std::int64_t heads) {
  INGOT_CHECK(x.rank() == 3 && heads > 0 && x.dim(2) % heads == 0,
              DimensionMismatch(
                  fmt::format("{}: {} heads do not divide {}", call.where(), heads, to_string(x.shape()))));
  return transpose(reshape(x, {x.dim(0), x.dim(1), heads, x.dim(2) / heads}), 1, 2);
}

Tensor joined_heads(const Tensor& x) {
  return reshape(contiguous(transpose(x, 1, 2)), {x.dim(0), x.dim(2), x.dim(1) * x.dim(3)});
}

Tensor shared_heads(const OpCall& call, const Tensor& x, std::int64_t query_heads) {
  INGOT_CHECK(x.dim(1) > 0 && query_heads % x.dim(1) == 0,
              DimensionMismatch(fmt::format("{}: {} query heads share {} heads of keys and values",
                                            call.where(), query_heads, x.dim(1))));
  return query_heads == x.dim(1) ? x : repeat_each(x, {1, query_heads / x.dim(1), 1, 1});
}

Tensor guarded_softmax(const Tensor& scores, bool masked) {
  const Tensor y = softmax(scores);
  if (!masked) return y;
  const auto number = [&](float value) { return to(to(Tensor::scalar(value), y.dtype()), y.device()); };
  const Tensor none = equal(max(scores, {-1}, true), number(masked_score()));
  return where(none, number(0), y);
}

namespace {

/// 0 where one of S queries sees one of T keys, -inf elsewhere: [S, T].
Tensor causal_bias(std::int64_t queries, std::int64_t keys, std::int64_t window) {
  std::vector<float> bias;
  bias.reserve(static_cast<std::size_t>(Shape{queries, keys}.numel()));
  for (std::int64_t i = 0; i < queries; ++i) {
    const std::int64_t at = keys - queries + i;
    for (std::int64_t j = 0; j < keys; ++j)
      bias.push_back(j <= at && (window == 0 || j > at - window) ? 0 : masked_score());
  }
  return Tensor::from(bias, {queries, keys});
}

Tensor weights_of(const OpCall& call, const Tensor& queries, const Tensor& keys, const Scoring& scoring) {
  const DType dtype = computed_in(queries.dtype());
  const Tensor q = scale(to(queries, dtype), scoring.scale),
               k = shared_heads(call, to(keys, dtype), q.dim(1));
  const auto keep = [&](ScoreStage at, const Tensor& x) {
    if (scoring.kept != nullptr && scoring.stage == at) *scoring.kept = x;
  };
  Tensor scores = matmul(contiguous(q), contiguous(transpose(k, 2, 3)));
  keep(ScoreStage::products, scores);
  if (const float cap = scoring.softcap; cap > 0) scores = scale(tanh(scale(scores, 1 / cap)), cap);
  keep(ScoreStage::capped, scores);
  const auto plus = [&](const Tensor& bias) { scores = add(scores, to(to(bias, dtype), scores.device())); };
  if (scoring.bias.defined()) plus(scoring.bias);
  if (scoring.causal) plus(causal_bias(q.dim(2), k.dim(2), scoring.window));
  keep(ScoreStage::biased, scores);
  if (scoring.sink.defined()) {
    const Tensor sink = reshape(to(scoring.sink, dtype), {1, q.dim(1), 1, 1});
    scores =
        concat(std::vector<Tensor>{scores, contiguous(broadcast_to(sink, scores.shape().with(3, 1)))}, 3);
  }
  const bool masked = scoring.bias.defined() || scoring.causal;
  Tensor weights = to(guarded_softmax(scoring.wide ? to(scores, DType::f64) : scores, masked), dtype);
  if (scoring.sink.defined()) weights = contiguous(narrow(weights, 3, 0, k.dim(2)));
  keep(ScoreStage::weights, weights);
  return weights;
}

/// By the kernel that never holds the scores. Undefined where it does not do.
Tensor without_scores(const Tensor& q, const Tensor& k, const Tensor& v, const Scoring& scoring) {
  const bool fits = !scoring.bias.defined() && !scoring.sink.defined() && scoring.kept == nullptr &&
                    !scoring.wide && q.dtype() == DType::f32 && k.dtype() == DType::f32 &&
                    v.dtype() == DType::f32 && q.dim(1) % k.dim(1) == 0 && q.dim(3) == v.dim(3) &&
                    (!scoring.causal || q.dim(2) <= k.dim(2)) && q.numel() > 0 && k.numel() > 0 &&
                    scoring.scale != 0;
  if (!fits) return {};
  const auto by_token = [](const Tensor& x) { return contiguous(transpose(x, 1, 2)); };
  return transpose(attention(by_token(q), by_token(k), by_token(v),
                             {.causal = scoring.causal,
                              .scale = scoring.scale,
                              .window = scoring.window,
                              .softcap = scoring.softcap}),
                   1, 2);
}

}  // namespace

Tensor attend(const OpCall& call, const Tensor& q, const Tensor& k, const Tensor& v, const Scoring& scoring) {
  const bool ranks = q.rank() == 4 && k.rank() == 4 && v.rank() == 4;
  INGOT_CHECK(
      ranks && k.dim(1) > 0 && q.dim(0) == k.dim(0) && k.dim(0) == v.dim(0) && q.dim(3) == k.dim(3) &&
          k.dim(2) == v.dim(2) && k.dim(1) == v.dim(1),
      DimensionMismatch(fmt::format("{}: query {}, key {}, value {}", call.where(), to_string(q.shape()),
                                    to_string(k.shape()), to_string(v.shape()))));
  if (const Tensor y = without_scores(q, k, v, scoring); y.defined()) return y;
  const Tensor weights = weights_of(call, q, k, scoring);
  const Tensor values = shared_heads(call, to(v, weights.dtype()), q.dim(1));
  return to(matmul(contiguous(weights), contiguous(values)), q.dtype());
}

Tensor angles_at(const OpCall& call, const Tensor& cache, const Tensor& positions) {
  INGOT_CHECK(cache.rank() == 2 && positions.rank() == 2,
              DimensionMismatch(fmt::format("{}: angles {} for positions {}", call.where(),
                                            to_string(cache.shape()), to_string(positions.shape()))));
  const Tensor rows = reshape(contiguous(to(positions, DType::i64)), {positions.numel()});
  return reshape(index_select_within(cache, 0, rows), {positions.dim(0), positions.dim(1), 1, cache.dim(1)});
}

Tensor rotated(const OpCall& call, const Tensor& x, const Tensor& cosine, const Tensor& sine,
               bool interleaved) {
  const std::int64_t half = cosine.dim(-1), width = 2 * half;
  INGOT_CHECK(half > 0 && sine.dim(-1) == half && width <= x.dim(3),
              DimensionMismatch(fmt::format("{}: rotates {} of {}", call.where(), width, x.dim(3))));
  const auto part = [&](std::int64_t which) {
    return contiguous(interleaved ? slice(x, 3, which, width, 2) : narrow(x, 3, which * half, half));
  };
  const Tensor a = part(0), b = part(1);
  const Tensor real = sub(mul(a, cosine), mul(b, sine)), imaginary = add(mul(a, sine), mul(b, cosine));
  const std::vector<Tensor> pair{real, imaginary};
  std::vector<Tensor> parts{interleaved ? reshape(stack(pair, 4), {x.dim(0), x.dim(1), x.dim(2), width})
                                        : concat(pair, 3)};
  if (width < x.dim(3)) parts.push_back(narrow(x, 3, width, x.dim(3) - width));
  return parts.size() == 1 ? parts[0] : concat(parts, 3);
}

}  // namespace ingot::onnx
