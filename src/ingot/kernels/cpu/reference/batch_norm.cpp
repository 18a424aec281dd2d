#include "ingot/kernels/batch_norm.h"

#include <cmath>

#include "ingot/kernels/cpu/numeric.h"
#include "ingot/kernels/cpu/register.h"

namespace ingot::kernels::cpu {
namespace {

// Σ f(position) over the positions of one channel of x [N, C, S].
template <class F>
double sum_channel(const View& x, std::int64_t c, F&& f) {
  double sum = 0;
  for (std::int64_t n = 0; n < x.dim(0); ++n) {
    for (std::int64_t s = 0; s < x.dim(2); ++s)
      sum += static_cast<double>(f((n * x.dim(1) + c) * x.dim(2) + s));
  }
  return sum;
}

void statistics(const BatchStatisticsArgs& args, Stream) {
  dispatch_float(args.x.dtype, "batch_statistics", [&]<class T>() {
    const T* x = args.x.as<T>();
    const auto count = static_cast<double>(args.x.dim(0) * args.x.dim(2));
    for (std::int64_t c = 0; c < args.x.dim(1); ++c) {
      const double mean =
          sum_channel(args.x, c, [&](std::int64_t i) { return static_cast<double>(load(x + i)); }) / count;
      const double squares = sum_channel(args.x, c, [&](std::int64_t i) {
        const double d = static_cast<double>(load(x + i)) - mean;
        return d * d;
      });
      args.mean.as<Accumulator<T>>()[c] = static_cast<Accumulator<T>>(mean);
      args.variance.as<Accumulator<T>>()[c] = static_cast<Accumulator<T>>(squares / count);
    }
  });
}

void forward(const BatchNormArgs& args, Stream) {
  dispatch_float(args.x.dtype, "batch_norm", [&]<class T>() {
    using Acc = Accumulator<T>;
    for (std::int64_t c = 0; c < args.x.dim(1); ++c) {
      const Acc mean = args.mean.as<Acc>()[c];
      const Acc rstd = 1 / std::sqrt(args.variance.as<Acc>()[c] + static_cast<Acc>(args.eps));
      const Acc weight = args.weight ? args.weight.as<Acc>()[c] : Acc{1};
      const Acc bias = args.bias ? args.bias.as<Acc>()[c] : Acc{0};
      sum_channel(args.x, c, [&](std::int64_t i) {
        store(args.y.as<T>() + i, (load(args.x.as<T>() + i) - mean) * rstd * weight + bias);
        return 0;
      });
    }
  });
}

// With x̂ = (x − mean)·rstd: dx = rstd·w·(dy − mean(dy) − x̂·mean(dy·x̂)), without the means where the
// statistics are constants.
void backward(const BatchNormBackwardArgs& args, Stream) {
  dispatch_float(args.x.dtype, "batch_norm_backward", [&]<class T>() {
    using Acc = Accumulator<T>;
    const T* x = args.x.as<T>();
    const T* dy = args.dy.as<T>();
    const auto count = static_cast<double>(args.x.dim(0) * args.x.dim(2));
    for (std::int64_t c = 0; c < args.x.dim(1); ++c) {
      const Acc mean = args.mean.as<Acc>()[c];
      const Acc rstd = 1 / std::sqrt(args.variance.as<Acc>()[c] + static_cast<Acc>(args.eps));
      const auto hat = [&](std::int64_t i) { return (load(x + i) - mean) * rstd; };
      const double sum_dy = sum_channel(args.x, c, [&](std::int64_t i) { return load(dy + i); });
      const double sum_dyx = sum_channel(args.x, c, [&](std::int64_t i) { return load(dy + i) * hat(i); });
      const Acc weight = args.weight ? args.weight.as<Acc>()[c] : Acc{1};
      const Acc m1 = args.own_statistics ? static_cast<Acc>(sum_dy / count) : Acc{0};
      const Acc m2 = args.own_statistics ? static_cast<Acc>(sum_dyx / count) : Acc{0};
      if (args.dweight) store(args.dweight.as<Acc>() + c, static_cast<Acc>(sum_dyx), args.accumulate_dweight);
      if (args.dbias) store(args.dbias.as<Acc>() + c, static_cast<Acc>(sum_dy), args.accumulate_dbias);
      if (!args.dx) continue;
      sum_channel(args.x, c, [&](std::int64_t i) {
        store(args.dx.as<T>() + i, rstd * weight * (load(dy + i) - m1 - hat(i) * m2), args.accumulate_dx);
        return 0;
      });
    }
  });
}

}  // namespace

void register_batch_norm_reference() {
  batch_statistics.add(DeviceType::cpu, {"reference", ImplKind::reference, nullptr, statistics});
  batch_norm.add(DeviceType::cpu, {"reference", ImplKind::reference, nullptr, forward});
  batch_norm_backward.add(DeviceType::cpu, {"reference", ImplKind::reference, nullptr, backward});
}

}  // namespace ingot::kernels::cpu
