#include "ingot/optim/clip.h"

#include <cmath>
#include <limits>
#include <vector>

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/kernels/optimizer.h"

namespace ingot {
namespace {

std::vector<View> gradients(std::span<Parameter* const> parameters) {
  std::vector<View> views;
  views.reserve(parameters.size());
  for (const Parameter* parameter : parameters) {
    const Tensor grad = parameter->grad();
    if (grad.defined()) views.push_back(grad.view());
  }
  return views;
}

Device device_of(std::span<const View> views) { return views.empty() ? kCpu : views[0].device; }

ClippedNorm norm_and_factor(std::span<const View> views, double max_norm) {
  const Device device = device_of(views);
  const Tensor partials = Tensor::empty({kernels::norm_partials(views)}, DType::f64, device);
  ClippedNorm result{Tensor::empty({}, DType::f32, device), Tensor::empty({}, DType::f32, device)};
  kernels::launch(kernels::global_norm, current_stream(device),
                  {.tensors = views,
                   .partials = partials.view(),
                   .norm = result.norm.view(),
                   .clip = result.factor.view(),
                   .max_norm = max_norm});
  return result;
}

void check_positive(const char* key, double value) {
  INGOT_CHECK(value > 0, InvalidConfig(key, fmt::format("must be positive, got {}", value)));
}

}  // namespace

ClippedNorm clip_by_global_norm(std::span<Parameter* const> parameters, double max_norm) {
  check_positive("max_grad_norm", max_norm);
  return norm_and_factor(gradients(parameters), max_norm);
}

Tensor global_norm(std::span<Parameter* const> parameters) {
  return norm_and_factor(gradients(parameters), std::numeric_limits<double>::infinity()).norm;
}

double grad_norm(std::span<Parameter* const> parameters) { return global_norm(parameters).item(); }

double clip_grad_norm(std::span<Parameter* const> parameters, double max_norm) {
  check_positive("max_grad_norm", max_norm);
  const std::vector<View> views = gradients(parameters);
  const ClippedNorm clipped = norm_and_factor(views, max_norm);
  kernels::launch(kernels::scale_all, current_stream(device_of(views)),
                  {.tensors = views, .factor = clipped.factor.view()});
  return clipped.norm.item();
}

void clip_grad_value(std::span<Parameter* const> parameters, double limit) {
  check_positive("max_grad_value", limit);
  const std::vector<View> views = gradients(parameters);
  kernels::launch(kernels::scale_all, current_stream(device_of(views)), {.tensors = views, .limit = limit});
}

}  // namespace ingot
