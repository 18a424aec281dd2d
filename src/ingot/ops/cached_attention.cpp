#include "ingot/ops/cached_attention.h"

#include <algorithm>
#include <cmath>

#include "ingot/base/error.h"
#include "ingot/base/parallel.h"
#include "ingot/core/host_memory.h"
#include "ingot/core/meta_backend.h"
#include "ingot/kernels/attention.h"
#include "ingot/kernels/kernel_traits.h"
#include "ingot/ops/attention_launch.h"
#include "ingot/ops/attention_sinks.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/common.h"
#include "ingot/ops/composed_attention.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/view.h"

namespace ingot {
namespace {

void check(const Tensor& q, std::span<const CachedSequence> sequences) {
  check_defined("cached_attention", {&q});
  INGOT_CHECK(q.rank() == 3,
              DimensionMismatch("cached_attention takes queries [tokens, heads, head size], got " +
                                to_string(q.shape())));
  std::int64_t queries = 0;
  for (const CachedSequence& s : sequences) {
    check_defined("cached_attention", {&s.keys, &s.values});
    INGOT_CHECK(s.keys.rank() == 4 && s.keys.dim(0) == 1 && s.keys.dim(3) == q.dim(2) &&
                    s.keys.shape() == s.values.shape() && q.dim(1) % s.keys.dim(2) == 0 &&
                    s.keys.dim(1) >= s.queries,
                ShapeMismatch("cached_attention (keys)", {1, s.queries, q.dim(1), q.dim(2)},
                              s.keys.shape().to_vector(),
                              "keys and values are [1, tokens, key/value heads, head size]"));
    queries += s.queries;
  }
  INGOT_CHECK(queries == q.dim(0), ShapeMismatch("cached_attention (queries)", {queries, q.dim(1), q.dim(2)},
                                                 q.shape().to_vector(), "every query belongs to a sequence"));
}

bool has_few_queries(const CachedSequence& s) { return s.queries <= kernels::kFewQueries; }

// Tensor cores take many queries in the dtype of what is cached.
DType query_dtype(const Tensor& q, std::span<const CachedSequence> sequences) {
  if (!kernels::kernel_traits(q.device()).half_precision_caches || sequences.empty()) return DType::f32;
  if (std::ranges::all_of(sequences, has_few_queries)) return q.dtype();
  const DType cached = sequences.front().keys.dtype();
  if (cached != DType::i8) return cached;
  return is_half_precision(q.dtype()) ? q.dtype() : DType::f16;
}

// The values of an i8 cache.
CachedSequence dequantized(const CachedSequence& s, DType dtype) {
  const auto values = [dtype](const Tensor& x, const Tensor& scale) {
    return to(to(x, DType::f32) * unsqueeze(scale, 3), dtype);
  };
  return {.queries = s.queries,
          .keys = values(s.keys, s.key_scale),
          .values = values(s.values, s.value_scale),
          .key_scale = {},
          .value_scale = {},
          .length = s.length};
}

// Rows [at, at + count) of [N, H, D] as [1, count, H, D].
View rows(const Tensor& x, std::int64_t at, std::int64_t count) {
  View view = x.view();
  view.data = view.as<char>() + at * x.stride(0) * static_cast<std::int64_t>(byte_size(x.dtype()));
  view.rank = 4;
  view.shape = {1, count, x.dim(1), x.dim(2)};
  view.strides = {0, x.stride(0), x.stride(1), x.stride(2)};
  return view;
}

// Rows [at, at + count) of log Σ exp(score), kept sequence after sequence as kernels write it, [1, H, count].
View lse_rows(const Tensor& lse, std::int64_t at, std::int64_t count) {
  if (!lse.defined()) return {};
  return contiguous_view(lse.view().as<float>() + at * lse.dim(1), Shape({1, lse.dim(1), count}), DType::f32,
                         lse.device());
}

// The same as [N, H].
Tensor lse_by_query(const Tensor& lse, std::span<const CachedSequence> sequences) {
  if (std::ranges::all_of(sequences, [](const CachedSequence& s) { return s.queries == 1; })) return lse;
  std::vector<Tensor> rows;
  rows.reserve(sequences.size());
  std::int64_t at = 0;
  for (const CachedSequence& s : sequences) {
    const Tensor mine = reshape(narrow(lse, 0, at, s.queries), {lse.dim(1), s.queries});
    rows.push_back(transpose(mine, 0, 1));
    at += s.queries;
  }
  return concat(rows, 0);
}

Tensor room_for_lse(const AttentionOptions& options, const Tensor& q) {
  return options.sinks.defined() ? Tensor::empty({q.dim(0), q.dim(1)}, DType::f32, q.device()) : Tensor();
}

// Whether the device has a kernel for these arguments. A dry run counts on one.
bool has_kernel(const kernels::AttentionArgs& args) {
  if (args.q.device == kMeta) return true;
  return std::ranges::any_of(kernels::attention.implementations(args.q.device.type), [&](const auto& found) {
    return found.accepts == nullptr || found.accepts(args);
  });
}

float scale_of(const AttentionOptions& options, const Tensor& q) {
  return options.scale == 0.0F ? 1.0F / std::sqrt(static_cast<float>(q.dim(2))) : options.scale;
}

}  // namespace

Tensor cached_attention(const Tensor& queries, std::span<const CachedSequence> sequences,
                        const AttentionOptions& options) {
  const Scope scope(ScopeKind::op, "cached_attention");
  check(queries, sequences);
  const DType dtype = query_dtype(queries, sequences);
  const Tensor q = to(queries.stride(-1) == 1 ? queries : contiguous(queries), dtype);
  const Tensor out = Tensor::empty(q.shape(), dtype, q.device()), lse = room_for_lse(options, q);
  std::vector<std::int64_t> starts{0};
  for (const CachedSequence& s : sequences) starts.push_back(starts.back() + s.queries);
  const auto attend = [&](std::size_t i) {
    const bool for_tensor_cores = kernels::kernel_traits(q.device()).half_precision_caches &&
                                  !has_few_queries(sequences[i]) && sequences[i].keys.dtype() == DType::i8;
    const CachedSequence s = for_tensor_cores ? dequantized(sequences[i], dtype) : sequences[i];
    const kernels::AttentionArgs args{
        .q = rows(q, starts[i], s.queries),
        .k = s.keys.view(),
        .v = s.values.view(),
        .out = rows(out, starts[i], s.queries),
        .lse = lse_rows(lse, starts[i], s.queries),
        .mask = {.kv_length = s.length.view(), .window = options.window, .chunk = options.chunk},
        .scale = scale_of(options, q),
        .softcap = options.softcap,
        .k_scale = s.key_scale.view(),
        .v_scale = s.value_scale.view(),
        .bf16_matmuls = options.bf16_matmuls};
    if (has_kernel(args)) return launch_attention(args);
    INGOT_CHECK(!lse.defined(),
                NotImplemented("attention sinks with heads that no kernel of the device takes"));
    AttentionOptions scaled = options;
    scaled.scale = args.scale;
    copy_(narrow(out, 0, starts[i], s.queries),
          composed_attention(narrow(q, 0, starts[i], s.queries),
                             s.keys.dtype() == DType::i8 ? dequantized(s, dtype) : s, scaled));
  };
  // Few sequences: all threads inside each, by heads. Many: a sequence per thread, without further splitting;
  // some are longer than others.
  // A device has its own threads, and works in the order of this thread's stream.
  const auto count = static_cast<std::int64_t>(sequences.size());
  if (count < num_threads() || !has_host_memory(q.device())) {
    for (std::int64_t i = 0; i < count; ++i) attend(static_cast<std::size_t>(i));
  } else {
    parallel_share(count, 1, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) attend(static_cast<std::size_t>(i));
    });
  }
  return lse.defined() ? shrunk_by_sinks(options.sinks, out, lse_by_query(lse, sequences)) : out;
}

Tensor cached_attention(const Tensor& queries, const CachedByEntries& sequences,
                        const AttentionOptions& options) {
  const Scope scope(ScopeKind::op, "cached_attention");
  const std::int64_t count = sequences.entries.dim(0), each = queries.dim(0) / count;
  INGOT_CHECK(each * count == queries.dim(0) && each <= kernels::kFewQueries,
              ShapeMismatch("cached_attention (queries)", {count * kernels::kFewQueries}, {queries.dim(0)},
                            "as many for each sequence, and few"));
  const Tensor q = queries.stride(-1) == 1 ? queries : contiguous(queries);
  const Tensor out = Tensor::empty(q.shape(), q.dtype(), q.device()), lse = room_for_lse(options, q);
  const auto by_sequence = [&](const Tensor& x) {  // [N, H, D] as [B, each, H, D]
    View view = rows(x, 0, x.dim(0));
    view.shape[0] = count;
    view.shape[1] = each;
    view.strides[0] = each * view.strides[1];
    return view;
  };
  const auto cache_like = [&](const Tensor& x) {
    View view = x.view();
    view.shape[0] = count;
    view.shape[1] = sequences.capacity;
    view.strides = {0, x.dim(3), sequences.capacity * x.dim(3), 1};  // as a CacheEntry has them
    return view;
  };
  launch_attention(
      {.q = by_sequence(q),
       .k = cache_like(sequences.keys_like),
       .v = cache_like(sequences.values_like),
       .out = by_sequence(out),
       .lse = lse.defined()
                  ? contiguous_view(lse.view().data, Shape({count, q.dim(1), each}), DType::f32, lse.device())
                  : View{},
       .mask = {.kv_length = sequences.lengths.view(), .window = options.window, .chunk = options.chunk},
       .scale = scale_of(options, q),
       .softcap = options.softcap,
       .caches = sequences.entries.view()});
  if (!lse.defined()) return out;
  const Tensor by_query = transpose(reshape(lse, {count, q.dim(1), each}), 1, 2);
  return shrunk_by_sinks(options.sinks, out, reshape(contiguous(by_query), {q.dim(0), q.dim(1)}));
}

}  // namespace ingot
