#include "ingot/models/language/layer_inputs.h"

#include <cmath>
#include <vector>

#include "ingot/models/language/decoder_init.h"
#include "ingot/nn/feed_forward.h"
#include "ingot/nn/module_scope.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/view.h"

namespace ingot {

Tensor scaled_embedding(const Tensor& x, std::int64_t size, DType stored) {
  const auto factor = static_cast<float>(std::sqrt(static_cast<double>(size)));
  if (stored == DType::bf16) return x * static_cast<double>(static_cast<float>(bf16(factor)));
  if (stored == DType::f16) return x * static_cast<double>(static_cast<float>(f16(factor)));
  return x * static_cast<double>(factor);
}

namespace {

RmsNormOptions norm_options(const LanguageConfig& c, std::int64_t width) {
  return {.width = width,
          .eps = static_cast<float>(c.norm_eps),
          .weight_offset = c.norm_unit_offset ? 1.0F : 0.0F};
}

}  // namespace

LayerInputs::LayerInputs(const ParamSource& source, const LanguageConfig& c)
    : embed_tokens_per_layer(source.scope("embed_tokens_per_layer"),
                             {.count = c.vocab_size_per_layer_input,
                              .width = c.num_hidden_layers * c.hidden_size_per_layer_input,
                              .weight_init = decoder_weight_init(c)}),
      per_layer_model_projection(
          source.scope("per_layer_model_projection"),
          decoder_linear(c.hidden_size, c.num_hidden_layers * c.hidden_size_per_layer_input, false,
                         decoder_weight_init(c))),
      per_layer_projection_norm(source.scope("per_layer_projection_norm"),
                                norm_options(c, c.hidden_size_per_layer_input)),
      layers(c.num_hidden_layers),
      width(c.hidden_size_per_layer_input),
      count(c.vocab_size_per_layer_input),
      vocabulary(c.vocab_size),
      hidden(c.hidden_size) {}

// Tokens beyond the table, of images and sounds, have its first row.
Tensor LayerInputs::known(const Tensor& tokens) const {
  if (count >= vocabulary) return tokens;
  const Tensor number = to(tokens, DType::f32);  // of which vocabularies are exact
  return to(number * clamp(static_cast<double>(count) - number, 0, 1), tokens.dtype());
}

Tensor LayerInputs::operator()(const Tensor& tokens, const Tensor& embedded) const {
  const Shape shape{tokens.dim(0), tokens.dim(1), layers, width};
  const Tensor rows = embed_tokens_per_layer(known(tokens));
  const Tensor own = scaled_embedding(to(rows, embedded.dtype()), width, rows.dtype());
  const Tensor projected =
      per_layer_model_projection(embedded) * (1 / std::sqrt(static_cast<double>(hidden)));
  return (per_layer_projection_norm(reshape(projected, shape)) + reshape(own, shape)) * std::sqrt(0.5);
}

void LayerInputs::visit(ParamVisitor& v) {
  v("embed_tokens_per_layer", embed_tokens_per_layer);
  v("per_layer_model_projection", per_layer_model_projection);
  v("per_layer_projection_norm", per_layer_projection_norm);
}

LayerInputGate::LayerInputGate(const ParamSource& source, const LanguageConfig& c)
    : per_layer_input_gate(
          source.scope("per_layer_input_gate"),
          decoder_linear(c.hidden_size, c.hidden_size_per_layer_input, false, decoder_weight_init(c))),
      per_layer_projection(
          source.scope("per_layer_projection"),
          decoder_linear(c.hidden_size_per_layer_input, c.hidden_size, false, decoder_residual_init(c))),
      post_per_layer_input_norm(source.scope("post_per_layer_input_norm"), norm_options(c, c.hidden_size)) {}

Tensor LayerInputGate::operator()(const Tensor& x, const Tensor& input) const {
  const std::vector<Tensor> parts{per_layer_input_gate(x), contiguous(input)};
  return post_per_layer_input_norm(per_layer_projection(activate(MlpKind::geglu, parts)));
}

void LayerInputGate::visit(ParamVisitor& v) {
  v("per_layer_input_gate", per_layer_input_gate);
  v("per_layer_projection", per_layer_projection);
  v("post_per_layer_input_norm", post_per_layer_input_norm);
}

}  // namespace ingot
