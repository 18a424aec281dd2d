#include "ingot/nn/linear.h"

#include <fmt/format.h>

#include "ingot/autograd/grad_mode.h"
#include "ingot/base/error.h"
#include "ingot/base/validated.h"
#include "ingot/ops/matmul.h"

namespace ingot {
void LinearOptions::validate() const {
  INGOT_CHECK(in > 0, InvalidConfig("linear.in", fmt::format("must be positive, got {}", in)));
  INGOT_CHECK(out > 0, InvalidConfig("linear.out", fmt::format("must be positive, got {}", out)));
}

Linear::Linear(const ParamSource& source, const LinearOptions& options)
    : packed(source.take_packed("weight", {validated(options).out, options.in})),
      weight(packed != nullptr ? Parameter()
                               : source.take("weight", {options.out, options.in},
                                             options.weight_init.value_or(init::fan_in_uniform(options.in)))),
      bias(options.bias ? source.take("bias", {options.out},
                                      options.bias_init.value_or(init::fan_in_uniform(options.in)))
                        : Parameter()) {}

Tensor Linear::operator()(const Tensor& x) const {
  if (packed == nullptr) return linear(x, weight.value, bias.value);
  INGOT_CHECK(!grad_enabled() || !x.requires_grad(),
              NotImplemented("gradients through a quantised linear layer"));
  return quant::linear(x, *packed, bias.value);
}

Tensor Linear::operator()(const quant::Activations& x) const {
  return packed == nullptr ? linear(x.x(), weight.value, bias.value) : quant::linear(x, *packed, bias.value);
}

void Linear::visit(ParamVisitor& v) {
  v("weight", weight);
  v("bias", bias);
}

}  // namespace ingot
