#include "ingot/models/language/short_conv.h"

#include <vector>

#include "ingot/models/language/cached_mixing.h"
#include "ingot/models/language/decoder_init.h"
#include "ingot/nn/module_scope.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/view.h"

namespace ingot {

ShortConv::ShortConv(const ParamSource& source, const LanguageConfig& c)
    : in_proj(source.scope("in_proj"),
              decoder_linear(c.hidden_size, 3 * c.hidden_size, c.conv_bias, decoder_weight_init(c))),
      weight(source.take("conv.weight", {c.hidden_size, 1, c.conv_L_cache}, decoder_weight_init(c))),
      bias(c.conv_bias ? source.take("conv.bias", {c.hidden_size}, init::kZeros) : Parameter{}),
      out_proj(source.scope("out_proj"),
               decoder_linear(c.hidden_size, c.hidden_size, c.conv_bias, decoder_residual_init(c))) {}

Tensor ShortConv::operator()(const LinearInput& x, const DecoderContext& context, std::int64_t layer) const {
  const ModuleScope scope(out_proj.weight, 2);
  const std::vector<Tensor> parts = chunk(in_proj(x), 3, -1);
  const Tensor mixed = convolve(parts[0] * parts[2], squeeze(weight.value, 1), bias.value, context, layer);
  if (context.wanted_only && wanted_rows(context.segments) == 0) return {};
  return out_proj(wanted(parts[1], context) * wanted(mixed, context));
}

void ShortConv::visit(ParamVisitor& v) {
  v("in_proj", in_proj);
  v("conv.weight", weight);
  v("conv.bias", bias);
  v("out_proj", out_proj);
}

}  // namespace ingot
