#include "ingot/autograd/gradcheck.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "ingot/autograd/engine.h"
#include "ingot/autograd/grad_mode.h"
#include "ingot/base/error.h"
#include "ingot/base/rng.h"

namespace ingot {
namespace {

std::vector<double> output_weights(std::int64_t n) {
  Rng rng(RngKey{0x6772616463686b, 0});
  std::vector<double> weights(static_cast<std::size_t>(n));
  for (double& w : weights) w = rng.uniform_double() * 2 - 1;
  return weights;
}

double weighted_sum(const Tensor& y, const std::vector<double>& weights) {
  INGOT_CHECK(y.dtype() == DType::f64 && y.is_contiguous(),
              Error("gradcheck: the output must be contiguous f64"));
  double sum = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) sum += weights[i] * y.data<double>()[i];
  return sum;
}

}  // namespace

std::string gradcheck(const std::function<Tensor(std::span<const Tensor>)>& function,
                      const std::vector<Tensor>& inputs, const GradcheckOptions& options) {
  for (const Tensor& input : inputs) {
    if (input.requires_grad()) input.set_grad({});
  }
  const Tensor output = function(inputs);
  const std::vector<double> weights = output_weights(output.numel());
  backward(output, {.grad = Tensor::from(weights, output.shape())});

  const NoGrad no_grad;
  std::string worst;
  double worst_error = options.tolerance;
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    if (!inputs[k].requires_grad()) continue;
    double* x = inputs[k].data<double>();
    const Tensor grad = inputs[k].grad();
    for (std::int64_t i = 0; i < inputs[k].numel(); ++i) {
      const double saved = x[i];
      x[i] = saved + options.step;
      const double above = weighted_sum(function(inputs), weights);
      x[i] = saved - options.step;
      const double below = weighted_sum(function(inputs), weights);
      x[i] = saved;
      const double numeric = (above - below) / (2 * options.step);
      const double analytic = grad.defined() ? grad.data<double>()[i] : 0.0;
      const double error = std::abs(analytic - numeric) / std::max(1.0, std::abs(numeric));
      if (!(error <= worst_error)) {  // also true for NaN
        worst_error = std::isnan(error) ? INFINITY : error;
        worst = fmt::format("input {} element {}: backward gives {}, differences give {} (error {:.2e})", k,
                            i, analytic, numeric, error);
      }
    }
  }
  return worst;
}

}  // namespace ingot
