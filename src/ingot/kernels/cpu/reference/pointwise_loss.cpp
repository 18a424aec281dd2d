#include <algorithm>
#include <cmath>

#include "ingot/kernels/cpu/numeric.h"
#include "ingot/kernels/cpu/register.h"
#include "ingot/kernels/loss.h"

namespace ingot::kernels::cpu {
namespace {

constexpr double kLowestLog = -100.0;  // PyTorch's bound: a sure but wrong prediction costs 100, not infinity

template <class Acc>
Acc bounded_log(Acc x) {
  return std::max(std::log(x), static_cast<Acc>(kLowestLog));
}

template <class Acc>
Acc value(PointwiseLoss kind, Acc x, Acc t, Acc delta) {
  const Acc d = x - t, size = std::abs(d);
  switch (kind) {
    case PointwiseLoss::mse:
      return d * d;
    case PointwiseLoss::l1:
      return size;
    case PointwiseLoss::huber:
      return size <= delta ? d * d / 2 : delta * (size - delta / 2);
    case PointwiseLoss::bce:
      return -t * bounded_log(x) - (1 - t) * bounded_log(1 - x);
    case PointwiseLoss::bce_with_logits:
      return std::max(x, Acc{0}) - x * t + std::log1p(std::exp(-std::abs(x)));
  }
  return 0;
}

template <class Acc>
struct Slopes {
  Acc x, target;
};

template <class Acc>
Slopes<Acc> slopes(PointwiseLoss kind, Acc x, Acc t, Acc delta) {
  const Acc d = x - t, sign = static_cast<Acc>((d > 0) - (d < 0));
  switch (kind) {
    case PointwiseLoss::mse:
      return {2 * d, -2 * d};
    case PointwiseLoss::l1:
      return {sign, -sign};
    case PointwiseLoss::huber: {
      const Acc slope = std::abs(d) <= delta ? d : sign * delta;
      return {slope, -slope};
    }
    case PointwiseLoss::bce: {
      // The bound of PyTorch's gradient: x·(1 − x) is at least 1e-12.
      const Acc slope = (x - t) / std::max(x * (1 - x), static_cast<Acc>(1e-12));
      return {slope, bounded_log(1 - x) - bounded_log(x)};
    }
    case PointwiseLoss::bce_with_logits:
      return {1 / (1 + std::exp(-x)) - t, -x};
  }
  return {0, 0};
}

void pointwise_loss_reference(const PointwiseLossArgs& args, Stream) {
  dispatch_float(args.x.dtype, "pointwise_loss", [&]<class T>() {
    using Acc = Accumulator<T>;
    const bool reduced = static_cast<bool>(args.partials);
    double sum = 0;
    for (std::int64_t i = 0; i < args.x.numel(); ++i) {
      const Acc loss = value(args.kind, load(args.x.as<T>() + i), load(args.target.as<T>() + i),
                             static_cast<Acc>(args.delta));
      sum += static_cast<double>(loss);
      if (!reduced) store(args.loss.as<T>() + i, loss);
    }
    if (reduced) args.loss.as<Acc>()[0] = static_cast<Acc>(sum * args.scale);
  });
}

void pointwise_loss_backward_reference(const PointwiseLossBackwardArgs& args, Stream) {
  dispatch_float(args.x.dtype, "pointwise_loss_backward", [&]<class T>() {
    using Acc = Accumulator<T>;
    const bool reduced = args.dloss.rank == 0;
    for (std::int64_t i = 0; i < args.x.numel(); ++i) {
      const Slopes<Acc> s = slopes(args.kind, load(args.x.as<T>() + i), load(args.target.as<T>() + i),
                                   static_cast<Acc>(args.delta));
      const Acc dy =
          (reduced ? args.dloss.as<Acc>()[0] : load(args.dloss.as<T>() + i)) * static_cast<Acc>(args.scale);
      if (args.dx) store(args.dx.as<T>() + i, s.x * dy, args.accumulate_dx);
      if (args.dtarget) store(args.dtarget.as<T>() + i, s.target * dy, args.accumulate_dtarget);
    }
  });
}

}  // namespace

void register_pointwise_loss_reference() {
  pointwise_loss.add(DeviceType::cpu, {"reference", ImplKind::reference, nullptr, pointwise_loss_reference});
  pointwise_loss_backward.add(DeviceType::cpu,
                              {"reference", ImplKind::reference, nullptr, pointwise_loss_backward_reference});
}

}  // namespace ingot::kernels::cpu
