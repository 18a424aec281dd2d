#include "ingot/models/language/decoder_attention.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <utility>
#include <vector>

#include "ingot/base/parallel.h"
#include "ingot/core/host_memory.h"
#include "ingot/models/language/decoder_init.h"
#include "ingot/nn/module_scope.h"
#include "ingot/ops/attention.h"
#include "ingot/ops/cached_attention.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/norm.h"
#include "ingot/ops/pad.h"
#include "ingot/ops/pointwise.h"
#include "ingot/ops/rope.h"
#include "ingot/ops/view.h"

namespace ingot {

std::int64_t wanted_rows(std::span<const CacheSegment> segments) {
  std::int64_t rows = 0;
  for (const CacheSegment& segment : segments) rows += segment.wanted();
  return rows;
}

Tensor wanted(const Tensor& x, const DecoderContext& context) {
  if (!context.wanted_only || wanted_rows(context.segments) == x.dim(1)) return x;
  std::vector<Tensor> pieces;
  std::int64_t at = 0;
  for (const CacheSegment& segment : context.segments) {
    if (segment.wanted() > 0) pieces.push_back(narrow(x, 1, at + segment.unwanted, segment.wanted()));
    at += segment.tokens;
  }
  return pieces.size() == 1 ? pieces.front() : concat(pieces, 1);
}

namespace {

// Puts the keys and values of all segments into their caches, which the device finds by entries, and attends
// to what is in them: one launch of each for all.
Tensor attend_together(const DecoderContext& context, std::int64_t layer, const Qkv& x,
                       const AttentionOptions& options) {
  const CacheOffsets& offsets = context.offsets;
  const Tensor entries = select(offsets.entries, 0, layer);
  const KvCache& one = *context.segments.front().cache;
  if (x.keys().defined())
    append_to_all(one, layer, entries, offsets.starts, select(x.keys(), 0, 0), select(x.values(), 0, 0));
  std::int64_t capacity = offsets.capacity;
  for (const CacheSegment& segment : context.segments)
    capacity = std::max(capacity, segment.cache->capacity());
  const KvCache::Entries like = one.entries(layer, 1);
  return cached_attention(select(x.queries(), 0, 0),
                          {.entries = entries,
                           .keys_like = like.keys,
                           .values_like = like.values,
                           .capacity = capacity,
                           .lengths = offsets.ends},
                          options);
}

// Some tokens' keys and values, or none.
struct NewKeys {
  Tensor keys, values;
  NewKeys part(std::int64_t at, std::int64_t count) const {
    if (!keys.defined()) return {};
    return {narrow(keys, 0, at, count), narrow(values, 0, at, count)};
  }
};

// What a segment's cache has by then of a layer, with `added` behind the rest; its length where the device
// alone knows it.
std::pair<KvCache::Entries, Tensor> cached_entries(const DecoderContext& context, std::int64_t index,
                                                   std::int64_t layer, const NewKeys& added) {
  const CacheSegment& segment = context.segments[static_cast<std::size_t>(index)];
  KvCache& cache = *segment.cache;
  if (!context.offsets.starts.defined()) {
    if (added.keys.defined()) cache.append(layer, added.keys, added.values);
    return {cache.entries(layer, cache.length() + segment.tokens), Tensor()};
  }
  if (added.keys.defined())
    cache.append_behind(layer, narrow(context.offsets.starts, 0, index, 1), added.keys, added.values);
  return {cache.entries(layer, cache.capacity()), narrow(context.offsets.ends, 0, index, 1)};
}

// Puts the keys and values of all segments, where there are any, into their caches. What the caches then have
// of `layer`, for each segment.
std::vector<CachedSequence> append_to_each(const DecoderContext& context, std::int64_t layer, const Qkv& x) {
  const std::span<const CacheSegment> segments = context.segments;
  const NewKeys all =
      x.keys().defined() ? NewKeys{select(x.keys(), 0, 0), select(x.values(), 0, 0)} : NewKeys{};
  std::vector<std::int64_t> starts{0};
  starts.reserve(segments.size() + 1);
  for (const CacheSegment& segment : segments) starts.push_back(starts.back() + segment.tokens);
  std::vector<CachedSequence> sequences(segments.size());
  const auto append = [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const CacheSegment& segment = segments[static_cast<std::size_t>(i)];
      const auto [entries, length] =
          cached_entries(context, i, layer, all.part(starts[static_cast<std::size_t>(i)], segment.tokens));
      sequences[static_cast<std::size_t>(i)] = {
          .queries = context.wanted_only ? segment.wanted() : segment.tokens,
          .keys = entries.keys,
          .values = entries.values,
          .key_scale = entries.key_scale,
          .value_scale = entries.value_scale,
          .length = length};
    }
  };
  // Many short appends are mostly views, which threads share. Few sequences: all threads inside each.
  const std::int64_t count = std::ssize(segments);
  if (count < num_threads() || !has_host_memory(x.queries().device())) {
    append(0, count);
  } else {
    parallel_for(count, 1, append);
  }
  return sequences;
}

// Puts the keys and values, where there are any, into the caches and attends to what is in them of `layer`.
Tensor attend_cached(const DecoderContext& context, std::int64_t layer, const Qkv& x,
                     const AttentionOptions& options) {
  const Tensor queries = x.queries();
  if (context.offsets.entries.defined())
    return to(attend_together(context, layer, x, options), queries.dtype());
  std::vector<CachedSequence> sequences = append_to_each(context, layer, x);
  std::erase_if(sequences, [](const CachedSequence& s) { return s.queries == 0; });
  if (sequences.empty()) return {};
  return to(cached_attention(select(wanted(queries, context), 0, 0), sequences, options), queries.dtype());
}

}  // namespace

namespace {

std::vector<ProjectionGroup::Layer> projections(const LanguageConfig& c, std::int64_t index) {
  if (c.is_latent()) return LatentHeads::projections(c);
  const auto layer = [&](const char* name, std::int64_t count) {
    return ProjectionGroup::Layer{
        name, decoder_linear(c.hidden_size, count * c.head_size(index), c.qkv_bias, decoder_weight_init(c))};
  };
  std::vector<ProjectionGroup::Layer> layers{layer("q_proj", c.num_attention_heads)};
  if (c.reads_other_keys(index)) return layers;
  layers.push_back(layer("k_proj", c.kv_heads(index)));
  if (!c.has_keys_as_values(index)) layers.push_back(layer("v_proj", c.kv_heads(index)));
  if (c.attention_gate) layers.push_back(layer("gate_proj", c.num_attention_heads));
  return layers;
}

// What scores are multiplied by; 0: 1/√ the width of queries.
double score_factor(const LanguageConfig& c) {
  if (c.attention_multiplier > 0) return c.attention_multiplier;
  if (c.query_pre_attn_scalar > 0) return 1 / std::sqrt(static_cast<double>(c.query_pre_attn_scalar));
  const bool wider = c.is_latent() || c.position == PositionKind::alibi;  // than heads
  return wider ? 1 / std::sqrt(static_cast<double>(c.head_dim)) : 0.0;
}

// Slopes of all heads: a geometric series; where their number is not a power of two, those between come last.
std::vector<double> slopes_of(const LanguageConfig& c) {
  const auto heads = static_cast<std::uint64_t>(c.num_attention_heads);
  const std::uint64_t power = std::bit_floor(heads);
  const double step = c.alibi_bias_max / static_cast<double>(power);
  std::vector<double> slopes;
  for (std::uint64_t i = 0; i < heads; ++i) {
    const double at = i < power ? static_cast<double>(i + 1) : static_cast<double>(i - power) + 0.5;
    slopes.push_back(std::exp2(-step * at));
  }
  return slopes;
}

}  // namespace

Tensor alibi_query_columns(const LanguageConfig& c, Device device) {
  std::vector<float> columns;
  for (const double slope : slopes_of(c)) {
    const double scaled = c.alibi_before_scale
                              ? static_cast<double>(static_cast<float>(bf16(static_cast<float>(slope))))
                              : slope / score_factor(c);
    columns.insert(columns.end(), 2, static_cast<float>(scaled));
    columns.insert(columns.end(), kAlibiColumns - 2, 0.0F);
  }
  return Tensor::from(columns, {1, 1, c.num_attention_heads, kAlibiColumns}, device);
}

Tensor alibi_key_columns(const Tensor& positions) {
  const double step = 256;
  const Tensor at = reshape(to(positions, DType::f32), {positions.dim(0), positions.dim(1), 1, 1});
  const Tensor high = pointwise([step](const auto& p) { return floor((p + 0.5) / step) * step; }, at);
  return pad(concat(std::vector<Tensor>{high, at - high}, 3), 3, 0, kAlibiColumns - 2);
}

Attention::Attention(const ParamSource& source, const LanguageConfig& c, std::int64_t layer)
    : qkv_proj(source, projections(c, layer)),
      latent(c.is_latent() ? std::make_unique<LatentHeads>(source, c) : nullptr),
      o_proj(source.scope("o_proj"),
             decoder_linear(c.num_attention_heads * c.value_size(layer), c.hidden_size,
                            c.attention_output_bias, decoder_residual_init(c))),
      sinks(c.attention_sinks
                ? source.take("sinks", {c.num_attention_heads}, decoder_weight_init(c), {.decay = false})
                : Parameter{}),
      heads(c.num_attention_heads),
      kv_heads(c.kv_heads(layer)),
      head_dim(c.head_size(layer)),
      value_size(c.value_size(layer)),
      window(c.window(layer)),
      chunk(c.chunk(layer)),
      key_layer(c.key_layer(layer)),
      scale(static_cast<float>(score_factor(c))),
      softcap(static_cast<float>(c.attn_logit_softcapping)),
      plain_eps(static_cast<float>(c.norm_eps)),
      clip(c.clip_qkv),
      key_multiplier(c.key_multiplier),
      qk_norm(c.qk_norm == QkNorm::plain_after_rope && !c.rotates(layer) ? QkNorm::none : c.qk_norm),
      rotary(c.rotates(layer)),
      interleaved(c.interleaved_rope),
      slides(c.slides(layer)),
      causal(!c.use_bidirectional_attention),
      gated(c.attention_gate),
      grows(c.floor_scale == 0 || !c.rotates(layer)),
      reads_others(c.reads_other_keys(layer)),
      gives_keys(c.gives_keys(layer)),
      keys_as_values(c.has_keys_as_values(layer)),
      value_norm(c.value_norm) {
  if (qk_norm == QkNorm::none || qk_norm == QkNorm::plain_after_rope) return;
  const bool one_row = qk_norm == QkNorm::width;
  const auto norm_of = [&](const char* name, std::int64_t count) {
    return std::make_unique<RmsNorm>(source.scope(name),
                                     RmsNormOptions{.width = one_row ? count * head_dim : head_dim,
                                                    .eps = static_cast<float>(c.norm_eps),
                                                    .weight_offset = c.norm_unit_offset ? 1.0F : 0.0F});
  };
  q_norm = norm_of("q_norm", heads);
  if (!reads_others) k_norm = norm_of("k_norm", kv_heads);
}

Tensor Attention::operator()(const LinearInput& x, const DecoderContext& context, std::int64_t layer) const {
  const ModuleScope scope(o_proj.weight, 2);
  const Tensor y = latent != nullptr ? mixed_latents(x, context, layer)
                   : reads_others    ? mixed_with_others(x, context)
                                     : mixed(x, context, layer);
  if (!y.defined()) return {};
  return o_proj(reshape(y, {x.shape()[0], -1, heads * value_size}));
}

namespace {

Qkv clipped(Qkv qkv, double limit) {
  if (limit == 0) return qkv;
  const auto part = [limit](const Tensor& x) {
    return pointwise([limit](const auto& value) { return clamp(value, -limit, limit); }, x);
  };
  return {part(qkv.queries()), part(qkv.keys()), part(qkv.values())};
}

}  // namespace

namespace {

// Each row over the root of its mean square.
Tensor plain_norm(const Tensor& x, float eps) {
  return rms_norm(x, Tensor::zeros({x.dim(-1)}, x.dtype(), x.device()), eps, 1.0F);
}

// y [..., heads, D] by the sigmoid of gate [batch, sequence, heads · D], where there is one.
Tensor weighed(const Tensor& y, const Tensor& gate) {
  return gate.defined() ? y * sigmoid(reshape(gate, y.shape())) : y;
}

}  // namespace

// Queries alone; keys and values are those of an earlier layer.
Tensor Attention::mixed_with_others(const LinearInput& x, const DecoderContext& context) const {
  const Tensor projected = split_heads(qkv_proj.each(x).front(), heads);
  const Tensor queries = rms_norm_rope(projected, q_norm->weight.value, q_norm->eps, q_norm->weight_offset,
                                       table(context), {.positions = context.positions});
  if (!context.segments.empty())
    return attend_cached(context, key_layer, Qkv(queries, Tensor(), Tensor()), options(context));
  const SharedKeys& others = *context.shared;
  return attention(Qkv(queries, others.keys, others.values), options(context));
}

// Without a norm or rotation yet.
Qkv Attention::projected(const LinearInput& x) const {
  if (!keys_as_values) return split_heads(qkv_proj(x), heads, kv_heads);
  const std::vector<Tensor> parts = qkv_proj.each(x);
  const Tensor keys = split_heads(parts[1], kv_heads);
  return {split_heads(parts[0], heads), keys, keys};
}

Tensor Attention::mixed(const LinearInput& x, const DecoderContext& context, std::int64_t layer) const {
  Projections parts;
  if (gated) parts.each = qkv_proj.each(x);
  const Tensor gate = gated ? parts.each.back() : Tensor();
  Qkv qkv = gated ? split_heads(std::move(parts), heads, kv_heads) : projected(x);
  if (qk_norm != QkNorm::width) qkv = clipped(std::move(qkv), clip);  // OLMoE's norms come first
  if (key_multiplier != 1) qkv = {qkv.queries(), qkv.keys() * key_multiplier, qkv.values()};
  qkv = normalized_and_rotated(std::move(qkv), context);
  if (value_norm) qkv = {qkv.queries(), qkv.keys(), plain_norm(qkv.values(), plain_eps)};
  if (gives_keys && context.segments.empty()) *context.shared = {qkv.keys(), qkv.values()};
  if (grows && context.query_scale.defined())
    qkv = {to(to(qkv.queries(), DType::f32) * context.query_scale, qkv.queries().dtype()), qkv.keys(),
           qkv.values()};
  if (context.alibi_keys.defined()) qkv = with_alibi(qkv, context);
  if (context.segments.empty()) return weighed(attention(qkv, options(context)), gate);
  const Tensor y = attend_cached(context, layer, qkv, options(context));
  if (gated && y.defined()) return weighed(y, wanted(gate, context));
  return y.defined() && context.alibi_keys.defined() ? contiguous(narrow(y, -1, 0, head_dim)) : y;
}

// A cache has values as wide as keys.
Qkv Attention::with_alibi(const Qkv& qkv, const DecoderContext& context) const {
  const auto widened = [](const Tensor& x, const Tensor& columns) {
    const Tensor behind = broadcast_to(to(columns, x.dtype()), x.shape().with(3, kAlibiColumns));
    return concat(std::vector<Tensor>{x, behind}, 3);
  };
  const Tensor values = qkv.values();
  return {widened(qkv.queries(), context.alibi_queries), widened(qkv.keys(), context.alibi_keys),
          context.segments.empty() ? values : pad(values, 3, 0, kAlibiColumns)};
}

Tensor Attention::mixed_latents(const LinearInput& x, const DecoderContext& context,
                                std::int64_t layer) const {
  const LatentHeads::Parts parts = latent->parts(qkv_proj.each(x), table(context), context.positions);
  if (context.segments.empty()) return attention(latent->of_heads(parts), options(context));
  const Tensor matrices = latent->matrices(parts.latents.dtype());
  const Tensor y = attend_cached(context, layer, latent->of_latents(parts, matrices), options(context));
  return y.defined() ? latent->values(y, matrices) : y;
}

const RopeTable& Attention::table(const DecoderContext& context) const {
  return slides ? context.rope.sliding() : context.rope.full();
}

Qkv Attention::normalized_across_heads(const Qkv& qkv) const {
  const Tensor q = qkv.queries(), k = qkv.keys();
  const auto rows = [](const Tensor& x) { return reshape(contiguous(x), {x.dim(0), x.dim(1), -1}); };
  const std::array x{rows(q), rows(k)};
  const std::vector<Tensor> normed = q_norm->split
                                         ? rms_norms_of_ranks(std::array{q_norm.get(), k_norm.get()}, x)
                                         : std::vector<Tensor>{(*q_norm)(x[0]), (*k_norm)(x[1])};
  return {reshape(normed[0], q.shape()), reshape(normed[1], k.shape()), qkv.values()};
}

Qkv Attention::normalized_and_rotated(Qkv qkv, const DecoderContext& context) const {
  const auto rotated = [&](Qkv x) {
    return rotary ? rotate(std::move(x), table(context), context.positions, interleaved) : x;
  };
  if (qk_norm == QkNorm::none) return rotated(std::move(qkv));
  if (qk_norm == QkNorm::plain_after_rope) {
    qkv = rotated(std::move(qkv));
    return {plain_norm(qkv.queries(), plain_eps), plain_norm(qkv.keys(), plain_eps), qkv.values()};
  }
  if (qk_norm == QkNorm::width) return rotated(clipped(normalized_across_heads(qkv), clip));
  const HeadNorms norms{q_norm->weight.value, k_norm->weight.value, q_norm->eps, q_norm->weight_offset};
  if (qk_norm == QkNorm::head_after_rope) return normalize(rotated(std::move(qkv)), norms);
  return rotary && !interleaved
             ? normalize_and_rotate(std::move(qkv), norms, table(context), context.positions)
             : rotated(normalize(std::move(qkv), norms));
}

AttentionOptions Attention::options(const DecoderContext& context) const {
  AttentionOptions options;
  options.causal = causal;
  options.scale = scale;
  options.softcap = softcap;
  options.window = window;
  options.chunk = chunk;
  options.doc_start = context.doc_start;
  options.sinks = sinks.value;
  options.bf16_matmuls = o_proj.quantizes_input();
  return options;
}

void Attention::visit(ParamVisitor& v) {
  qkv_proj.visit(v);
  if (latent != nullptr) latent->visit(v);
  v("o_proj", o_proj);
  v("q_norm", q_norm);
  v("k_norm", k_norm);
  v("sinks", sinks);
}

}  // namespace ingot
