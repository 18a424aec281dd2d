#include "ingot/nn/linear.h"

#include <cmath>

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/ops/matmul.h"

namespace ingot {
namespace {

const LinearOptions& validated(const LinearOptions& options) {
  options.validate();
  return options;
}

Init default_init(const LinearOptions& options) {
  const double bound = 1 / std::sqrt(static_cast<double>(options.in));
  return init::Uniform{-bound, bound};
}

}  // namespace

void LinearOptions::validate() const {
  INGOT_CHECK(in > 0, InvalidConfig("linear.in", fmt::format("must be positive, got {}", in)));
  INGOT_CHECK(out > 0, InvalidConfig("linear.out", fmt::format("must be positive, got {}", out)));
}

Linear::Linear(const ParamSource& source, const LinearOptions& options)
    : weight(source.take("weight", {validated(options).out, options.in},
                         options.weight_init.value_or(default_init(options)))),
      bias(options.bias
               ? source.take("bias", {options.out}, options.bias_init.value_or(default_init(options)))
               : Parameter()) {}

Tensor Linear::operator()(const Tensor& x) const { return linear(x, weight.value, bias.value); }

void Linear::visit(ParamVisitor& v) {
  v("weight", weight);
  v("bias", bias);
}

}  // namespace ingot
