#include "ingot/models/language/decoder.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "ingot/base/error.h"
#include "ingot/models/language/rope.h"
#include "ingot/ops/attention.h"
#include "ingot/ops/checkpoint.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/loss.h"
#include "ingot/ops/matmul.h"
#include "ingot/ops/norm.h"
#include "ingot/ops/rope.h"
#include "ingot/ops/view.h"

namespace ingot {
namespace {

Init weight_init(const LanguageConfig& c) { return init::Normal{.mean = 0.0, .std = c.initializer_range}; }

// GPT-2's rule for layers that add into the residual stream: its variance then does not grow with depth.
Init residual_init(const LanguageConfig& c) {
  return init::Normal{.mean = 0.0,
                      .std = c.initializer_range / std::sqrt(2.0 * static_cast<double>(c.num_hidden_layers))};
}

LinearOptions linear_options(std::int64_t in, std::int64_t out, bool bias, Init weight) {
  return {.in = in, .out = out, .bias = bias, .weight_init = std::move(weight), .bias_init = init::kZeros};
}

Tensor split_heads(const Tensor& x, std::int64_t heads) {
  return reshape(x, {x.dim(0), x.dim(1), heads, x.dim(2) / heads});
}

}  // namespace

DecoderNorm::DecoderNorm(const ParamSource& source, const LanguageConfig& c)
    : weight(source.take("weight", {c.hidden_size}, init::kOnes)),
      bias(c.norm == NormKind::layer ? source.take("bias", {c.hidden_size}, init::kZeros) : Parameter{}),
      eps(static_cast<float>(c.norm_eps)) {}

Tensor DecoderNorm::operator()(const Tensor& x) const {
  return bias ? layer_norm(x, weight.value, bias.value, eps) : rms_norm(x, weight.value, eps);
}

void DecoderNorm::visit(ParamVisitor& v) {
  v("weight", weight);
  v("bias", bias);
}

Attention::Attention(const ParamSource& source, const LanguageConfig& c)
    : q_proj(source.scope("q_proj"),
             linear_options(c.hidden_size, c.num_attention_heads * c.head_dim, c.qkv_bias, weight_init(c))),
      k_proj(source.scope("k_proj"),
             linear_options(c.hidden_size, c.num_key_value_heads * c.head_dim, c.qkv_bias, weight_init(c))),
      v_proj(source.scope("v_proj"),
             linear_options(c.hidden_size, c.num_key_value_heads * c.head_dim, c.qkv_bias, weight_init(c))),
      o_proj(source.scope("o_proj"), linear_options(c.num_attention_heads * c.head_dim, c.hidden_size,
                                                    c.output_bias, residual_init(c))),
      heads(c.num_attention_heads),
      kv_heads(c.num_key_value_heads),
      head_dim(c.head_dim),
      window(c.sliding_window),
      rotary(c.position == PositionKind::rope) {
  if (!c.qk_norm) return;
  const RmsNormOptions options{.width = head_dim, .eps = static_cast<float>(c.norm_eps)};
  q_norm = std::make_unique<RmsNorm>(source.scope("q_norm"), options);
  k_norm = std::make_unique<RmsNorm>(source.scope("k_norm"), options);
}

Tensor Attention::operator()(const Tensor& x, const DecoderContext& context, std::int64_t layer) const {
  Tensor q = split_heads(q_proj(x), heads);
  Tensor k = split_heads(k_proj(x), kv_heads);
  Tensor v = split_heads(v_proj(x), kv_heads);
  if (q_norm != nullptr) {
    q = (*q_norm)(q);
    k = (*k_norm)(k);
  }
  if (rotary) {
    q = rope(q, context.rope, {.positions = context.positions});
    k = rope(k, context.rope, {.positions = context.positions});
  }
  AttentionOptions options;
  options.window = window;
  options.doc_start = context.doc_start;
  if (context.cache != nullptr) {
    context.cache->append(layer, k, v);
    const std::int64_t seen = context.cache->length() + x.dim(1);
    k = context.cache->keys(layer, seen);
    v = context.cache->values(layer, seen);
  }
  const Tensor mixed = attention(q, k, v, options);
  return o_proj(reshape(mixed, {x.dim(0), x.dim(1), heads * head_dim}));
}

void Attention::visit(ParamVisitor& v) {
  v("q_proj", q_proj);
  v("k_proj", k_proj);
  v("v_proj", v_proj);
  v("o_proj", o_proj);
  v("q_norm", q_norm);
  v("k_norm", k_norm);
}

Mlp::Mlp(const ParamSource& source, const LanguageConfig& c)
    : gate_proj(c.mlp == MlpKind::swiglu
                    ? std::make_unique<Linear>(
                          source.scope("gate_proj"),
                          linear_options(c.hidden_size, c.intermediate_size, c.output_bias, weight_init(c)))
                    : nullptr),
      up_proj(source.scope("up_proj"),
              linear_options(c.hidden_size, c.intermediate_size, c.output_bias, weight_init(c))),
      down_proj(source.scope("down_proj"),
                linear_options(c.intermediate_size, c.hidden_size, c.output_bias, residual_init(c))) {}

Tensor Mlp::operator()(const Tensor& x) const {
  return down_proj(gate_proj != nullptr ? silu_mul((*gate_proj)(x), up_proj(x)) : gelu_tanh(up_proj(x)));
}

void Mlp::visit(ParamVisitor& v) {
  v("gate_proj", gate_proj);
  v("up_proj", up_proj);
  v("down_proj", down_proj);
}

DecoderLayer::DecoderLayer(const ParamSource& source, const LanguageConfig& c)
    : input_layernorm(source.scope("input_layernorm"), c),
      self_attn(source.scope("self_attn"), c),
      post_attention_layernorm(source.scope("post_attention_layernorm"), c),
      mlp(source.scope("mlp"), c) {}

Tensor DecoderLayer::operator()(const Tensor& x, const DecoderContext& context, std::int64_t layer) const {
  const Tensor attended = x + self_attn(input_layernorm(x), context, layer);
  return attended + mlp(post_attention_layernorm(attended));
}

void DecoderLayer::visit(ParamVisitor& v) {
  v("input_layernorm", input_layernorm);
  v("self_attn", self_attn);
  v("post_attention_layernorm", post_attention_layernorm);
  v("mlp", mlp);
}

LanguageModel::LanguageModel(LanguageConfig config_, const ParamSource& source)
    : config([&] {
        config_.validate();
        return std::move(config_);
      }()),
      embed_tokens(
          source.scope("model.embed_tokens"),
          {.count = config.vocab_size, .width = config.hidden_size, .weight_init = weight_init(config)}),
      norm(source.scope("model.norm"), config),
      lm_head(
          config.tie_word_embeddings
              ? Parameter{}
              : source.take("lm_head.weight", {config.vocab_size, config.hidden_size}, weight_init(config))) {
  if (config.position == PositionKind::learned) {
    embed_positions = std::make_unique<Embedding>(source.scope("model.embed_positions"),
                                                  EmbeddingOptions{.count = config.max_position_embeddings,
                                                                   .width = config.hidden_size,
                                                                   .weight_init = weight_init(config)});
  }
  for (std::int64_t i = 0; i < config.num_hidden_layers; ++i) {
    layers.push_back(std::make_unique<DecoderLayer>(source.scope("model.layers", i), config));
  }
}

void LanguageModel::check_input(const DecoderInput& input, const KvCache* cache) const {
  INGOT_CHECK(input.tokens.rank() == 2,
              DimensionMismatch("a language model takes tokens [batch, sequence], got " +
                                to_string(input.tokens.shape())));
  const std::int64_t end = input.tokens.dim(1) + (cache != nullptr ? cache->length() : 0);
  INGOT_CHECK(end <= config.max_position_embeddings || config.position == PositionKind::rope,
              DimensionMismatch("the sequence has " + std::to_string(end) +
                                " tokens, but the model has positions for " +
                                std::to_string(config.max_position_embeddings)));
}

Tensor LanguageModel::hidden(const DecoderInput& input, KvCache* cache) const {
  check_input(input, cache);
  const std::int64_t batch = input.tokens.dim(0), sequence = input.tokens.dim(1);
  const std::int64_t past = cache != nullptr ? cache->length() : 0;
  DecoderContext context{.positions = input.positions, .doc_start = input.doc_start, .cache = cache};
  if (!context.positions.defined()) {
    std::vector<std::int64_t> positions(static_cast<std::size_t>(batch * sequence));
    for (std::size_t i = 0; i < positions.size(); ++i) {
      positions[i] = past + static_cast<std::int64_t>(i) % sequence;
    }
    context.positions = Tensor::from(positions, {batch, sequence}, input.tokens.device());
  }
  if (config.position == PositionKind::rope) {
    const std::int64_t known = rope_.cos.defined() ? rope_.cos.dim(0) : 0;
    if (known < past + sequence) {
      // Doubling keeps generation from computing the table again for every token.
      rope_ = rope_table(scaled_rope_frequencies(config),
                         std::max({past + sequence, 2 * known, std::int64_t{256}}));
    }
    context.rope = rope_;
  }
  Tensor x = embed_tokens(input.tokens);
  if (embed_positions != nullptr) x = x + (*embed_positions)(context.positions);
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const auto run = [this, &context = context, i](const Tensor& in) {
      return (*layers[i])(in, context, static_cast<std::int64_t>(i));
    };
    // The recorded function outlives this call, so it holds the context by value.
    x = recompute && cache == nullptr ? checkpoint(
                                            [this, context, i](const Tensor& in) {
                                              return (*layers[i])(in, context, static_cast<std::int64_t>(i));
                                            },
                                            x)
                                      : run(x);
  }
  if (cache != nullptr) cache->advance(sequence);
  return norm(x);
}

Tensor LanguageModel::logits(const Tensor& hidden) const { return linear(hidden, head()); }

Tensor LanguageModel::loss(const DecoderInput& input, const Tensor& targets,
                           const LossOptions& options) const {
  LinearCrossEntropyLoss fused;
  fused.denominator = options.denominator;
  fused.z_loss = options.z_loss;
  return linear_cross_entropy(hidden(input), head(), targets, fused);
}

void LanguageModel::visit(ParamVisitor& v) {
  v("model.embed_tokens", embed_tokens);
  v("model.embed_positions", embed_positions);
  v("model.layers", layers);
  v("model.norm", norm);
  v("lm_head.weight", lm_head);
}

}  // namespace ingot
