#pragma once

#include <cstdint>

#include "ingot/core/tensor.h"

namespace ingot {

struct AttentionOptions {
  bool causal = true;
  /// Factor of the scores; 0 means 1/√D.
  float scale = 0.0F;
  /// A query sees the last `window` keys only, its own included; 0: all.
  std::int64_t window = 0;
  /// Causal alone: a query sees the keys of its chunk of so many positions, counted from where its document
  /// starts; 0: off (Llama 4).
  std::int64_t chunk = 0;
  /// Scores become softcap·tanh(score / softcap); 0: off.
  float softcap = 0.0F;
  /// Packed sequences: i32 [B, S], for each token the position at which its document starts. No token attends
  /// across documents. Without causal it needs S = T.
  Tensor doc_start{};
  /// A key/value cache that is not full: i32 [B], the number of valid keys of each sequence. The queries are
  /// the last S of them.
  Tensor kv_length{};
  /// [Hq]: a logit of each head that takes part in its softmax and stands for no value (attention sinks,
  /// gpt-oss): what it takes of the weights goes nowhere. Gets gradients.
  Tensor sinks{};
  /// Without gradients: the matmuls may round what they read to bf16, where that is faster. Their sums, and
  /// the softmax, stay f32.
  bool bf16_matmuls = false;
};

/// [B, S, H·D] as the [B, S, H, D] that attention reads, H = `heads`.
Tensor split_heads(const Tensor& x, std::int64_t heads);

/// Scaled dot-product attention with grouped heads, softmax(scale·q·kᵀ)·v. q: [B, S, Hq, D]; k: [B, T, Hkv,
/// D]; v: [B, T, Hkv, Dv], Hq a multiple of Hkv; returns [B, S, Hq, Dv]. With S < T the queries are the last
/// S positions. Never holds S × T scores (FlashAttention, Dao 2022 and 2023), but for heads wider than the
/// device's kernels take (KernelTraits::widest_head). Strided views are read in place. Throws ShapeMismatch.
Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options = {});

/// The same on a fused projection qkv: [B, S, Hq + 2·Hkv, D], heads of q, then of k, then of v; its gradient
/// is written in one piece. Returns [B, S, Hq, D].
Tensor attention_qkv(const Tensor& qkv, std::int64_t query_heads, std::int64_t key_value_heads,
                     const AttentionOptions& options = {});

}  // namespace ingot
