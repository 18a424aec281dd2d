#include "ingot/models/encoder/encoder_layer.h"

#include <span>
#include <utility>
#include <vector>

#include "ingot/models/encoder/relative_bias.h"
#include "ingot/nn/feed_forward.h"
#include "ingot/nn/module_scope.h"
#include "ingot/ops/attention.h"
#include "ingot/ops/pointwise.h"
#include "ingot/ops/view.h"

namespace ingot {

LinearOptions encoder_linear(std::int64_t in, std::int64_t out, const EncoderConfig& c, bool bias) {
  return {.in = in,
          .out = out,
          .bias = bias,
          .weight_init = init::Normal{.mean = 0.0, .std = c.initializer_range},
          .bias_init = init::kZeros};
}

LayerNormOptions encoder_norm(std::int64_t width, const EncoderConfig& c) {
  return {.width = width, .eps = static_cast<float>(c.layer_norm_eps), .bias = c.norm_bias};
}

namespace {

std::vector<ProjectionGroup::Layer> heads_from(const EncoderConfig& c) {
  const LinearOptions options = encoder_linear(c.hidden_size, c.attention_width(), c, c.attention_bias);
  return {
      {"attention.self.query", options}, {"attention.self.key", options}, {"attention.self.value", options}};
}

std::vector<ProjectionGroup::Layer> intermediates_of(const EncoderConfig& c) {
  const LinearOptions options = encoder_linear(c.hidden_size, c.intermediate_size, c, c.mlp_bias);
  if (!c.gated_mlp) return {{"intermediate.dense", options}};
  return {{"intermediate.gate", options}, {"intermediate.dense", options}};
}

Tensor gated(Activation activation, const Tensor& gate, const Tensor& up) {
  if (activation == Activation::gelu)
    return pointwise([](const auto& g, const auto& u) { return gelu_erf(g) * u; }, gate, up);
  if (activation == Activation::gelu_tanh)
    return pointwise([](const auto& g, const auto& u) { return gelu_tanh(g) * u; }, gate, up);
  return activate(activation, gate) * up;
}

}  // namespace

EncoderLayer::EncoderLayer(const ParamSource& source, const EncoderConfig& c, std::int64_t index)
    : query_key_value(source, heads_from(c)),
      disentangled(c.is_disentangled() ? std::make_unique<DisentangledAttention>(source, c) : nullptr),
      attention_output(source.scope("attention.output.dense"),
                       encoder_linear(c.attention_width(), c.hidden_size, c, c.attention_bias)),
      attention_norm(c.norm_first && index == 0
                         ? nullptr
                         : std::make_unique<LayerNorm>(source.scope("attention.output.LayerNorm"),
                                                       encoder_norm(c.hidden_size, c))),
      intermediate(source, intermediates_of(c)),
      output(source.scope("output.dense"), encoder_linear(c.intermediate_size, c.hidden_size, c, c.mlp_bias)),
      output_norm(source.scope("output.LayerNorm"), encoder_norm(c.hidden_size, c)),
      heads(c.num_attention_heads),
      window(c.window(index)),
      activation(c.hidden_act),
      norm_first(c.norm_first),
      rotary(c.is_rotary()) {}

Tensor EncoderLayer::mixed(Qkv qkv, const EncoderContext& context) const {
  if (disentangled != nullptr)
    return (*disentangled)(qkv, context.distances, query_key_value[0], query_key_value[1], context.input);
  if (context.bias.defined()) return attention_with_bias(qkv, context.bias, context.input);
  if (rotary) {
    const RopeTable& table = window > 0 ? context.rope.sliding() : context.rope.full();
    qkv = rotate(std::move(qkv), table, context.input.positions, false);
  }
  AttentionOptions options;
  options.causal = false;
  options.window = window;
  options.doc_start = context.input.doc_start;
  options.kv_length = context.input.lengths;
  options.bf16_matmuls = attention_output.quantizes_input();
  return attention(qkv, options);
}

Tensor EncoderLayer::attend(const Tensor& x, const EncoderContext& context) const {
  const Tensor y = mixed(split_heads(query_key_value(x), heads, heads), context);
  return attention_output(reshape(y, {x.dim(0), x.dim(1), -1}));
}

Tensor EncoderLayer::feed(const Tensor& x) const {
  const bool has_gate = intermediate.size() == 2;
  if (has_gate && activation == Activation::silu)
    return feed_forward(x, intermediate, MlpKind::swiglu, output);
  return output(LinearInput(intermediate.each(x), [this, has_gate](std::span<const Tensor> rows) {
    return has_gate ? gated(activation, rows[0], rows[1]) : activate(activation, rows[0]);
  }));
}

Tensor EncoderLayer::operator()(const Tensor& x, const EncoderContext& context) const {
  const ModuleScope scope(output.weight, 3);
  if (norm_first) {
    const Tensor attended = attend(attention_norm == nullptr ? x : (*attention_norm)(x), context);
    const NormedSum between = output_norm.add(x, attended);
    return between.sum + feed(between.normed);
  }
  const Tensor attended = attention_norm->add(x, attend(x, context)).normed;
  return output_norm.add(attended, feed(attended)).normed;
}

void EncoderLayer::visit(ParamVisitor& v) {
  query_key_value.visit(v);
  if (disentangled != nullptr) disentangled->visit(v);
  v("attention.output.dense", attention_output);
  v("attention.output.LayerNorm", attention_norm);
  intermediate.visit(v);
  v("output.dense", output);
  v("output.LayerNorm", output_norm);
}

}  // namespace ingot
