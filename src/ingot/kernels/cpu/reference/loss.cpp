#include "ingot/kernels/loss.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "ingot/base/error.h"
#include "ingot/kernels/cpu/numeric.h"
#include "ingot/kernels/cpu/register.h"

namespace ingot::kernels::cpu {
namespace {

std::int64_t target_at(const View& targets, std::int64_t i) {
  const std::int64_t at = i * targets.stride(0);
  return targets.dtype == DType::i64 ? targets.as<std::int64_t>()[at] : targets.as<std::int32_t>()[at];
}

void count_targets_reference(const CountTargetsArgs& args, Stream) {
  std::int64_t count = 0;
  for (std::int64_t i = 0; i < args.targets.dim(0); ++i) {
    const std::int64_t target = target_at(args.targets, i);
    if (target == args.ignore_index) continue;
    INGOT_CHECK(target >= 0 && target < args.classes,
                KernelError("cross_entropy", "target " + std::to_string(target) + " at position " +
                                                 std::to_string(i) + " is outside the vocabulary of " +
                                                 std::to_string(args.classes) + " (and is not the ignored " +
                                                 std::to_string(args.ignore_index) + ")"));
    ++count;
  }
  args.count.as<float>()[0] = static_cast<float>(count);
}

template <class T>
Accumulator<T> capped(const T* x, std::int64_t i, float softcap) {
  using Acc = Accumulator<T>;
  const Acc value = load(x + i);
  return softcap > 0.0F ? static_cast<Acc>(softcap) * std::tanh(value / static_cast<Acc>(softcap)) : value;
}

// The gradient of one row by its logits, times `factor`.
template <class T>
void row_gradient(const T* x, T* dx, std::int64_t n, std::int64_t target, Accumulator<T> lse,
                  Accumulator<T> factor, const CrossEntropyOptions& options, bool accumulate) {
  using Acc = Accumulator<T>;
  const Acc smoothing = static_cast<Acc>(options.label_smoothing);
  const Acc weight = 1 + 2 * static_cast<Acc>(options.z_loss) * lse;
  for (std::int64_t j = 0; j < n; ++j) {
    const Acc value = capped(x, j, options.softcap);
    Acc d = weight * std::exp(value - lse) - smoothing / static_cast<Acc>(n);
    if (j == target) d -= 1 - smoothing;
    if (options.softcap > 0.0F)
      d *= 1 - (value / static_cast<Acc>(options.softcap)) * (value / static_cast<Acc>(options.softcap));
    store(dx + j, target == options.ignore_index ? 0 : d * factor, accumulate);
  }
}

void cross_entropy_reference(const CrossEntropyArgs& args, Stream) {
  dispatch_float(args.logits.dtype, "cross_entropy", [&]<class T>() {
    using Acc = Accumulator<T>;
    const std::int64_t n = args.logits.dim(1);
    const Acc factor = args.denominator ? 1 / static_cast<Acc>(args.denominator.as<float>()[0]) : 1;
    const Acc smoothing = static_cast<Acc>(args.options.label_smoothing);
    for (std::int64_t i = 0; i < args.logits.dim(0); ++i) {
      const T* x = args.logits.as<T>() + i * args.logits.stride(0);
      const std::int64_t target = target_at(args.targets, i);
      Acc top = -std::numeric_limits<Acc>::infinity(), sum = 0, mean = 0;
      for (std::int64_t j = 0; j < n; ++j) top = std::max(top, capped(x, j, args.options.softcap));
      for (std::int64_t j = 0; j < n; ++j) {
        const Acc value = capped(x, j, args.options.softcap);
        sum += std::exp(value - top);
        mean += value / static_cast<Acc>(n);
      }
      const Acc lse = top + std::log(sum);
      Acc loss = 0;
      if (target != args.options.ignore_index) {
        loss = lse - (1 - smoothing) * capped(x, target, args.options.softcap) - smoothing * mean +
               static_cast<Acc>(args.options.z_loss) * lse * lse;
      }
      args.loss.as<Acc>()[i] = loss;
      if (args.lse) args.lse.as<Acc>()[i] = lse;
      if (args.dlogits) {
        row_gradient(x, args.dlogits.as<T>() + i * args.dlogits.stride(0), n, target, lse, factor,
                     args.options, false);
      }
    }
  });
}

void cross_entropy_backward_reference(const CrossEntropyBackwardArgs& args, Stream) {
  dispatch_float(args.logits.dtype, "cross_entropy_backward", [&]<class T>() {
    using Acc = Accumulator<T>;
    const Acc scale = args.denominator ? 1 / static_cast<Acc>(args.denominator.as<float>()[0]) : 1;
    for (std::int64_t i = 0; i < args.logits.dim(0); ++i) {
      const Acc factor = args.dloss.as<Acc>()[args.dloss.numel() == 1 ? 0 : i] * scale;
      row_gradient(args.logits.as<T>() + i * args.logits.stride(0),
                   args.dlogits.as<T>() + i * args.dlogits.stride(0), args.logits.dim(1),
                   target_at(args.targets, i), args.lse.as<Acc>()[i], factor, args.options, args.accumulate);
    }
  });
}

void total_reference(const TotalArgs& args, Stream) {
  dispatch_float(args.x.dtype, "total", [&]<class T>() {
    double sum = 0;
    for (std::int64_t i = 0; i < args.x.dim(0); ++i) sum += static_cast<double>(load(args.x.as<T>() + i));
    const double denominator = args.denominator ? static_cast<double>(args.denominator.as<float>()[0]) : 1.0;
    sum = denominator == 0.0 ? 0.0 : sum / denominator;
    store(args.y.as<T>(), static_cast<Accumulator<T>>(sum));
  });
}

void scale_by_reference(const ScaleByArgs& args, Stream) {
  dispatch_float(args.x.dtype, "scale_by", [&]<class T>() {
    const auto factor = dispatch_float(args.factor.dtype, "scale_by", [&]<class F>() {
      return static_cast<Accumulator<T>>(load(args.factor.as<F>()));
    });
    for (std::int64_t i = 0; i < args.x.numel(); ++i)
      store(args.y.as<T>() + i, load(args.x.as<T>() + i) * factor, args.accumulate);
  });
}

}  // namespace

void register_loss_reference() {
  count_targets.add(DeviceType::cpu, {"reference", ImplKind::reference, nullptr, count_targets_reference});
  cross_entropy.add(DeviceType::cpu, {"reference", ImplKind::reference, nullptr, cross_entropy_reference});
  cross_entropy_backward.add(DeviceType::cpu,
                             {"reference", ImplKind::reference, nullptr, cross_entropy_backward_reference});
  total.add(DeviceType::cpu, {"reference", ImplKind::reference, nullptr, total_reference});
  scale_by.add(DeviceType::cpu, {"reference", ImplKind::reference, nullptr, scale_by_reference});
}

}  // namespace ingot::kernels::cpu
