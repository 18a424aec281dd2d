#pragma once

#include "ingot/kernels/kernel.h"

namespace ingot::kernels {

/// What queries may look at. Query i of S stands at position p = i + length − S of its sequence, where length
/// is T, or kv_length[b] where that is given (a cache that is not full). It sees the keys [lo, hi):
///   causal: hi ≤ p + 1;  window w > 0: p − j < w (and j − p < w when not causal);
///   chunk c > 0 (causal): lo ≥ s + ⌊(p − s) / c⌋·c, where s is doc_start[b, i] or 0;
///   doc_start: lo ≥ doc_start[b, i], and when not causal hi ≤ the end of i's document (S = T then).
struct AttentionMask {
  View doc_start{};  ///< [B, S] i32: position at which the document of each query starts; may be absent
  View kv_length{};  ///< [B] i32: valid keys of each sequence; may be absent
  std::int64_t window = 0;
  std::int64_t chunk = 0;
  bool causal = true;
};

/// The cache of one of many sequences that a GPU attends to in one launch: addresses on the device.
struct CacheEntry {
  void *keys, *values;               ///< [Hkv, capacity, D], contiguous
  float *key_scales, *value_scales;  ///< f32 [Hkv, capacity] of an i8 cache, else null
  std::int64_t capacity;
};

/// out = softmax(scale · q·kᵀ, masked) · v per head; with softcap c > 0 the scores are c·tanh(score / c).
/// Query head h reads key/value head h / (Hq / Hkv). A query that sees nothing gives 0 (and lse −∞).
/// q: [B, S, Hq, D], k: [B, T, Hkv, D], v: [B, T, Hkv, Dv], out: [B, S, Hq, Dv], one dtype, any strides but
/// adjacent last axes. Where q and out are f32, k and v may come from a cache in bf16, f16 or i8, and from
/// one in i8 on a GPU also where they are bf16 or f16; of i8 each row is its elements times k_scale or
/// v_scale [B, T, Hkv], f32 with adjacent positions. lse: [B, Hq, S] contiguous, f32 (f64 for f64), log Σ
/// exp(score), written unless absent.
struct AttentionArgs {
  View q, k, v, out;
  View lse{};
  AttentionMask mask{};
  float scale = 1.0F;
  float softcap = 0.0F;
  View k_scale{}, v_scale{};
  /// Of f32: q, k, v and probabilities may be rounded to bf16 for their matmuls, whose sums stay f32.
  bool bf16_matmuls = false;
  /// Only on a GPU, of few queries: CacheEntries, u8 [B, sizeof(CacheEntry)]. Keys and values of sequence b
  /// are those of entry b; k and v tell their dtype and sizes, with T the largest capacity, and kv_length is
  /// there.
  View caches{};
  /// Scratch for the parts of few queries, f32 [attention_scratch(args)]; kernels of a GPU need it to split
  /// the keys among many blocks. Absent: one part.
  View scratch{};
};
inline Kernel<AttentionArgs> attention("attention");
/// Of all queries with all keys, or with half of them where the mask is causal: the field's count.
inline double flops(const AttentionArgs& args) {
  const std::int64_t queries = args.q.numel() / args.q.dim(-1);
  const double pairs = static_cast<double>(queries) * static_cast<double>(args.k.dim(1));
  const bool halved = args.mask.causal && args.q.dim(1) > 1;
  return 2 * pairs * static_cast<double>(args.q.dim(-1) + args.v.dim(-1)) * (halved ? 0.5 : 1);
}

/// So many queries of a sequence are few: reading the keys and values is most of the work.
inline constexpr std::int64_t kFewQueries = 8;
/// The keys of a part, which begins at a multiple of that: a query's parts are the same whatever else is in
/// the call, and so are its bits.
inline constexpr std::int64_t kAttentionPartKeys = 128;

/// Elements of a head that a GPU's kernels take.
inline constexpr std::int64_t kWidestHead = 256;

/// Whether caches of such heads can be given as CacheEntries: rows that are read 16 bytes at a time.
constexpr bool takes_cache_entries(std::int64_t head_size, DType dtype) {
  return head_size <= kWidestHead && head_size % 8 == 0 &&
         head_size * static_cast<std::int64_t>(byte_size(dtype)) % 16 == 0;
}

/// How many f32 `scratch` needs, by shapes alone: of each part of a query of a head Σ weight·v, Σ weight and
/// the largest score. 0 where nothing is split.
inline std::int64_t attention_scratch(const AttentionArgs& args) {
  const std::int64_t parts = (args.k.dim(1) + kAttentionPartKeys - 1) / kAttentionPartKeys;
  if (args.q.dim(1) > kFewQueries || parts <= 1) return 0;
  return args.q.dim(0) * args.q.dim(1) * args.q.dim(2) * parts * (args.v.dim(3) + 2);
}

/// Gradients of attention; dq, dk, dv may be absent and have any strides (adjacent last axes).
struct AttentionBackwardArgs {
  View q, k, v, out, lse, dout;
  View dq{}, dk{}, dv{};
  /// Scratch for Σ dout·out of each query, like lse; kernels of a GPU need it.
  View delta{};
  AttentionMask mask{};
  float scale = 1.0F;
  float softcap = 0.0F;
  bool accumulate_dq = false;
  bool accumulate_dk = false;
  bool accumulate_dv = false;
};
inline Kernel<AttentionBackwardArgs> attention_backward("attention_backward");
/// Five matmuls for the forward pass' two.
inline double flops(const AttentionBackwardArgs& args) {
  return 2.5 *
         flops(AttentionArgs{.q = args.q, .k = args.k, .v = args.v, .out = args.out, .mask = args.mask});
}

}  // namespace ingot::kernels
