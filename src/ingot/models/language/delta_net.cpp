#include "ingot/models/language/delta_net.h"

#include <cmath>
#include <vector>

#include "ingot/models/language/cached_mixing.h"
#include "ingot/models/language/decoder_init.h"
#include "ingot/nn/module_scope.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/norm.h"
#include "ingot/ops/view.h"

namespace ingot {
namespace {

constexpr double kLengthEps = 1e-6;

std::vector<ProjectionGroup::Layer> delta_projections(const LanguageConfig& c) {
  const auto layer = [&c](const char* name, std::int64_t out) {
    return ProjectionGroup::Layer{name, decoder_linear(c.hidden_size, out, false, decoder_weight_init(c))};
  };
  const std::int64_t keys = c.linear_num_key_heads * c.linear_key_head_dim,
                     values = c.linear_num_value_heads * c.linear_value_head_dim;
  return {layer("in_proj_q", keys),
          layer("in_proj_k", keys),
          layer("in_proj_v", values),
          layer("in_proj_z", values),
          layer("in_proj_b", c.linear_num_value_heads),
          layer("in_proj_a", c.linear_num_value_heads)};
}

// x / √(Σ x² + ε) of the last axis, times `factor`: the RMS norm of rows whose weight is factor / √their
// length.
Tensor with_length(const Tensor& x, double factor) {
  const auto width = static_cast<double>(x.dim(-1));
  const Tensor weight = Tensor::zeros({x.dim(-1)}, x.dtype(), x.device()) + factor / std::sqrt(width);
  return rms_norm(x, weight, static_cast<float>(kLengthEps / width), 0.0F);
}

}  // namespace

DeltaNet::DeltaNet(const ParamSource& source, const LanguageConfig& c)
    : in_proj(source, delta_projections(c)),
      conv_weight(
          source.take("conv1d.weight", {c.conv_channels(), 1, c.conv_L_cache}, decoder_weight_init(c))),
      a_log(source.take("A_log", {c.linear_num_value_heads}, init::kZeros)),
      dt_bias(source.take("dt_bias", {c.linear_num_value_heads}, init::kOnes)),
      norm(source.take("norm.weight", {c.linear_value_head_dim}, init::kOnes)),
      out_proj(source.scope("out_proj"), decoder_linear(c.linear_num_value_heads * c.linear_value_head_dim,
                                                        c.hidden_size, false, decoder_residual_init(c))),
      key_heads(c.linear_num_key_heads),
      value_heads(c.linear_num_value_heads),
      key_size(c.linear_key_head_dim),
      value_size(c.linear_value_head_dim),
      eps(static_cast<float>(c.norm_eps)) {}

Tensor DeltaNet::operator()(const LinearInput& input, const DecoderContext& context,
                            std::int64_t layer) const {
  const ModuleScope scope(out_proj.weight, 2);
  const std::int64_t keys = key_heads * key_size, values = value_heads * value_size;
  const Projections all = in_proj(input);
  const std::vector<Tensor> parts =
      all.fused.defined()
          ? split(all.fused, {2 * keys + values, values, value_heads, value_heads}, -1)
          : std::vector<Tensor>{concat(std::vector<Tensor>{all.each[0], all.each[1], all.each[2]}, -1),
                                all.each[3], all.each[4], all.each[5]};
  const Tensor channels = silu(convolve(parts[0], squeeze(conv_weight.value, 1), {}, context, layer));
  const Tensor y = corrected(channels, parts[2], parts[3], context, layer);
  if (context.wanted_only && wanted_rows(context.segments) == 0) return {};
  const Tensor rows = wanted(y, context);
  const Tensor gate = reshape(wanted(parts[1], context), rows.shape());
  const Tensor normed = rms_norm(to(rows, gate.dtype()), norm.value, eps, 0.0F);
  return out_proj(reshape(silu_mul(gate, normed), {rows.dim(0), rows.dim(1), values}));
}

// channels: queries, keys and values of each step. Gives y in f32, [batch, sequence, value heads, value
// size].
Tensor DeltaNet::corrected(const Tensor& channels, const Tensor& correction, const Tensor& decay,
                           const DecoderContext& context, std::int64_t layer) const {
  const auto wide = [](const Tensor& x) { return x.dtype() == DType::f64 ? x : to(x, DType::f32); };
  const std::int64_t batch = channels.dim(0), sequence = channels.dim(1), keys = key_heads * key_size;
  const std::vector<Tensor> parts = split(wide(channels), {keys, keys, value_heads * value_size}, -1);
  const auto of_heads = [&](const Tensor& part, std::int64_t heads, std::int64_t size) {
    return reshape(contiguous(part), {batch, sequence, heads, size});
  };
  const double scale = 1 / std::sqrt(static_cast<double>(key_size));
  return ingot::delta_rule({.x = of_heads(parts[2], value_heads, value_size),
                            .decay = softplus(wide(decay) + wide(dt_bias.value)) * -exp(wide(a_log.value)),
                            .beta = sigmoid(wide(correction)),
                            .keys = with_length(of_heads(parts[1], key_heads, key_size), 1),
                            .queries = with_length(of_heads(parts[0], key_heads, key_size), scale)},
                           context, layer);
}

void DeltaNet::visit(ParamVisitor& v) {
  in_proj.visit(v);
  v("conv1d.weight", conv_weight);
  v("A_log", a_log);
  v("dt_bias", dt_bias);
  v("norm.weight", norm);
  v("out_proj", out_proj);
}

}  // namespace ingot
