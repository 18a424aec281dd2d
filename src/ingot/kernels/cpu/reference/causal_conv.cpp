#include "ingot/kernels/causal_conv.h"

#include <algorithm>

#include "ingot/kernels/cpu/numeric.h"
#include "ingot/kernels/cpu/register.h"

namespace ingot::kernels::cpu {
namespace {

// The first step of x that step t of row b sees.
std::int64_t first_seen(const View& starts, std::int64_t b, std::int64_t t, std::int64_t length) {
  return starts ? std::max<std::int64_t>(starts.as<std::int32_t>()[b * length + t], 0) : 0;
}

void causal_conv_reference(const CausalConvArgs& args, Stream) {
  const std::int64_t length = args.x.dim(1), channels = args.x.dim(2), taps = args.weight.dim(1);
  dispatch_float(args.x.dtype, "causal_conv", [&]<class T>() {
    for (std::int64_t i = 0; i < args.x.numel(); ++i) {
      const std::int64_t c = i % channels, t = i / channels % length, b = i / channels / length;
      Accumulator<T> sum = args.bias ? load(args.bias.as<T>() + c) : Accumulator<T>{0};
      for (std::int64_t k = 0; k < taps; ++k) {
        const std::int64_t s = t - taps + 1 + k;
        const Accumulator<T> weight = load(args.weight.as<T>() + c * taps + k);
        if (s >= first_seen(args.starts, b, t, length)) {
          sum += weight * load(args.x.as<T>() + (b * length + s) * channels + c);
        } else if (s < 0 && args.past) {
          sum += weight * load(args.past.as<T>() + (b * (taps - 1) + s + taps - 1) * channels + c);
        }
      }
      store(args.y.as<T>() + i, sum);
    }
  });
}

void causal_conv_backward_reference(const CausalConvBackwardArgs& args, Stream) {
  const std::int64_t length = args.dy.dim(1), channels = args.dy.dim(2), taps = args.weight.dim(1);
  const std::int64_t batch = args.dy.dim(0);
  dispatch_float(args.dy.dtype, "causal_conv_backward", [&]<class T>() {
    using Acc = Accumulator<T>;
    const auto dy = [&](std::int64_t b, std::int64_t t, std::int64_t c) {
      return load(args.dy.as<T>() + (b * length + t) * channels + c);
    };
    for (std::int64_t i = 0; args.dx && i < args.dx.numel(); ++i) {
      const std::int64_t c = i % channels, s = i / channels % length, b = i / channels / length;
      Acc sum = 0;
      for (std::int64_t t = s; t < std::min(s + taps, length); ++t) {
        if (first_seen(args.starts, b, t, length) > s) continue;
        sum += load(args.weight.as<T>() + c * taps + (s - t + taps - 1)) * dy(b, t, c);
      }
      store(args.dx.as<T>() + i, sum, args.accumulate_dx);
    }
    for (std::int64_t i = 0; args.dweight && i < channels * taps; ++i) {
      const std::int64_t c = i / taps, k = i % taps;
      Acc sum = 0;
      for (std::int64_t b = 0; b < batch; ++b) {
        for (std::int64_t t = 0; t < length; ++t) {
          const std::int64_t s = t - taps + 1 + k;
          if (s < first_seen(args.starts, b, t, length)) continue;
          sum += dy(b, t, c) * load(args.x.as<T>() + (b * length + s) * channels + c);
        }
      }
      store(args.dweight.as<T>() + i, sum, args.accumulate_dweight);
    }
    for (std::int64_t c = 0; args.dbias && c < channels; ++c) {
      Acc sum = 0;
      for (std::int64_t b = 0; b < batch; ++b)
        for (std::int64_t t = 0; t < length; ++t) sum += dy(b, t, c);
      store(args.dbias.as<T>() + c, sum, args.accumulate_dbias);
    }
  });
}

}  // namespace

void register_causal_conv_reference() {
  causal_conv.add(DeviceType::cpu, {"reference", ImplKind::reference, nullptr, causal_conv_reference});
  causal_conv_backward.add(DeviceType::cpu,
                           {"reference", ImplKind::reference, nullptr, causal_conv_backward_reference});
}

}  // namespace ingot::kernels::cpu
