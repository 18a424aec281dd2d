#include "ingot/kernels/softmax.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ingot/kernels/cpu/numeric.h"
#include "ingot/kernels/cpu/register.h"

namespace ingot::kernels::cpu {
namespace {

template <class T>
Accumulator<T> row_max(const T* x, std::int64_t n) {
  auto largest = -std::numeric_limits<Accumulator<T>>::infinity();
  for (std::int64_t i = 0; i < n; ++i) largest = std::max(largest, load(x + i));
  return largest;
}

template <class T>
Accumulator<T> exp_sum(const T* x, std::int64_t n, Accumulator<T> largest) {
  Accumulator<T> sum = 0;
  for (std::int64_t i = 0; i < n; ++i) sum += std::exp(load(x + i) - largest);
  return sum;
}

void softmax_reference(const SoftmaxArgs& args, Stream) {
  dispatch_float(args.x.dtype, "softmax", [&]<class T>() {
    const std::int64_t n = args.x.dim(-1);
    for (std::int64_t row = 0; row < args.x.rows(); ++row) {
      const T* x = args.x.as<T>() + row * n;
      const auto largest = row_max(x, n), sum = exp_sum(x, n, largest);
      for (std::int64_t i = 0; i < n; ++i) {
        const auto shifted = load(x + i) - largest;
        store(args.y.as<T>() + row * n + i, args.log ? shifted - std::log(sum) : std::exp(shifted) / sum);
      }
    }
  });
}

void softmax_backward_reference(const SoftmaxBackwardArgs& args, Stream) {
  dispatch_float(args.y.dtype, "softmax_backward", [&]<class T>() {
    using Acc = Accumulator<T>;
    const std::int64_t n = args.y.dim(-1);
    for (std::int64_t row = 0; row < args.y.rows(); ++row) {
      const T* y = args.y.as<T>() + row * n;
      const T* dy = args.dy.as<T>() + row * n;
      Acc sum = 0;
      for (std::int64_t i = 0; i < n; ++i) sum += load(dy + i) * (args.log ? Acc{1} : load(y + i));
      for (std::int64_t i = 0; i < n; ++i) {
        const Acc value =
            args.log ? load(dy + i) - std::exp(load(y + i)) * sum : load(y + i) * (load(dy + i) - sum);
        store(args.dx.as<T>() + row * n + i, value, args.accumulate);
      }
    }
  });
}

void logsumexp_reference(const LogSumExpArgs& args, Stream) {
  dispatch_float(args.x.dtype, "logsumexp", [&]<class T>() {
    const std::int64_t n = args.x.dim(-1);
    for (std::int64_t row = 0; row < args.x.rows(); ++row) {
      const T* x = args.x.as<T>() + row * n;
      auto largest = row_max(x, n);
      if (std::isinf(largest)) largest = 0;  // ∞ − ∞ is NaN
      store(args.y.as<T>() + row, largest + std::log(exp_sum(x, n, largest)));
    }
  });
}

void logsumexp_backward_reference(const LogSumExpBackwardArgs& args, Stream) {
  dispatch_float(args.x.dtype, "logsumexp_backward", [&]<class T>() {
    const std::int64_t n = args.x.dim(-1);
    for (std::int64_t row = 0; row < args.x.rows(); ++row) {
      const auto y = load(args.y.as<T>() + row), dy = load(args.dy.as<T>() + row);
      for (std::int64_t i = row * n; i < (row + 1) * n; ++i) {
        store(args.dx.as<T>() + i, dy * std::exp(load(args.x.as<T>() + i) - y), args.accumulate);
      }
    }
  });
}

}  // namespace

void register_softmax_reference() {
  softmax.add(DeviceType::cpu, {"reference", ImplKind::reference, nullptr, softmax_reference});
  softmax_backward.add(DeviceType::cpu,
                       {"reference", ImplKind::reference, nullptr, softmax_backward_reference});
  logsumexp.add(DeviceType::cpu, {"reference", ImplKind::reference, nullptr, logsumexp_reference});
  logsumexp_backward.add(DeviceType::cpu,
                         {"reference", ImplKind::reference, nullptr, logsumexp_backward_reference});
}

}  // namespace ingot::kernels::cpu
