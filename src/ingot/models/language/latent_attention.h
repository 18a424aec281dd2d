#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "ingot/models/language/config.h"
#include "ingot/nn/linear.h"
#include "ingot/nn/norm.h"
#include "ingot/nn/param_source.h"
#include "ingot/nn/projection_group.h"
#include "ingot/nn/visit.h"
#include "ingot/ops/qkv.h"
#include "ingot/ops/rope.h"

namespace ingot {

/// Multi-head latent attention (DeepSeek V2, arXiv:2405.04434, 2.1): keys and values of all heads are linear
/// in one short vector of each token, its latent; a further rotary key is the same for all heads. A cache
/// holds these two alone, and queries go to the latents' space to meet them there.
struct LatentHeads {
  LatentHeads(const ParamSource& source, const LanguageConfig& config);
  void visit(ParamVisitor& v);

  /// What the input is projected to: queries, or their latent; the latent and the rotary key.
  static std::vector<ProjectionGroup::Layer> projections(const LanguageConfig& config);

  struct Parts {
    Tensor queries, rotary_queries;  ///< [B, S, heads, qk_nope_head_dim], [.., qk_rope_head_dim]
    Tensor latents, rotary_keys;     ///< [B, S, kv_lora_rank], [B, S, 1, qk_rope_head_dim]
  };
  Parts parts(const std::vector<Tensor>& projected, const RopeTable& table, const Tensor& positions) const;
  /// Queries, keys and values of each head; values are [B, S, heads, v_head_dim].
  Qkv of_heads(const Parts& parts) const;
  /// kv_b_proj by heads in a dtype, [heads, qk_nope_head_dim + v_head_dim, kv_lora_rank].
  Tensor matrices(DType dtype) const;
  /// Queries [B, S, heads, kv_lora_rank + qk_rope_head_dim] for one head of keys that are its values, too:
  /// latents and rotary keys concatenated. `matrices`: those in the parts' dtype.
  Qkv of_latents(const Parts& parts, const Tensor& matrices) const;
  /// Values of the heads, [rows, heads, v_head_dim], of mixed latents [rows, heads, >= kv_lora_rank].
  Tensor values(const Tensor& mixed, const Tensor& matrices) const;

  std::unique_ptr<RmsNorm> q_a_layernorm;  ///< where queries have a latent
  std::unique_ptr<Linear> q_b_proj;
  RmsNorm kv_a_layernorm;
  Linear kv_b_proj;
  std::int64_t heads, rank, plain, rotary, value_size;  ///< rank: of the latents
  bool interleaved;
};

}  // namespace ingot
