#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "ingot/models/language/config.h"
#include "ingot/models/language/kv_cache.h"
#include "ingot/models/language/latent_attention.h"
#include "ingot/models/rope_tables.h"
#include "ingot/nn/linear.h"
#include "ingot/nn/norm.h"
#include "ingot/nn/param_source.h"
#include "ingot/nn/projection_group.h"
#include "ingot/nn/visit.h"
#include "ingot/ops/attention.h"
#include "ingot/ops/qkv.h"

namespace ingot {

/// Keys and values of a layer that later ones read, [batch, sequence, heads, size] each. Where there is a
/// cache they are in it.
struct SharedKeys {
  Tensor keys, values;
};

/// What all layers of one forward pass share.
struct DecoderContext {
  Tensor positions;  ///< i64 or i32 [batch, sequence]
  Tensor
      doc_start;  ///< i32 [batch, sequence]: index of the first token of each token's document; or undefined
  RopeTables rope;
  Tensor alibi_queries{}, alibi_keys{};  ///< ALiBi's columns; or undefined
  Tensor query_scale{};  ///< f32 [batch, sequence, 1, 1]: what queries are multiplied by; or undefined
  Tensor layer_input{};  ///< [batch, sequence, width]: this layer's own; or undefined
  SharedKeys* shared = nullptr;              ///< of layers that see as far as this one, without a cache
  std::span<const CacheSegment> segments{};  ///< empty: no cache
  CacheOffsets offsets{};                    ///< where the caches are told so by the device; else undefined
  bool wanted_only =
      false;  ///< the last layer: what it gives are the segments' wanted rows, one after another
};

/// Rows that the segments want in all.
std::int64_t wanted_rows(std::span<const CacheSegment> segments);
/// ALiBi as columns behind those of queries and keys, whose dot products are slope · position: the slopes of
/// all heads over the scale of scores, f32 [1, 1, heads, kAlibiColumns], ...
Tensor alibi_query_columns(const LanguageConfig& config, Device device);
/// ... and positions [batch, sequence] as multiples of 256 and the rest, which bf16 holds as well: f32
/// [batch, sequence, 1, kAlibiColumns].
Tensor alibi_key_columns(const Tensor& positions);
/// Of x [1, sequence, ...] what the context wants of a layer's rows; at least one.
Tensor wanted(const Tensor& x, const DecoderContext& context);

struct Attention {
  Attention(const ParamSource& source, const LanguageConfig& config, std::int64_t layer);
  /// x: [batch, sequence, hidden]. Undefined where no row is wanted.
  Tensor operator()(const LinearInput& x, const DecoderContext& context, std::int64_t layer) const;
  void visit(ParamVisitor& v);

  ProjectionGroup qkv_proj;             // q_proj, k_proj, v_proj, and where the family has one gate_proj; or
                                        // LatentHeads::projections; without k_proj or v_proj where keys and
                                        // values are others'
  std::unique_ptr<LatentHeads> latent;  // of latent attention
  Linear o_proj;
  std::unique_ptr<RmsNorm> q_norm, k_norm;  // where the family has them
  Parameter sinks;                          // [heads], where the family has them
  std::int64_t heads, kv_heads, head_dim, value_size, window, chunk;
  std::int64_t key_layer;  // whose keys and values this one reads
  float scale, softcap;    // as AttentionOptions has them
  float plain_eps;         // of norms without a weight
  double clip;             // of queries, keys and values; 0: none
  double key_multiplier;
  QkNorm qk_norm;
  bool rotary, interleaved, slides, causal, gated, grows;  // grows: queries do, with their position
  bool reads_others, gives_keys;                           // keys and values: of another layer; to others
  bool keys_as_values, value_norm;

 private:
  Tensor mixed(const LinearInput& x, const DecoderContext& context, std::int64_t layer) const;
  Tensor mixed_with_others(const LinearInput& x, const DecoderContext& context) const;
  Qkv projected(const LinearInput& x) const;
  Tensor mixed_latents(const LinearInput& x, const DecoderContext& context, std::int64_t layer) const;
  const RopeTable& table(const DecoderContext& context) const;
  Qkv normalized_and_rotated(Qkv qkv, const DecoderContext& context) const;
  Qkv normalized_across_heads(const Qkv& qkv) const;
  Qkv with_alibi(const Qkv& qkv, const DecoderContext& context) const;
  AttentionOptions options(const DecoderContext& context) const;
};

}  // namespace ingot
