#include "ingot/nn/norm.h"

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/base/validated.h"
#include "ingot/nn/module_scope.h"

namespace ingot {
namespace {

void check_eps(const char* key, float eps) {
  INGOT_CHECK(eps >= 0 && eps < 1, InvalidConfig(key, fmt::format("must be in [0, 1), got {}", eps)));
}

}  // namespace

void RmsNormOptions::validate() const {
  INGOT_CHECK(width > 0, InvalidConfig("rms_norm.width", fmt::format("must be positive, got {}", width)));
  check_eps("rms_norm.eps", eps);
}

RmsNorm::RmsNorm(const ParamSource& source, const RmsNormOptions& options)
    : weight(source.take("weight", {validated(options).width}, init::Constant{1.0 - options.weight_offset})),
      eps(options.eps),
      weight_offset(options.weight_offset) {}

Tensor RmsNorm::operator()(const Tensor& x) const {
  const ModuleScope scope(weight);
  return rms_norm(x, weight.value, eps, weight_offset);
}

NormedSum RmsNorm::add(const Tensor& x, const Tensor& residual) const {
  const ModuleScope scope(weight);
  return add_rms_norm(x, residual, weight.value, eps, weight_offset);
}

void RmsNorm::visit(ParamVisitor& v) { v("weight", weight); }

void LayerNormOptions::validate() const {
  INGOT_CHECK(width > 0, InvalidConfig("layer_norm.width", fmt::format("must be positive, got {}", width)));
  check_eps("layer_norm.eps", eps);
}

LayerNorm::LayerNorm(const ParamSource& source, const LayerNormOptions& options)
    : weight(source.take("weight", {validated(options).width}, init::kOnes)),
      bias(options.bias ? source.take("bias", {options.width}, init::kZeros) : Parameter()),
      eps(options.eps) {}

Tensor LayerNorm::operator()(const Tensor& x) const {
  const ModuleScope scope(weight);
  return layer_norm(x, weight.value, bias.value, eps);
}

NormedSum LayerNorm::add(const Tensor& x, const Tensor& residual) const {
  const ModuleScope scope(weight);
  return add_layer_norm(x, residual, weight.value, bias.value, eps);
}

void LayerNorm::visit(ParamVisitor& v) {
  v("weight", weight);
  v("bias", bias);
}

}  // namespace ingot
