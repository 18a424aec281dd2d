#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "ingot/models/language/config.h"
#include "ingot/models/language/kv_cache.h"
#include "ingot/nn/embedding.h"
#include "ingot/nn/linear.h"
#include "ingot/nn/norm.h"
#include "ingot/nn/param_source.h"
#include "ingot/nn/visit.h"
#include "ingot/ops/rope.h"

namespace ingot {

/// RMSNorm or LayerNorm, as the family has it.
struct DecoderNorm {
  DecoderNorm(const ParamSource& source, const LanguageConfig& config);
  Tensor operator()(const Tensor& x) const;
  void visit(ParamVisitor& v);

  Parameter weight, bias;  // no bias: RMSNorm
  float eps;
};

/// What all layers of one forward pass share.
struct DecoderContext {
  Tensor positions;  ///< i64 or i32 [batch, sequence]
  Tensor
      doc_start;  ///< i32 [batch, sequence]: index of the first token of each token's document; or undefined
  RopeTable rope;
  KvCache* cache = nullptr;
};

struct Attention {
  Attention(const ParamSource& source, const LanguageConfig& config);
  /// x: [batch, sequence, hidden].
  Tensor operator()(const Tensor& x, const DecoderContext& context, std::int64_t layer) const;
  void visit(ParamVisitor& v);

  Linear q_proj, k_proj, v_proj, o_proj;
  std::unique_ptr<RmsNorm> q_norm, k_norm;  // over each head, where the family has them
  std::int64_t heads, kv_heads, head_dim, window;
  bool rotary;
};

struct Mlp {
  Mlp(const ParamSource& source, const LanguageConfig& config);
  Tensor operator()(const Tensor& x) const;
  void visit(ParamVisitor& v);

  std::unique_ptr<Linear> gate_proj;  // SwiGLU only
  Linear up_proj, down_proj;
};

struct DecoderLayer {
  DecoderLayer(const ParamSource& source, const LanguageConfig& config);
  Tensor operator()(const Tensor& x, const DecoderContext& context, std::int64_t layer) const;
  void visit(ParamVisitor& v);

  DecoderNorm input_layernorm;
  Attention self_attn;
  DecoderNorm post_attention_layernorm;
  Mlp mlp;
};

struct DecoderInput {
  Tensor tokens;     ///< i64 or i32 [batch, sequence]
  Tensor positions;  ///< i64 or i32 [batch, sequence]; undefined: 0, 1, 2, ... (after what the cache holds)
  Tensor doc_start;  ///< i32 [batch, sequence]; undefined: one document per row
};

struct LossOptions {
  /// What the summed loss is divided by; 0: the number of targets here. A trainer gives the count of the
  /// whole optimiser step, so that micro-batches of unequal length weigh as one batch would.
  double denominator = 0;
  float z_loss = 0;  ///< weight of log²(Σ exp(logits))
};

/// A decoder-only transformer (Llama, Mistral, Qwen, GPT-2): tokens in, logits of the next token out.
/// Parameter names are Llama's in Hugging Face's checkpoints; name_map.h tells the other families'.
struct LanguageModel {
  LanguageModel(LanguageConfig config, const ParamSource& source);

  /// Hidden states after the last norm: [batch, sequence, hidden]. With a cache, the tokens follow those it
  /// holds.
  Tensor hidden(const DecoderInput& input, KvCache* cache = nullptr) const;
  /// [..., hidden] -> [..., vocab].
  Tensor logits(const Tensor& hidden) const;
  /// Cross-entropy of `targets` (i64 or i32 [batch, sequence]; -100 is none), without ever holding all
  /// logits. Scalar.
  Tensor loss(const DecoderInput& input, const Tensor& targets, const LossOptions& options = {}) const;
  void visit(ParamVisitor& v);

  LanguageConfig config;
  bool recompute = false;  ///< run each layer again in the backward pass and keep only its input
  Embedding embed_tokens;
  std::unique_ptr<Embedding> embed_positions;  // families with learned positions
  std::vector<std::unique_ptr<DecoderLayer>> layers;
  DecoderNorm norm;
  Parameter lm_head;  // absent when tied to embed_tokens

 private:
  void check_input(const DecoderInput& input, const KvCache* cache) const;
  const Tensor& head() const { return lm_head ? lm_head.value : embed_tokens.weight.value; }
  mutable RopeTable rope_;  // grown on demand
};

}  // namespace ingot
