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
      norm(source.take("norm.weight", {c.mamba_inner()}, init::kOnes)),
      out_proj(source.scope("out_proj"),
               decoder_linear(c.mamba_inner(), c.hidden_size, c.mamba_proj_bias, decoder_residual_init(c))),
      heads(c.mamba_n_heads),
      size(c.mamba_d_head),
      groups(c.mamba_n_groups),
      width(c.mamba_d_state),
      least_step(c.least_time_step),
      most_step(c.most_time_step),
      eps(static_cast<float>(c.norm_eps)) {}

Tensor Mamba::operator()(const LinearInput& input, const DecoderContext& context, std::int64_t layer) const {
  const ModuleScope scope(out_proj.weight, 2);
  const std::int64_t inner = heads * size;
  const std::vector<Tensor> parts = split(in_proj(input), {inner, inner + 2 * groups * width, heads}, -1);
  const Tensor channels =
      silu(convolve(parts[1], squeeze(conv_weight.value, 1), conv_bias.value, context, layer));
  const Tensor y = scan(channels, parts[2], context, layer);
  if (context.wanted_only && wanted_rows(context.segments) == 0) return {};
  return out_proj(normed(wanted(y, context), wanted(parts[0], context)));
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

// In groups of channels, each with the RMS of its own.
Tensor Mamba::normed(const Tensor& y, const Tensor& gate) const {
  const Tensor gated = y * silu(to(gate, y.dtype()));
  const std::int64_t batch = y.dim(0), sequence = y.dim(1), part = heads * size / groups;
  const Tensor one = Tensor::zeros({part}, y.dtype(), y.device()) + 1.0;
  const Tensor unit = reshape(rms_norm(reshape(gated, {batch, sequence, groups, part}), one, eps, 0.0F),
                              {batch, sequence, heads * size});
  return to(unit, gate.dtype()) * to(norm.value, gate.dtype());
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
