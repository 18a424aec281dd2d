#include "ingot/kernels/blocked_conv.h"

#include <algorithm>

#include "ingot/kernels/cpu/register.h"

namespace ingot::kernels::cpu {
namespace {

void blocked_forward(const BlockedConvArgs& args, Stream) {
  const bool blocked = args.x.rank == 5;
  const ConvGeometry& g = args.geometry;
  const View &x = args.x, &weight = args.weight, &y = args.y;
  const std::int64_t b = y.dim(4), channels = blocked ? x.dim(1) * b : x.dim(1), h = x.dim(2), w = x.dim(3),
                     kh = weight.dim(blocked ? 2 : 1), kw = weight.dim(blocked ? 3 : 2);
  const auto value = [&](std::int64_t n, std::int64_t c, std::int64_t row, std::int64_t col) {
    const std::int64_t block = blocked ? b : 1;
    return x
        .as<float>()[((n * (channels / block) + c / block) * h + row) * w * block + col * block + c % block];
  };
  const auto factor = [&](std::int64_t o, std::int64_t c, std::int64_t row, std::int64_t col) {
    const std::int64_t tap = row * kw + col;
    const std::int64_t at = blocked ? ((o / b * (channels / b) + c / b) * kh * kw + tap) * b + c % b
                                    : (o / b * kh * kw + tap) * channels + c;
    return weight.as<float>()[at * b + o % b];
  };
  for (std::int64_t i = 0; i < y.numel(); ++i) {
    const std::int64_t position = i / b, ow = position % y.dim(3), oh = position / y.dim(3) % y.dim(2),
                       map = position / y.dim(3) / y.dim(2), n = map / y.dim(1),
                       o = map % y.dim(1) * b + i % b;
    double sum = args.bias ? args.bias.as<float>()[o] : 0;
    for (std::int64_t k = 0; k < channels * kh * kw; ++k) {
      const std::int64_t c = k / (kh * kw), row = k / kw % kh, col = k % kw,
                         ih = oh * g.stride[0] - g.padding[0] + row * g.dilation[0],
                         iw = ow * g.stride[1] - g.padding[1] + col * g.dilation[1];
      if (ih < 0 || ih >= h || iw < 0 || iw >= w) continue;
      sum += double{value(n, c, ih, iw)} * factor(o, c, row, col);
    }
    if (args.residual) sum += args.residual.as<float>()[i];
    y.as<float>()[i] = static_cast<float>(args.relu && sum < 0 ? 0 : sum);
  }
}

}  // namespace

void register_blocked_conv_reference() {
  blocked_conv.add(DeviceType::cpu, {"reference", ImplKind::reference, nullptr, blocked_forward});
}

}  // namespace ingot::kernels::cpu
