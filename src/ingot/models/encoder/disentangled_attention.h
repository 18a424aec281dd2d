#pragma once

#include <cstdint>
#include <memory>

#include "ingot/models/encoder/config.h"
#include "ingot/models/encoder/input.h"
#include "ingot/nn/linear.h"
#include "ingot/nn/norm.h"
#include "ingot/ops/qkv.h"

namespace ingot {

/// The class of a distance between two tokens, query − key: distances below half of `buckets` have one each,
/// the others share by their logarithm, up to `farthest`. 0 buckets: the distance itself.
std::int64_t log_bucket(std::int64_t distance, std::int64_t buckets, std::int64_t farthest);

/// Disentangled attention (DeBERTa, He et al. 2020 and 2021): a score is of content with content, and beside
/// that of the query's content with the distance's key, of the distance's query with the key's content, or
/// both, all over the root of the head's size times the number of summands.
struct DisentangledAttention {
  DisentangledAttention(const ParamSource& source, const EncoderConfig& config);

  /// Within each text of `input`; q, k, v: [B, S, heads, D]. `distances`: embeddings of the classes,
  /// [2·span, hidden], or undefined where attention has none. `query` and `key` are the layer's own maps,
  /// which stand for those of distances where they are shared. Returns [B, S, heads, D], zeros for padding.
  Tensor operator()(const Qkv& qkv, const Tensor& distances, const Linear& query, const Linear& key,
                    const EncoderInput& input) const;
  void visit(ParamVisitor& v);

  std::unique_ptr<Linear> pos_key_proj, pos_query_proj;  // null: absent, or shared with the layer's
  std::int64_t heads, buckets, farthest, span;
  bool c2p, p2c, shared;

 private:
  Tensor scores(const Tensor& q, const Tensor& k, const Tensor& keys_of_distances,
                const Tensor& queries_of_distances) const;
};

/// The convolution that DeBERTa v2 may have beside its first layer: LayerNorm(x + act(conv(embeddings))),
/// over each text by itself.
struct EncoderConvolution {
  EncoderConvolution(const ParamSource& source, const EncoderConfig& config);
  /// embeddings: what the first layer reads; x: what it gives. Both [B, S, hidden].
  Tensor operator()(const Tensor& embeddings, const Tensor& x, const EncoderInput& input) const;
  void visit(ParamVisitor& v);

  Parameter weight, bias;  // [hidden, hidden / groups, kernel], [hidden]
  LayerNorm norm;
  std::int64_t groups;
  Activation activation;
};

}  // namespace ingot
