#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/onnx/attention.h"
#include "ingot/onnx/host.h"
#include "ingot/onnx/op.h"
#include "ingot/onnx/rearrange.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/index.h"
#include "ingot/ops/matmul.h"
#include "ingot/ops/reduce.h"
#include "ingot/ops/view.h"

// Scaled dot-product attention, rotary embeddings and the cache of keys and values.

namespace ingot::onnx {
namespace {

/// [B, H, S, D] as it is, [B, S, H·D] in that order; `heads` names the attribute with H.
Tensor as_heads(const OpCall& call, std::size_t i, const char* heads) {
  const Tensor& x = call.in(i, 3, 4);
  return x.rank() == 4 ? x : split_heads(call, x, call.integer(heads, 0));
}

/// Query, key and value with the past in front, [B, H, S, D] each.
struct Heads {
  Tensor q, k, v;
  std::int64_t past = 0;
};

Heads read_heads(const OpCall& call) {
  Heads heads{as_heads(call, 0, "q_num_heads"), as_heads(call, 1, "kv_num_heads"),
              as_heads(call, 2, "kv_num_heads")};
  if (call.has(4)) {
    heads.past = call.in(4, 4, 4).dim(2);
    heads.k = concat(std::vector<Tensor>{call.in(4), heads.k}, 2);
    heads.v = concat(std::vector<Tensor>{call.in(5, 4, 4), heads.v}, 2);
  }
  return heads;
}

/// Causal with the queries at the end of the keys, and nothing else.
bool is_plainly_causal(const OpCall& call, const Heads& heads) {
  return call.integer("is_causal", 0) != 0 && !call.has(6) && call.integer("left_window_size", -1) < 0 &&
         call.integer("right_window_size", -1) < 0 && heads.k.dim(2) - heads.q.dim(2) == heads.past;
}

/// Which keys queries see by where they are: a bias [B or 1, 1, S, T] of 0 and -inf, undefined where they see
/// all.
Tensor position_bias(const OpCall& call, const Heads& heads) {
  const bool causal = call.integer("is_causal", 0) != 0;
  const std::int64_t left = call.integer("left_window_size", -1),
                     right = call.integer("right_window_size", -1);
  if (!causal && !call.has(6) && left < 0 && right < 0) return {};
  const std::int64_t queries = heads.q.dim(2), keys = heads.k.dim(2);
  const std::vector<std::int64_t> valid = call.has(6) ? call.integers_in(6) : std::vector<std::int64_t>{keys};
  INGOT_CHECK(!call.has(6) || static_cast<std::int64_t>(valid.size()) == heads.q.dim(0),
              DimensionMismatch(call.where() + ": one number of keys for each of the batch"));
  std::vector<float> bias;
  const Shape shape{static_cast<std::int64_t>(valid.size()), 1, queries, keys};
  bias.reserve(static_cast<std::size_t>(shape.numel()));
  for (const std::int64_t count : valid) {
    const std::int64_t offset = call.has(4) ? heads.past : call.has(6) ? count - queries : 0;
    for (std::int64_t i = 0; i < queries; ++i) {
      const std::int64_t at = offset + i;
      for (std::int64_t j = 0; j < keys; ++j) {
        const bool seen = j < count && (!causal || j <= at) && (left < 0 || j >= at - left) &&
                          (right < 0 || j <= at + right);
        bias.push_back(seen ? 0 : masked_score());
      }
    }
  }
  return Tensor::from(bias, shape);
}

/// The input attn_mask as what is added to scores of `keys` columns; undefined where it is left out.
Tensor mask_bias(const OpCall& call, std::int64_t keys, DType dtype) {
  if (!call.has(3)) return {};
  Tensor mask = call.in(3, 1, 4);
  if (mask.dtype() == DType::boolean) {
    mask = where(mask, Tensor::scalar(0, mask.device()), Tensor::scalar(masked_score(), mask.device()));
  }
  mask = to(mask, dtype);
  if (mask.dim(-1) < keys && mask.dim(-1) != 1) {
    Padding padding{std::vector<std::int64_t>(static_cast<std::size_t>(mask.rank()), 0), {}};
    padding.after = padding.before;
    padding.after.back() = keys - mask.dim(-1);
    mask = pad_with(mask, padding, to(Tensor::scalar(masked_score()), dtype));
  }
  return mask;
}

/// Mask and positions, as one bias.
Tensor whole_bias(const OpCall& call, const Heads& heads) {
  const DType dtype = computed_in(heads.q.dtype());
  const Tensor mask = mask_bias(call, heads.k.dim(2), dtype);
  if (is_plainly_causal(call, heads)) return mask;
  const Tensor positions = position_bias(call, heads);
  if (!mask.defined() || !positions.defined()) return mask.defined() ? mask : positions;
  return add(mask, to(to(positions, dtype), mask.device()));
}

/// [B, H, S, D] as the node's first input lies.
Tensor laid_like_query(const OpCall& call, const Tensor& y) {
  return call.in(0).rank() == 4 ? contiguous(y) : joined_heads(y);
}

Values scaled_attention(const OpCall& call) {
  const Heads heads = read_heads(call);
  const DType dtype = call.in(0).dtype();
  Tensor stage;
  const auto wanted = std::clamp<std::int64_t>(call.integer("qk_matmul_output_mode", 0), 0, 3);
  const Tensor y = attend(
      call, heads.q, heads.k, heads.v,
      {.scale = scale_of(call, heads.q.dim(3)),
       .softcap = call.number("softcap", 0),
       .causal = is_plainly_causal(call, heads),
       .bias = whole_bias(call, heads),
       .wide = call.has_attribute("softmax_precision") && call.dtype("softmax_precision", 1) == DType::f64,
       .stage = static_cast<ScoreStage>(wanted),
       .kept = call.output_count() < 4 ? nullptr : &stage});
  Values outputs{laid_like_query(call, y), contiguous(heads.k), contiguous(heads.v)};
  if (stage.defined()) outputs.emplace_back(to(stage, dtype));
  return outputs;
}

/// Scores and weights go through graphs of the node's own.
Values flex_attention(const OpCall& call) {
  const Tensor &q = call.in(0, 4, 4), &k = call.in(1, 4, 4), &v = call.in(2, 4, 4);
  const DType dtype =
      call.has_attribute("softmax_precision") ? call.dtype("softmax_precision", 1) : computed_in(q.dtype());
  const auto modified = [&](const char* name, const Tensor& x) {
    if (!call.has_attribute(name)) return x;
    const Values made = call.run(call.graph(name), std::array<Value, 1>{x});
    INGOT_CHECK(made.size() == 1 && made[0].tensor.defined() && made[0].tensor.shape() == x.shape(),
                FormatError(call.where(), -1, name, "does not give one tensor of the shape that it takes"));
    return made[0].tensor;
  };
  const DType products = computed_in(q.dtype());
  const Tensor keys = transpose(shared_heads(call, to(k, products), q.dim(1)), 2, 3);
  const Tensor scores = modified(
      "score_mod", to(scale(matmul(to(q, products), contiguous(keys)), scale_of(call, q.dim(3))), dtype));
  const Tensor weights =
      modified("prob_mod", to(guarded_softmax(to(scores, computed_in(dtype)), true), dtype));
  return {to(matmul(to(weights, products), contiguous(shared_heads(call, to(v, products), q.dim(1)))),
             q.dtype())};
}

/// Cosines or sines of each token, [B, S, 1, D / 2].
Tensor angles(const OpCall& call, std::size_t i) {
  return call.has(3) ? angles_at(call, call.in(i, 2, 2), call.in(3, 2, 2)) : unsqueeze(call.in(i, 3, 3), 2);
}

Values rotary_embedding(const OpCall& call) {
  const Tensor x = transpose(as_heads(call, 0, "num_heads"), 1, 2);  // [B, S, H, D]
  const std::int64_t given = call.integer("rotary_embedding_dim", 0), width = given == 0 ? x.dim(3) : given;
  const Tensor cosine = angles(call, 1), sine = angles(call, 2);
  INGOT_CHECK(width == 2 * cosine.dim(3),
              DimensionMismatch(fmt::format("{}: angles {} for {} rotated pairs", call.where(),
                                            to_string(cosine.shape()), width / 2)));
  return {laid_like_query(
      call, transpose(rotated(call, x, cosine, sine, call.integer("interleaved", 0) != 0), 1, 2))};
}

/// Rows of `update` go into a copy of the cache, from an index of its own for each of the batch.
Values tensor_scatter(const OpCall& call) {
  const Tensor &cache = call.in(0, 2), &update = call.in(1, 2);
  const int axis = call.axis("axis", -2, cache.rank());
  INGOT_CHECK(axis > 0 && update.rank() == cache.rank() &&
                  cache.shape().with(axis, update.dim(axis)) == update.shape(),
              ShapeMismatch(call.where(), cache.shape().to_vector(), update.shape().to_vector()));
  const std::int64_t size = cache.dim(axis), rows = update.dim(axis);
  const bool circular = call.text("mode", "linear") == "circular";
  const std::vector<std::int64_t> starts =
      call.has(2) ? call.integers_in(2)
                  : std::vector<std::int64_t>(static_cast<std::size_t>(cache.dim(0)), 0);
  INGOT_CHECK(
      static_cast<std::int64_t>(starts.size()) == cache.dim(0) && rows <= size,
      DimensionMismatch(call.where() + ": one index for each of the batch, and no more rows than it has"));
  const Tensor result = clone(contiguous(cache));
  for (std::int64_t n = 0; n < cache.dim(0); ++n) {
    std::int64_t start = starts[static_cast<std::size_t>(n)];
    INGOT_CHECK(
        start >= 0 && (circular || start <= size - rows),
        DimensionMismatch(fmt::format("{}: {} rows from {} into {}", call.where(), rows, start, size)));
    start = size == 0 ? 0 : start % size;
    const Tensor to_rows = narrow(result, 0, n, 1), from = narrow(update, 0, n, 1);
    const std::int64_t first = std::min(rows, size - start);
    copy_(narrow(to_rows, axis, start, first), narrow(from, axis, 0, first));
    if (first < rows) copy_(narrow(to_rows, axis, 0, rows - first), narrow(from, axis, first, rows - first));
  }
  return {result};
}

constexpr std::array kAttentionOps = {
    OpRow{"Attention", scaled_attention, 3}, OpRow{"RotaryEmbedding", rotary_embedding, 3},
    OpRow{"TensorScatter", tensor_scatter, 2}, OpRow{"ai.onnx.preview.FlexAttention", flex_attention}};

}  // namespace

std::span<const OpRow> attention_ops() { return kAttentionOps; }

}  // namespace ingot::onnx
