#include "ingot/models/language/mamba.h"

#include <vector>

#include "ingot/models/language/cached_mixing.h"
#include "ingot/models/language/decoder_init.h"
#include "ingot/nn/module_scope.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/norm.h"
#include "ingot/ops/selective_scan.h"
#include "ingot/ops/view.h"

namespace ingot {

Mamba::Mamba(const ParamSource& source, const LanguageConfig& c)
    : in_proj(source.scope("in_proj"),
              decoder_linear(c.hidden_size, c.mamba_inner() + c.conv_channels() + c.mamba_n_heads,
                             c.mamba_proj_bias, decoder_weight_init(c))),
      conv_weight(
          source.take("conv1d.weight", {c.conv_channels(), 1, c.conv_L_cache}, decoder_weight_init(c))),
      conv_bias(c.conv_bias ? source.take("conv1d.bias", {c.conv_channels()}, init::kZeros) : Parameter{}),
      a_log(source.take("A_log", {c.mamba_n_heads}, init::kZeros)),
      d(source.take("D", {c.mamba_n_heads}, init::kOnes)),
      dt_bias(source.take("dt_bias", {c.mamba_n_heads}, init::kOnes)),
      norm(c.mamba_rms_norm ? source.take("norm.weight", {c.mamba_inner()}, init::kOnes) : Parameter{}),
      out_proj(source.scope("out_proj"),
               decoder_linear(c.mamba_inner(), c.hidden_size, c.mamba_out_bias, decoder_residual_init(c))),
      heads(c.mamba_n_heads),
      size(c.mamba_d_head),
      groups(c.mamba_n_groups),
      width(c.mamba_d_state),
      least_step(c.least_time_step),
      most_step(c.most_time_step),
      eps(static_cast<float>(c.norm_eps)),
      norm_before_gate(c.mamba_norm_before_gate),
      in_multiplier(c.ssm_in_multiplier),
      multipliers(c.ssm_multipliers) {}

Tensor Mamba::operator()(const LinearInput& input, const DecoderContext& context, std::int64_t layer) const {
  const ModuleScope scope(out_proj.weight, 2);
  const std::vector<Tensor> parts = projected(input);
  const Tensor channels =
      silu(convolve(parts[1], squeeze(conv_weight.value, 1), conv_bias.value, context, layer));
  const Tensor y = scan(channels, parts[2], context, layer);
  if (context.wanted_only && wanted_rows(context.segments) == 0) return {};
  return out_proj(normed(wanted(y, context), wanted(parts[0], context)));
}

// The gate; x, B and C; and time steps.
std::vector<Tensor> Mamba::projected(const LinearInput& input) const {
  const std::int64_t inner = heads * size, states = groups * width;
  const Tensor all = in_multiplier == 1 ? in_proj(input) : in_proj(input.tensor() * in_multiplier);
  if (multipliers.empty()) return split(all, {inner, inner + 2 * states, heads}, -1);
  std::vector<Tensor> parts = split(all, {inner, inner, states, states, heads}, -1);
  for (std::size_t i = 0; i < parts.size(); ++i) parts[i] = parts[i] * multipliers[i];
  return {parts[0], concat(std::vector<Tensor>{parts[1], parts[2], parts[3]}, -1), parts[4]};
}

// channels: x, B and C of each step; steps: of time, before their bias. Gives y + D · x in f32, [batch,
// sequence, inner].
Tensor Mamba::scan(const Tensor& channels, const Tensor& steps, const DecoderContext& context,
                   std::int64_t layer) const {
  const auto wide = [](const Tensor& x) { return x.dtype() == DType::f64 ? x : to(x, DType::f32); };
  const std::int64_t batch = channels.dim(0), sequence = channels.dim(1), inner = heads * size;
  const std::vector<Tensor> parts = split(wide(channels), {inner, groups * width, groups * width}, -1);
  const Tensor x = reshape(parts[0], {batch, sequence, heads, size});
  const auto of_groups = [&](const Tensor& part) { return reshape(part, {batch, sequence, groups, width}); };
  const Tensor dt = clamp(softplus(wide(steps) + wide(dt_bias.value)), least_step, most_step);
  const SelectiveScanInput input{.x = x * unsqueeze(dt, 3),
                                 .decay = dt * -exp(wide(a_log.value)),
                                 .keys = of_groups(parts[1]),
                                 .queries = of_groups(parts[2])};
  const Tensor y = ingot::scan(input, context, layer) + x * reshape(wide(d.value), {heads, 1});
  return reshape(y, {batch, sequence, inner});
}

// Groups of channels, each divided by the RMS of its own.
Tensor Mamba::in_groups(const Tensor& x) const {
  const std::int64_t part = heads * size / groups;
  const Tensor one = Tensor::zeros({part}, x.dtype(), x.device()) + 1.0;
  return reshape(rms_norm(reshape(x, {x.dim(0), x.dim(1), groups, part}), one, eps, 0.0F), x.shape());
}

Tensor Mamba::normed(const Tensor& y, const Tensor& gate) const {
  const Tensor open = silu(to(gate, y.dtype()));
  if (!norm.value.defined()) return to(y * open, gate.dtype());
  if (norm_before_gate) return to(in_groups(y) * to(norm.value, y.dtype()) * open, gate.dtype());
  return to(in_groups(y * open), gate.dtype()) * to(norm.value, gate.dtype());
}

void Mamba::visit(ParamVisitor& v) {
  v("in_proj", in_proj);
  v("conv1d.weight", conv_weight);
  v("conv1d.bias", conv_bias);
  v("A_log", a_log);
  v("D", d);
  v("dt_bias", dt_bias);
  v("norm.weight", norm);
  v("out_proj", out_proj);
}

}  // namespace ingot
