#include "ingot/kernels/quantized_conv.h"

#include <algorithm>
#include <cmath>

#include "ingot/kernels/affine_quantize.h"
#include "ingot/kernels/cpu/register.h"

namespace ingot::kernels::cpu {
namespace {

std::int32_t code_of(const View& x, std::int64_t i) {
  return x.dtype == DType::i8 ? std::int32_t{x.as<std::int8_t>()[i]} : std::int32_t{x.as<std::uint8_t>()[i]};
}

void put_code(const View& y, std::int64_t i, float code) {
  if (y.dtype == DType::i8) {
    y.as<std::int8_t>()[i] = static_cast<std::int8_t>(code);
  } else {
    y.as<std::uint8_t>()[i] = static_cast<std::uint8_t>(code);
  }
}

void convolve_codes(const QuantizedConvArgs& args, Stream) {
  const View &x = args.x, &weight = args.weight, &y = args.y;
  const ConvGeometry& g = args.geometry;
  const CodeRange range(y.dtype);
  const std::int64_t b = y.dim(4), h = x.dim(2), w = x.dim(3), kh = weight.dim(1), kw = weight.dim(2),
                     groups = weight.dim(3), panel = 2 * b, in_group = weight.dtype == DType::i8 ? 4 : 2;
  const auto weight_at = [&](std::int64_t i) {
    return weight.dtype == DType::i8 ? std::int32_t{weight.as<std::int8_t>()[i]}
                                     : std::int32_t{static_cast<const std::int16_t*>(weight.data)[i]};
  };
  for (std::int64_t i = 0; i < y.numel(); ++i) {
    const std::int64_t position = i / b, ow = position % y.dim(3), oh = position / y.dim(3) % y.dim(2),
                       map = position / y.dim(3) / y.dim(2), n = map / y.dim(1),
                       o = map % y.dim(1) * b + i % b;
    std::int32_t sum = args.bias ? args.bias.as<std::int32_t>()[o] : 0;
    for (std::int64_t k = 0; k < kh * kw * groups; ++k) {
      const std::int64_t group = k % groups, tap = k / groups;
      const std::int64_t ih = oh * g.stride[0] - g.padding[0] + tap / kw * g.dilation[0],
                         iw = ow * g.stride[1] - g.padding[1] + tap % kw * g.dilation[1];
      if (ih < 0 || ih >= h || iw < 0 || iw >= w) continue;
      const std::int64_t from = ((o / panel * kh * kw * groups + k) * panel + o % panel) * in_group;
      for (std::int64_t j = 0; j < in_group; ++j) {
        const std::int64_t c = in_group * group + j;
        const std::int64_t at = (((n * x.dim(1) + c / b) * h + ih) * w + iw) * b + c % b;
        sum += (code_of(x, at) - args.x_zero) * weight_at(from + j);
      }
    }
    const auto zero = static_cast<float>(args.y_zero);
    const float scaled = static_cast<float>(sum) * args.scale.as<float>()[o];
    put_code(y, i, std::nearbyint(std::clamp(scaled, range.low - zero, range.high - zero)) + zero);
  }
}

}  // namespace

void register_quantized_conv_reference() {
  quantized_conv.add(DeviceType::cpu, {"reference", ImplKind::reference, nullptr, convolve_codes});
}

}  // namespace ingot::kernels::cpu
