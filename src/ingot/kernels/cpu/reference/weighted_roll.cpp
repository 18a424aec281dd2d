#include "ingot/kernels/weighted_roll.h"

#include "ingot/base/parallel.h"
#include "ingot/kernels/cpu/numeric.h"
#include "ingot/kernels/cpu/register.h"

namespace ingot::kernels::cpu {
namespace {

void weighted_roll_reference(const WeightedRollArgs& args, Stream) {
  const std::int64_t length = args.x.dim(1), width = args.x.dim(2), count = args.delays.dim(1);
  dispatch_float(args.x.dtype, "weighted_roll", [&]<class T>() {
    parallel_for(args.x.dim(0) * length, 1 + 16'384 / (width * count + 1),
                 [&](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t row = begin; row < end; ++row) {
                     const std::int64_t b = row / length, t = row % length;
                     for (std::int64_t d = 0; d < width; ++d) {
                       Accumulator<T> sum = 0;
                       for (std::int64_t i = 0; i < count; ++i) {
                         const std::int64_t delay = args.delays.as<std::int64_t>()[b * count + i];
                         const std::int64_t from = (t + (args.transposed ? length - delay : delay)) % length;
                         sum += load(args.weights.as<T>() + b * count + i) *
                                load(args.x.as<T>() + (b * length + from) * width + d);
                       }
                       store(args.y.as<T>() + row * width + d, sum, args.accumulate);
                     }
                   }
                 });
  });
}

void weighted_roll_dot_reference(const WeightedRollDotArgs& args, Stream) {
  const std::int64_t length = args.x.dim(1), width = args.x.dim(2), count = args.delays.dim(1);
  dispatch_float(args.x.dtype, "weighted_roll_dot", [&]<class T>() {
    parallel_for(
        args.x.dim(0) * count, 1 + 16'384 / (length * width + 1), [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t item = begin; item < end; ++item) {
            const T* x = args.x.as<T>() + item / count * length * width;
            const T* dy = args.dy.as<T>() + item / count * length * width;
            const std::int64_t delay = args.delays.as<std::int64_t>()[item];
            double sum = 0;
            for (std::int64_t t = 0; t < length; ++t) {
              const T* from = x + (t + delay) % length * width;
              for (std::int64_t d = 0; d < width; ++d) {
                sum += static_cast<double>(load(from + d)) * static_cast<double>(load(dy + t * width + d));
              }
            }
            store(args.y.as<T>() + item, static_cast<Accumulator<T>>(sum), args.accumulate);
          }
        });
  });
}

}  // namespace

void register_delay_reference() {
  weighted_roll.add(DeviceType::cpu, {"reference", ImplKind::reference, nullptr, weighted_roll_reference});
  weighted_roll_dot.add(DeviceType::cpu,
                        {"reference", ImplKind::reference, nullptr, weighted_roll_dot_reference});
}

}  // namespace ingot::kernels::cpu
