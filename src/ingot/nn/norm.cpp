#include "ingot/nn/norm.h"

#include <array>

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/base/validated.h"
#include "ingot/nn/module_scope.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/reduce.h"
#include "ingot/ops/view.h"

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
      weight_offset(options.weight_offset),
      split(source.split("weight")) {}

Tensor RmsNorm::operator()(const Tensor& x) const {
  const ModuleScope scope(weight);
  if (split) return rms_norms_of_ranks(std::array{this}, std::array{x}).front();
  return rms_norm(x, weight.value, eps, weight_offset);
}

NormedSum RmsNorm::add(const Tensor& x, const Tensor& residual) const {
  INGOT_CHECK(!split, InvalidConfig("rms_norm", "ranks have its features together, so it has no add()"));
  const ModuleScope scope(weight);
  return add_rms_norm(x, residual, weight.value, eps, weight_offset);
}

std::vector<Tensor> rms_norms_of_ranks(std::span<const RmsNorm* const> norms, std::span<const Tensor> x) {
  std::vector<Tensor> wide, squares;
  for (std::size_t i = 0; i < norms.size(); ++i) {
    wide.push_back(to(x[i], DType::f32));
    const Tensor own = sum(square(wide.back()), {-1}, true);
    squares.push_back(norms[i]->split.counts ? own : own * 0.0);
  }
  const Tensor sums = norms.front()->split.ranks->all_reduce(concat(squares, -1));
  std::vector<Tensor> y;
  for (std::size_t i = 0; i < norms.size(); ++i) {
    const RmsNorm& norm = *norms[i];
    const Tensor mean =
        narrow(sums, -1, static_cast<std::int64_t>(i), 1) * (1.0 / static_cast<double>(norm.split.features));
    const Tensor weight = to(norm.weight.value, DType::f32) + static_cast<double>(norm.weight_offset);
    y.push_back(to(wide[i] / sqrt(mean + static_cast<double>(norm.eps)) * weight, x[i].dtype()));
  }
  return y;
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
