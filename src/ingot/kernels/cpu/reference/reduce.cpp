#include "ingot/kernels/reduce.h"

#include <cmath>
#include <limits>

#include "ingot/kernels/cpu/numeric.h"
#include "ingot/kernels/cpu/register.h"
#include "ingot/kernels/cpu/strided.h"
#include "ingot/kernels/reduce_axes.h"

namespace ingot::kernels::cpu {
namespace {

double combine(ReduceOp op, double a, double b) {
  if (op == ReduceOp::sum) return a + b;
  if (std::isnan(b)) return b;
  return (op == ReduceOp::max) == (b > a) && a != b ? b : a;
}

void reduce_reference(const ReduceArgs& args, Stream) {
  dispatch_float(args.x.dtype, "reduce", [&]<class T>() {
    const ReduceAxes axes(args);
    const double start = args.op == ReduceOp::sum   ? 0.0
                         : args.op == ReduceOp::max ? -std::numeric_limits<double>::infinity()
                                                    : std::numeric_limits<double>::infinity();
    for_each_run<2>({axes.x_kept, axes.y}, [&](const auto& kept, std::int64_t n, const auto& kept_step) {
      for (std::int64_t i = 0; i < n; ++i) {
        const T* x = args.x.as<T>() + kept[0] + i * kept_step[0];
        double value = start;
        for_each_run<1>({axes.x_reduced}, [&](const auto& at, std::int64_t m, const auto& step) {
          for (std::int64_t k = 0; k < m; ++k) {
            const double next = static_cast<double>(load(x + at[0] + k * step[0]));
            if (!std::isnan(value) || args.op == ReduceOp::sum) value = combine(args.op, value, next);
          }
        });
        store(args.y.as<T>() + kept[1] + i * kept_step[1], static_cast<Accumulator<T>>(value * args.scale),
              args.accumulate);
      }
    });
  });
}

void argmax_reference(const ArgmaxArgs& args, Stream) {
  dispatch_float(args.x.dtype, "argmax", [&]<class T>() {
    const std::int64_t n = args.x.dim(-1);
    for (std::int64_t row = 0; row < args.x.rows(); ++row) {
      const T* x = args.x.as<T>() + row * n;
      std::int64_t best = 0;
      for (std::int64_t i = 1; i < n; ++i) {
        const auto value = load(x + i), largest = load(x + best);
        if (value > largest || (std::isnan(value) && !std::isnan(largest))) best = i;
      }
      args.y.as<std::int64_t>()[row] = best;
    }
  });
}

}  // namespace

void register_reduce_reference() {
  reduce.add(DeviceType::cpu, {"reference", ImplKind::reference, nullptr, reduce_reference});
  argmax.add(DeviceType::cpu, {"reference", ImplKind::reference, nullptr, argmax_reference});
}

}  // namespace ingot::kernels::cpu
