#include "ingot/kernels/group_norm.h"

#include <algorithm>
#include <cmath>

#include "ingot/kernels/cpu/numeric.h"
#include "ingot/kernels/cpu/reference/mish.h"
#include "ingot/kernels/cpu/register.h"

namespace ingot::kernels::cpu {
namespace {

/// Where channel c, position s of sample n is.
struct Layout {
  std::int64_t channels, length;
  bool last;
  Layout(const View& x, bool channels_last)
      : channels(x.dim(channels_last ? 2 : 1)), length(x.dim(channels_last ? 1 : 2)), last(channels_last) {}
  std::int64_t at(std::int64_t n, std::int64_t c, std::int64_t s) const {
    return last ? (n * length + s) * channels + c : (n * channels + c) * length + s;
  }
};

void forward(const GroupNormArgs& args, Stream) {
  dispatch_float(args.x.dtype, "group_norm", [&]<class T>() {
    using Acc = Accumulator<T>;
    const Layout at(args.x, args.channels_last);
    const std::int64_t width = at.channels / args.groups;
    const T* x = args.x.as<T>();
    for (std::int64_t i = 0; i < args.x.dim(0) * args.groups; ++i) {
      const std::int64_t n = i / args.groups, first = i % args.groups * width;
      const auto sum = [&](auto&& f) {
        Acc total = 0;
        for (std::int64_t c = first; c < first + width; ++c) {
          for (std::int64_t s = 0; s < at.length; ++s) total += f(load(x + at.at(n, c, s)));
        }
        return total / static_cast<Acc>(width * at.length);
      };
      const Acc mean = sum([](Acc v) { return v; });
      const Acc rstd =
          1 / std::sqrt(sum([&](Acc v) { return (v - mean) * (v - mean); }) + static_cast<Acc>(args.eps));
      args.mean.as<Acc>()[i] = mean;
      args.rstd.as<Acc>()[i] = rstd;
      for (std::int64_t c = first; c < first + width; ++c) {
        for (std::int64_t s = 0; s < at.length; ++s) {
          const Acc u = (load(x + at.at(n, c, s)) - mean) * rstd * load(args.weight.as<T>() + c) +
                        load(args.bias.as<T>() + c);
          store(args.y.as<T>() + at.at(n, c, s), args.activation == NormActivation::mish ? mish(u) : u);
        }
      }
    }
  });
}

void backward(const GroupNormBackwardArgs& args, Stream) {
  dispatch_float(args.x.dtype, "group_norm_backward", [&]<class T>() {
    using Acc = Accumulator<T>;
    const Layout at(args.x, args.channels_last);
    const std::int64_t width = at.channels / args.groups;
    Acc* dweight = args.scratch.as<Acc>();
    Acc* dbias = dweight + at.channels;
    std::fill_n(dweight, 2 * at.channels, Acc{0});
    for (std::int64_t i = 0; i < args.x.dim(0) * args.groups; ++i) {
      const std::int64_t n = i / args.groups, first = i % args.groups * width;
      const Acc mean = args.mean.as<Acc>()[i], rstd = args.rstd.as<Acc>()[i];
      const auto hat = [&](std::int64_t c, std::int64_t s) {
        return (load(args.x.as<T>() + at.at(n, c, s)) - mean) * rstd;
      };
      const auto du = [&](std::int64_t c, std::int64_t s) {
        const Acc dy = load(args.dy.as<T>() + at.at(n, c, s));
        if (args.activation == NormActivation::none) return dy;
        return dy * mish_derivative(hat(c, s) * load(args.weight.as<T>() + c) + load(args.bias.as<T>() + c));
      };
      Acc s1 = 0, s2 = 0;
      for (std::int64_t c = first; c < first + width; ++c) {
        for (std::int64_t s = 0; s < at.length; ++s) {
          const Acc g = du(c, s), h = hat(c, s), w = load(args.weight.as<T>() + c);
          dweight[c] += g * h;
          dbias[c] += g;
          s1 += w * g;
          s2 += w * g * h;
        }
      }
      const Acc count = static_cast<Acc>(width * at.length);
      for (std::int64_t c = first; args.dx && c < first + width; ++c) {
        for (std::int64_t s = 0; s < at.length; ++s) {
          const Acc w = load(args.weight.as<T>() + c);
          store(args.dx.as<T>() + at.at(n, c, s), rstd * (w * du(c, s) - s1 / count - hat(c, s) * s2 / count),
                args.accumulate_dx);
        }
      }
    }
    for (std::int64_t c = 0; c < at.channels; ++c) {
      if (args.dweight) store(args.dweight.as<T>() + c, dweight[c], args.accumulate_dweight);
      if (args.dbias) store(args.dbias.as<T>() + c, dbias[c], args.accumulate_dbias);
    }
  });
}

}  // namespace

void register_group_norm_reference() {
  group_norm.add(DeviceType::cpu, {"reference", ImplKind::reference, nullptr, forward});
  group_norm_backward.add(DeviceType::cpu, {"reference", ImplKind::reference, nullptr, backward});
}

}  // namespace ingot::kernels::cpu
