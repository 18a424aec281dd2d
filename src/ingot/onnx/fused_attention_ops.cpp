#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/core/checked.h"
#include "ingot/onnx/attention.h"
#include "ingot/onnx/host.h"
#include "ingot/onnx/op.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/matmul.h"
#include "ingot/ops/norm.h"
#include "ingot/ops/view.h"

// The attentions of com.microsoft: what ONNX Runtime's optimizer, Olive and Optimum write.

namespace ingot::onnx {
namespace {

/// [B, H, S, D] each; `past`: how many of k and v came from an earlier step.
struct FusedHeads {
  Tensor q, k, v;
  std::int64_t past = 0;

  std::int64_t batch() const { return q.dim(0); }
  std::int64_t queries() const { return q.dim(2); }
  std::int64_t keys() const { return k.dim(2); }
};

[[noreturn]] void fail_mask(const OpCall& call, const Tensor& mask, const FusedHeads& heads) {
  throw DimensionMismatch(fmt::format("{}: a mask {} for {} queries and {} keys of a batch of {}",
                                      call.where(), to_string(mask.shape()), heads.queries(), heads.keys(),
                                      heads.batch()));
}

/// Whether a mask lets query i of one of the batch see key j. It has one of these shapes: [B] the number of
/// keys, [2 B] their ends and then their starts, [B, T] or [B, S, T] not 0 where seen, [B, 1, M, M] the same
/// for all positions.
class FusedMask {
 public:
  FusedMask(const OpCall& call, std::size_t input, const FusedHeads& heads)
      : heads_(heads), rank_(call.in(input).rank()), values_(call.integers_in(input)) {
    const Tensor& mask = call.in(input, 1, 4);
    const std::int64_t batch = heads.batch(), last = mask.dim(-1);
    skipped_ = rank_ == 2 && last == heads.keys() - heads.past ? heads.past : 0;  // the past is seen
    row_ = last;
    const bool fits = rank_ == 1   ? last == batch || last == 2 * batch
                      : rank_ == 2 ? mask.dim(0) == batch && last + skipped_ == heads.keys()
                      : rank_ == 3
                          ? mask.dim(0) == batch && mask.dim(1) == heads.queries() && last == heads.keys()
                          : mask.dim(0) == batch && mask.dim(1) == 1 && mask.dim(2) == last &&
                                last >= heads.keys() && heads.past + heads.queries() <= last;
    if (rank_ == 1 && !fits) call.refuse("a mask of a packed batch");
    if (!fits) fail_mask(call, mask, heads);
    has_starts_ = rank_ == 1 && last == 2 * batch;
  }

  bool sees(std::int64_t b, std::int64_t i, std::int64_t j) const {
    switch (rank_) {
      case 1:
        return j < at(b) && (!has_starts_ || j >= at(heads_.batch() + b));
      case 2:
        return j < skipped_ || at(b * row_ + j - skipped_) != 0;
      case 3:
        return at((b * heads_.queries() + i) * row_ + j) != 0;
      default:
        return at((b * row_ + heads_.past + i) * row_ + j) != 0;
    }
  }

 private:
  std::int64_t at(std::int64_t i) const { return values_[static_cast<std::size_t>(i)]; }

  const FusedHeads& heads_;
  int rank_;
  std::vector<std::int64_t> values_;
  std::int64_t row_ = 0, skipped_ = 0;
  bool has_starts_ = false;
};

/// What is added to scores: the input attention_bias, and the node's mask_filter_value where the mask hides a
/// key. Undefined where there is neither.
Tensor bias_of(const OpCall& call, std::size_t mask, std::size_t bias, const FusedHeads& heads) {
  const Tensor given = call.has(bias) ? to(call.in(bias, 4, 4), DType::f32) : Tensor();
  if (!call.has(mask)) return given;
  const FusedMask seen(call, mask, heads);
  const float hidden = call.number("mask_filter_value", -10000);
  const Shape shape{heads.batch(), 1, heads.queries(), heads.keys()};
  std::vector<float> values;
  values.reserve(static_cast<std::size_t>(shape.numel()));
  for (std::int64_t b = 0; b < heads.batch(); ++b) {
    for (std::int64_t i = 0; i < heads.queries(); ++i) {
      for (std::int64_t j = 0; j < heads.keys(); ++j) values.push_back(seen.sees(b, i, j) ? 0 : hidden);
    }
  }
  const Tensor masked = Tensor::from(values, shape);
  return given.defined() ? add(given, masked) : masked;
}

/// The past in front of what is new, both [B, H, S, D].
void put_past_first(FusedHeads& heads, const Tensor& key, const Tensor& value) {
  heads.past = key.dim(2);
  heads.k = concat(std::vector<Tensor>{key, heads.k}, 2);
  heads.v = concat(std::vector<Tensor>{value, heads.v}, 2);
}

Tensor attended(const OpCall& call, const FusedHeads& heads, const Tensor& bias, Tensor* weights = nullptr) {
  return joined_heads(attend(call, heads.q, heads.k, heads.v,
                             {.scale = scale_of(call, heads.q.dim(3)),
                              .causal = call.integer("unidirectional", 0) != 0,
                              .bias = bias,
                              .kept = weights}));
}

/// Part `which` of heads that lie beside each other, [B, S, H, parts, D].
Tensor packed_part(const Tensor& x, std::int64_t which) { return transpose(select(x, 3, which), 1, 2); }

/// Query, key and value as the inputs 0 to 2 and the bias of their projections, input 3, give them.
FusedHeads read_multi_heads(const OpCall& call) {
  const std::int64_t count = call.integer("num_heads", 0);
  const Tensor& query = call.in(0, 3, 5);
  if (query.rank() == 5) {
    if (call.has(1) || call.has(3)) call.refuse("packed queries with keys or a bias of their own");
    INGOT_CHECK(query.dim(2) == count && query.dim(3) == 3,
                DimensionMismatch(call.where() + ": packed " + to_string(query.shape())));
    return {packed_part(query, 0), packed_part(query, 1), packed_part(query, 2)};
  }
  std::int64_t next = 0;
  const auto heads_of = [&](const Tensor& x) {
    Tensor biased = x;
    if (call.has(3)) {
      const Tensor& bias = call.in(3, 1, 1);
      INGOT_CHECK(next + x.dim(2) <= bias.dim(0),
                  DimensionMismatch(call.where() + ": a bias of " + to_string(bias.shape())));
      biased = add(x, narrow(bias, 0, next, x.dim(2)));
      next += x.dim(2);
    }
    return split_heads(call, biased, count);
  };
  FusedHeads heads{heads_of(call.in(0, 3, 3)), {}, {}};
  const Tensor& key = call.in(1, 3, 5);
  if (key.rank() == 5) {
    INGOT_CHECK(key.dim(2) == count && key.dim(3) == 2,
                DimensionMismatch(call.where() + ": packed " + to_string(key.shape())));
    heads.k = packed_part(key, 0);
    heads.v = packed_part(key, 1);
  } else if (key.rank() == 4) {  // of another model's part, as they are
    heads.k = key;
    heads.v = call.in(2, 4, 4);
  } else {
    heads.k = heads_of(key);
    heads.v = heads_of(call.in(2, 3, 3));
  }
  return heads;
}

Values multi_head_attention(const OpCall& call) {
  if (call.has(8) || call.has(9)) call.refuse("a cache that is shared or that beams reorder");
  FusedHeads heads = read_multi_heads(call);
  if (call.has(6)) put_past_first(heads, call.in(6, 4, 4), call.in(7, 4, 4));
  Tensor weights;
  const Tensor y =
      attended(call, heads, bias_of(call, 4, 5, heads), call.output_count() > 3 ? &weights : nullptr);
  Values outputs{y, contiguous(heads.k), contiguous(heads.v)};
  if (weights.defined()) outputs.emplace_back(to(weights, y.dtype()));
  return outputs;
}

/// Attention over one projection to queries, keys and values, [B, S, hidden + hidden + v_hidden].
Values attention_of(const OpCall& call, const Tensor& projected, std::size_t mask, std::size_t past,
                    std::size_t bias) {
  if (call.integer("do_rotary", 0) != 0 || call.integer("past_present_share_buffer", 0) != 0)
    call.refuse("rotary positions, or a past that shares its memory with the present");
  const std::int64_t third = projected.dim(2) / 3, count = call.integer("num_heads", 0);
  const std::vector<std::int64_t> sizes = call.integers("qkv_hidden_sizes", {third, third, third});
  INGOT_CHECK(
      sizes.size() == 3 &&
          std::ranges::all_of(sizes, [&](std::int64_t n) { return n >= 0 && n <= projected.dim(2); }) &&
          sizes[0] + sizes[1] + sizes[2] == projected.dim(2),
      DimensionMismatch(fmt::format("{}: queries, keys and values of {} in {}", call.where(),
                                    to_string(sizes), to_string(projected.shape()))));
  const auto part = [&](std::int64_t first, std::int64_t size) {
    return split_heads(call, narrow(projected, 2, first, size), count);
  };
  FusedHeads heads{part(0, sizes[0]), part(sizes[0], sizes[1]), part(sizes[0] + sizes[1], sizes[2])};
  if (call.has(past)) {
    const Tensor& state = call.in(past, 5, 5);
    INGOT_CHECK(state.dim(0) == 2,
                DimensionMismatch(call.where() + ": a past of shape " + to_string(state.shape())));
    put_past_first(heads, select(state, 0, 0), select(state, 0, 1));
  }
  const Tensor y = attended(call, heads, bias_of(call, mask, bias, heads));
  if (call.output_count() < 2) return {y};
  return {y, stack(std::vector<Tensor>{contiguous(heads.k), contiguous(heads.v)}, 0)};
}

Values projected_attention(const OpCall& call) {
  const Tensor projected = matmul(call.in(0, 3, 3), call.in(1, 2, 2));
  return attention_of(call, call.has(2) ? add(projected, call.in(2)) : projected, 3, 4, 5);
}

/// Codes of the input and of the weights, each with a scale; what they give is computed in floats.
Values quantized_attention(const OpCall& call) {
  const std::array<Value, 4> codes{call.value_in(0), call.value_in(1), call.optional(6), call.optional(7)};
  const Tensor sums = to(call.as("MatMulInteger", codes)[0].tensor, DType::f32);
  const Tensor projected = add(mul(sums, mul(call.in(3), call.in(4))), call.in(2));
  constexpr std::size_t kNoBias = 9;
  return attention_of(call, projected, 5, 8, kNoBias);
}

/// What GroupQueryAttention says of the sequences of its batch: how many tokens each has in all, and how many
/// of these are in the cache already.
struct Lengths {
  std::vector<std::int64_t> total, past;
  std::int64_t most = 0;
  bool is_prompt = false;
};

Lengths read_lengths(const OpCall& call, std::int64_t batch, std::int64_t queries, std::int64_t cached) {
  Lengths lengths{.total = call.integers_in(5), .past = {}, .most = call.integer_in(6)};
  lengths.is_prompt = queries == lengths.most;
  INGOT_CHECK(static_cast<std::int64_t>(lengths.total.size()) == batch,
              DimensionMismatch(call.where() + ": one length for each of the batch"));
  for (std::int64_t& total : lengths.total) {
    ++total;
    const std::int64_t past = lengths.is_prompt ? 0 : total - queries;
    INGOT_CHECK(
        total >= 1 && total <= lengths.most && past >= 0 && past <= cached,
        DimensionMismatch(fmt::format("{}: {} tokens in all, {} of them new, {} in the cache, {} at most",
                                      call.where(), total, queries, cached, lengths.most)));
    lengths.past.push_back(past);
  }
  return lengths;
}

/// New rows behind those that the cache has, for each of the batch: [B, H, T, D], T what the cache or the
/// longest needs.
Tensor extended(const Tensor& cache, const Tensor& rows, const Lengths& lengths) {
  const std::int64_t cached = cache.defined() ? cache.dim(2) : 0;
  const Tensor present =
      Tensor::zeros(rows.shape().with(2, std::max(cached, lengths.most)), rows.dtype(), rows.device());
  for (std::int64_t b = 0; b < rows.dim(0); ++b) {
    const std::int64_t past = lengths.past[static_cast<std::size_t>(b)];
    const Tensor to_rows = narrow(present, 0, b, 1);
    if (past > 0) copy_(narrow(to_rows, 2, 0, past), narrow(narrow(cache, 0, b, 1), 2, 0, past));
    const std::int64_t fit = std::min(rows.dim(2), present.dim(2) - past);
    copy_(narrow(to_rows, 2, past, fit), narrow(narrow(rows, 0, b, 1), 2, 0, fit));
  }
  return present;
}

/// The position of each query, [B, S].
Tensor query_positions(const OpCall& call, const Lengths& lengths, std::int64_t queries) {
  if (call.has(9) && !lengths.is_prompt) return call.in(9, 2, 2);
  const std::int64_t first = call.has(9) && call.in(9).numel() > 0 ? call.integers_in(9).front() : 0;
  std::vector<std::int64_t> positions;
  for (std::size_t b = 0; b < lengths.total.size(); ++b) {
    for (std::int64_t i = 0; i < queries; ++i) positions.push_back(first + lengths.past[b] + i);
  }
  return Tensor::from(positions, {static_cast<std::int64_t>(lengths.total.size()), queries});
}

/// Which keys each query of each of the batch sees, [B, 1, S, T].
Tensor ragged_bias(const OpCall& call, const Lengths& lengths, std::int64_t queries, std::int64_t window) {
  const bool causal = call.integer("causal", 1) != 0;
  const Shape shape{static_cast<std::int64_t>(lengths.total.size()), 1, queries, lengths.most};
  std::vector<float> values;
  values.reserve(static_cast<std::size_t>(shape.numel()));
  for (std::size_t b = 0; b < lengths.total.size(); ++b) {
    for (std::int64_t i = 0; i < queries; ++i) {
      const std::int64_t at = lengths.past[b] + i;
      for (std::int64_t j = 0; j < lengths.most; ++j) {
        const bool seen = j < lengths.total[b] && (!causal || j <= at) && (window == 0 || j > at - window);
        values.push_back(seen ? 0 : masked_score());
      }
    }
  }
  return Tensor::from(values, shape);
}

void refuse_variants(const OpCall& call) {
  if (call.has(12) || call.has(13) || call.text("k_quant_type", "NONE") != "NONE" ||
      call.text("v_quant_type", "NONE") != "NONE")
    call.refuse("a quantized cache");
  if (call.integer("sliding_window_cache", 0) != 0) call.refuse("a cache of one window");
  if (call.integer("qk_output", 0) != 0) call.refuse("scores as an output");
}

/// Queries, keys and values [B, S, H, D], of one packed input or of three.
std::array<Tensor, 3> read_grouped_heads(const OpCall& call) {
  const std::int64_t heads = call.integer("num_heads", 0), shared = call.integer("kv_num_heads", 0);
  const Tensor& query = call.in(0, 3, 3);
  const auto split = [&](const Tensor& x, std::int64_t count) {
    return transpose(split_heads(call, x, count), 1, 2);
  };
  if (call.has(1))
    return {split(query, heads), split(call.in(1, 3, 3), shared), split(call.in(2, 3, 3), shared)};
  INGOT_CHECK(
      heads > 0 && shared > 0 && heads < kMaxElements && shared < kMaxElements,
      FormatError(call.where(), -1, "num_heads", fmt::format("is {}, with {} of keys", heads, shared)));
  const Tensor all = split(query, heads + 2 * shared);
  return {narrow(all, 2, 0, heads), narrow(all, 2, heads, shared), narrow(all, 2, heads + shared, shared)};
}

Values grouped_query_attention(const OpCall& call) {
  refuse_variants(call);
  auto [q, k, v] = read_grouped_heads(call);
  const std::int64_t batch = q.dim(0), queries = q.dim(1);
  const Tensor past_key = call.has(3) ? call.in(3, 4, 4) : Tensor(),
               past_value = call.has(4) ? call.in(4, 4, 4) : Tensor();
  const Lengths lengths = read_lengths(call, batch, queries, past_key.defined() ? past_key.dim(2) : 0);
  if (call.has(14)) {
    const float eps = call.number("qk_norm_epsilon", 1e-6F);
    q = rms_norm(contiguous(q), call.in(14, 1, 1), eps);
    k = rms_norm(contiguous(k), call.in(15, 1, 1), eps);
  }
  if (call.integer("do_rotary", 0) != 0) {
    const Tensor positions = query_positions(call, lengths, queries);
    const Tensor cosine = angles_at(call, call.in(7, 2, 2), positions),
                 sine = angles_at(call, call.in(8, 2, 2), positions);
    const bool interleaved = call.integer("rotary_interleaved", 0) != 0;
    q = rotated(call, q, cosine, sine, interleaved);
    k = rotated(call, k, cosine, sine, interleaved);
  }
  const Tensor keys = extended(past_key, transpose(k, 1, 2), lengths),
               values = extended(past_value, transpose(v, 1, 2), lengths);
  const std::int64_t window = std::max<std::int64_t>(0, call.integer("local_window_size", -1));
  const bool causal = call.integer("causal", 1) != 0,
             even = std::ranges::all_of(lengths.total, [&](std::int64_t n) { return n == lengths.most; });
  Tensor bias = even && causal ? Tensor() : ragged_bias(call, lengths, queries, window);
  if (call.has(10)) {
    const Tensor given = to(call.in(10, 4, 4), DType::f32);
    bias = bias.defined() ? add(bias, given) : given;
  }
  const Tensor sink = call.has(11)                             ? call.in(11, 1, 1)
                      : call.integer("smooth_softmax", 0) != 0 ? Tensor::zeros({q.dim(2)}, DType::f32)
                                                               : Tensor();
  const float given_scale = call.number("scale", 0);
  const Tensor y =
      attend(call, transpose(q, 1, 2), narrow(keys, 2, 0, lengths.most), narrow(values, 2, 0, lengths.most),
             {.scale = given_scale != 0 ? given_scale : 1 / std::sqrt(static_cast<float>(q.dim(3))),
              .softcap = call.number("softcap", 0),
              .causal = even && causal,
              .window = window,
              .bias = bias,
              .sink = sink});
  return {joined_heads(y), keys, values};
}

/// Positions come second here; one alone is that of the first token.
Values fused_rotary_embedding(const OpCall& call) {
  if (call.integer("is_packed_batching", 0) != 0) call.refuse("a packed batch");
  const Tensor &x = call.in(0, 3, 4), &cache = call.in(2, 2, 2);
  const bool flat = x.rank() == 3, whole = call.integer("rotary_embedding_dim", 0) == 0;
  const std::int64_t head = std::max<std::int64_t>(2 * cache.dim(1), 1),
                     heads = flat && whole ? x.dim(2) / head : call.integer("num_heads", 0);
  const Tensor by_token = transpose(flat ? split_heads(call, x, heads) : x, 1, 2);
  Tensor positions = call.in(1, 1, 2);
  if (positions.numel() == 1) {
    std::vector<std::int64_t> all(static_cast<std::size_t>(by_token.dim(0) * by_token.dim(1)));
    const std::int64_t first = call.integer_in(1);
    for (std::size_t i = 0; i < all.size(); ++i)
      all[i] = first + static_cast<std::int64_t>(i) % by_token.dim(1);
    positions = Tensor::from(all, {by_token.dim(0), by_token.dim(1)});
  }
  Tensor y =
      transpose(rotated(call, by_token, angles_at(call, cache, positions),
                        angles_at(call, call.in(3, 2, 2), positions), call.integer("interleaved", 0) != 0),
                1, 2);
  if (const float factor = call.number("scale", 1); factor != 1) y = scale(y, factor);
  return {flat ? joined_heads(y) : contiguous(y)};
}

constexpr std::array kFusedAttentionOps = {
    OpRow{"com.microsoft.Attention", projected_attention},
    OpRow{"com.microsoft.GroupQueryAttention", grouped_query_attention},
    OpRow{"com.microsoft.MultiHeadAttention", multi_head_attention},
    OpRow{"com.microsoft.QAttention", quantized_attention},
    OpRow{"com.microsoft.RotaryEmbedding", fused_rotary_embedding}};

}  // namespace

std::span<const OpRow> fused_attention_ops() { return kFusedAttentionOps; }

}  // namespace ingot::onnx
