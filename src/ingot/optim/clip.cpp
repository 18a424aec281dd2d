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

// Of the parameters: none of them may have a gradient.
Device device_of(std::span<Parameter* const> parameters) {
  return parameters.empty() ? kCpu : parameters[0]->value.device();
}

ClippedNorm norm_and_factor(std::span<const View> views, Device device, double max_norm) {
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
  return norm_and_factor(gradients(parameters), device_of(parameters), max_norm);
}

Tensor global_norm(std::span<Parameter* const> parameters) {
  return norm_and_factor(gradients(parameters), device_of(parameters),
                         std::numeric_limits<double>::infinity())
      .norm;
}

double grad_norm(std::span<Parameter* const> parameters) { return global_norm(parameters).item(); }

double clip_grad_norm(std::span<Parameter* const> parameters, double max_norm) {
  check_positive("max_grad_norm", max_norm);
  const std::vector<View> views = gradients(parameters);
  const ClippedNorm clipped = norm_and_factor(views, device_of(parameters), max_norm);
  kernels::launch(kernels::scale_all, current_stream(device_of(parameters)),
                  {.tensors = views, .factor = clipped.factor.view()});
  return clipped.norm.item();
}

void clip_grad_value(std::span<Parameter* const> parameters, double limit) {
  check_positive("max_grad_value", limit);
  const std::vector<View> views = gradients(parameters);
  kernels::launch(kernels::scale_all, current_stream(device_of(parameters)),
                  {.tensors = views, .limit = limit});
}

}  // namespace ingot
