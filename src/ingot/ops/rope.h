#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "ingot/core/tensor.h"

namespace ingot {

/// Cosines and sines of every position and pair: [positions, R/2] each, f32.
struct RopeTable {
  Tensor cos, sin;
};

/// The table of the angles position · inverse_frequencies[i], R/2 of them. As in Hugging Face, angles are f32
/// matmuls; cos and sin are scaled by `attention_factor` (YaRN; 1 otherwise). Scaled variants (linear,
/// llama3, YaRN, ...) differ only in the frequencies.
RopeTable rope_table(std::span<const float> inverse_frequencies, std::int64_t positions,
                     float attention_factor = 1.0F, Device device = kCpu);

/// θ^(−2i/rotary_size) for i in [0, rotary_size / 2): the plain frequencies.
std::vector<float> rope_frequencies(std::int64_t rotary_size, double theta);

struct RopeOptions {
  /// Pairs are (2i, 2i + 1) as in Meta's Llama files, not (i, i + R/2) as in Hugging Face.
  bool interleaved = false;
  /// Position of the first token, where no positions are given.
  std::int64_t offset = 0;
  /// Only the first `heads` heads are rotated (q and k of a fused projection); 0: all.
  std::int64_t heads = 0;
  /// i64 or i32, [S] or [B, S]; undefined: offset, offset + 1, ...
  Tensor positions{};
};

/// x with rotary position embedding. x: [B, S, H, D]; the first R = 2 · table width elements of each head
/// rotate, the others stay. Throws ShapeMismatch, and KernelError for a position beyond the table.
Tensor rope(const Tensor& x, const RopeTable& table, const RopeOptions& options = {});
/// The same of an x that the caller gives up (`std::move`): it is rotated where it lies if nobody else holds
/// its memory, so that heads that stay are not copied.
Tensor rope_in_place(Tensor x, const RopeTable& table, const RopeOptions& options = {});
/// The same as rope() for q and k, which may differ in their numbers of heads only; in one launch where no
/// gradient is recorded.
std::array<Tensor, 2> rope(const Tensor& q, const Tensor& k, const RopeTable& table,
                           const RopeOptions& options = {});

/// rms_norm(x, weight, eps, weight_offset) over each head, then rope: QK norm (Henry et al. 2020) as Qwen 3
/// and Gemma 3 have it. One pass over memory each way, with the bits of the two (of the weight's gradient,
/// which sums over all heads, but for the order of that sum; on CUDA for heads of up to 512 elements). x: [B,
/// S, H, D]; weight: [D]. Throws what these throw.
Tensor rms_norm_rope(const Tensor& x, const Tensor& weight, float eps, float weight_offset,
                     const RopeTable& table, const RopeOptions& options = {});

struct HeadsAndWeight {
  const Tensor &x, &weight;
};
/// The same for q and k, as rope of two.
std::array<Tensor, 2> rms_norm_rope(const HeadsAndWeight& q, const HeadsAndWeight& k, float eps,
                                    float weight_offset, const RopeTable& table,
                                    const RopeOptions& options = {});

/// The weights [D] of the norms of q's and k's heads.
struct HeadNorms {
  const Tensor &query, &key;
  float eps, weight_offset;
};
/// q, k and v of x [B, S, heads + 2·kv_heads, D], where they are fused: q and k as rms_norm_rope gives
/// them, v a view of x. Their gradients are written fused too.
std::array<Tensor, 3> rms_norm_rope_qkv(const Tensor& x, std::int64_t kv_heads, const HeadNorms& norms,
                                        const RopeTable& table, const RopeOptions& options = {});

}  // namespace ingot
