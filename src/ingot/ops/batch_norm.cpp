#include "ingot/ops/batch_norm.h"

#include <string>

#include "ingot/autograd/grad_mode.h"
#include "ingot/base/error.h"
#include "ingot/ops/common.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/norm.h"
#include "ingot/ops/reduce.h"
#include "ingot/ops/view.h"

namespace ingot {
namespace {

void check_channels(const char* what, const Tensor& x, const Tensor& values) {
  if (!values.defined()) return;
  check_defined("batch_norm", {&x, &values});
  INGOT_CHECK(values.shape() == Shape({x.dim(1)}), ShapeMismatch(what, {x.dim(1)}, values.shape().to_vector(),
                                                                 "there is one value per channel (axis 1)"));
}

// [C] as [1, C, 1, ...], to be broadcast over x.
Tensor per_channel(const Tensor& values, const Tensor& x) {
  Shape shape;
  for (int i = 0; i < x.rank(); ++i) shape = shape.insert(i, i == 1 ? values.dim(0) : 1);
  return reshape(values, shape);
}

// A channel is a row once the axes are exchanged, and rows are what layer_norm's kernels normalise.
Tensor normalized_by_batch(const Tensor& x, float eps) {
  const Tensor channels_first = transpose(x, 0, 1);
  const Tensor rows = reshape(channels_first, {x.dim(1), x.numel() / x.dim(1)});
  return transpose(reshape(layer_norm(rows, {}, {}, eps), channels_first.shape()), 0, 1);
}

void update_running(const Tensor& x, const Tensor& running_mean, const Tensor& running_var, double momentum) {
  const NoGrad no_grad;
  Axes others{0};
  for (int i = 2; i < x.rank(); ++i) others.push_back(i);
  const auto move = [momentum](const Tensor& running, const Tensor& batch) {
    if (!running.defined()) return;
    mul_(running, 1 - momentum);
    add_(running, batch, momentum);
  };
  move(running_mean, mean(x.detach(), others));
  move(running_var, var(x.detach(), others, 1));
}

}  // namespace

void BatchNormOptions::validate() const {
  INGOT_CHECK(momentum >= 0 && momentum <= 1,
              InvalidConfig("batch_norm.momentum", "must be in [0, 1], got " + std::to_string(momentum)));
  INGOT_CHECK(eps > 0, InvalidConfig("batch_norm.eps", "must be positive, got " + std::to_string(eps)));
}

Tensor batch_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& running_mean,
                  const Tensor& running_var, const BatchNormOptions& options) {
  options.validate();
  check_defined("batch_norm", {&x});
  INGOT_CHECK(x.rank() >= 2, DimensionMismatch("batch_norm takes [N, C, ...], got " + to_string(x.shape())));
  check_channels("batch_norm (weight)", x, weight);
  check_channels("batch_norm (bias)", x, bias);
  check_channels("batch_norm (running_mean)", x, running_mean);
  check_channels("batch_norm (running_var)", x, running_var);
  Tensor y;
  if (options.training) {
    INGOT_CHECK(x.dim(1) > 0 && x.numel() / x.dim(1) > 1,
                DimensionMismatch("batch_norm: a channel of " + to_string(x.shape()) +
                                  " has fewer than two values; train on more than one sample"));
    y = normalized_by_batch(x, options.eps);
    update_running(x, running_mean, running_var, options.momentum);
  } else {
    INGOT_CHECK(running_mean.defined() && running_var.defined(),
                Error("batch_norm: running_mean and running_var are needed outside training"));
    y = (x - per_channel(running_mean, x)) *
        per_channel(rsqrt(running_var + static_cast<double>(options.eps)), x);
  }
  if (weight.defined()) y = y * per_channel(weight, x);
  return bias.defined() ? y + per_channel(bias, x) : y;
}

}  // namespace ingot
