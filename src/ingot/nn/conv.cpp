#include "ingot/nn/conv.h"

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/base/validated.h"
#include "ingot/nn/module_scope.h"

namespace ingot {
namespace {

void check_channels(const char* key, std::int64_t in, std::int64_t out, std::int64_t groups) {
  INGOT_CHECK(in > 0 && out > 0,
              InvalidConfig(key, fmt::format("channels must be positive, got {} in and {} out", in, out)));
  INGOT_CHECK(groups > 0 && in % groups == 0 && out % groups == 0,
              InvalidConfig(key, fmt::format("groups ({}) must divide {} input and {} output channels",
                                             groups, in, out)));
}

void check_window(const char* key, std::int64_t stride, std::int64_t padding, std::int64_t dilation) {
  INGOT_CHECK(
      stride > 0 && dilation > 0 && padding >= 0,
      InvalidConfig(key, fmt::format("needs a positive stride and dilation and no negative padding, got "
                                     "stride {}, dilation {}, padding {}",
                                     stride, dilation, padding)));
}

std::int64_t checked_channels(std::int64_t channels, const GroupNormOptions& o) {
  INGOT_CHECK(channels > 0,
              InvalidConfig("group_norm.channels", fmt::format("must be positive, got {}", channels)));
  INGOT_CHECK(o.groups > 0 && channels % o.groups == 0,
              InvalidConfig("group_norm.groups",
                            fmt::format("must divide the {} channels, got {}", channels, o.groups)));
  INGOT_CHECK(o.eps >= 0 && o.eps < 1,
              InvalidConfig("group_norm.eps", fmt::format("must be in [0, 1), got {}", o.eps)));
  return channels;
}

}  // namespace

void Conv1dModuleOptions::validate() const {
  check_channels("conv1d", in, out, conv.groups);
  INGOT_CHECK(kernel > 0, InvalidConfig("conv1d.kernel", fmt::format("must be positive, got {}", kernel)));
  check_window("conv1d", conv.stride, conv.padding, conv.dilation);
}

Conv1d::Conv1d(const ParamSource& source, const Conv1dModuleOptions& o)
    : weight(source.take("weight", {validated(o).out, o.in / o.conv.groups, o.kernel},
                         o.weight_init.value_or(init::fan_in_uniform(o.in / o.conv.groups * o.kernel)))),
      bias(o.bias ? source.take("bias", {o.out}, init::fan_in_uniform(o.in / o.conv.groups * o.kernel))
                  : Parameter()),
      options(o.conv) {}

Tensor Conv1d::operator()(const Tensor& x) const {
  const ModuleScope scope(weight);
  return conv1d(x, weight.value, bias.value, options);
}

void Conv1d::visit(ParamVisitor& v) {
  v("weight", weight);
  v("bias", bias);
}

void Conv2dModuleOptions::validate() const {
  check_channels("conv2d", in, out, conv.groups);
  INGOT_CHECK(
      kernel[0] > 0 && kernel[1] > 0,
      InvalidConfig("conv2d.kernel", fmt::format("must be positive, got {} x {}", kernel[0], kernel[1])));
  for (std::size_t i = 0; i < 2; ++i)
    check_window("conv2d", conv.stride[i], conv.padding[i], conv.dilation[i]);
}

Conv2d::Conv2d(const ParamSource& source, const Conv2dModuleOptions& o)
    : weight(source.take(
          "weight", {validated(o).out, o.in / o.conv.groups, o.kernel[0], o.kernel[1]},
          o.weight_init.value_or(init::fan_in_uniform(o.in / o.conv.groups * o.kernel[0] * o.kernel[1])))),
      bias(o.bias ? source.take("bias", {o.out},
                                o.bias_init.value_or(
                                    init::fan_in_uniform(o.in / o.conv.groups * o.kernel[0] * o.kernel[1])))
                  : Parameter()),
      options(o.conv) {}

Tensor Conv2d::operator()(const Tensor& x) const {
  const ModuleScope scope(weight);
  return conv2d(x, weight.value, bias.value, options);
}

void Conv2d::visit(ParamVisitor& v) {
  v("weight", weight);
  v("bias", bias);
}

GroupNorm::GroupNorm(const ParamSource& source, std::int64_t channels, const GroupNormOptions& o)
    : weight(source.take("weight", {checked_channels(channels, o)}, init::kOnes)),
      bias(source.take("bias", {channels}, init::kZeros)),
      options(o) {}

Tensor GroupNorm::operator()(const Tensor& x) const {
  const ModuleScope scope(weight);
  return group_norm(x, weight.value, bias.value, options);
}

void GroupNorm::visit(ParamVisitor& v) {
  v("weight", weight);
  v("bias", bias);
}

}  // namespace ingot
