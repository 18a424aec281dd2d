#include "ingot/kernels/resample.h"

#include "ingot/kernels/cpu/numeric.h"
#include "ingot/kernels/cpu/register.h"

namespace ingot::kernels::cpu {
namespace {

void run(const ResampleArgs& args, Stream) {
  const std::int64_t outer = args.x.dim(0), m = args.x.dim(1), inner = args.x.dim(2), n = args.y.dim(1);
  const auto* indices = args.indices.as<std::int32_t>();
  dispatch_float(args.x.dtype, "resample", [&]<class T>() {
    using Acc = Accumulator<T>;
    const auto* weights = args.weights.as<Acc>();
    T* y = args.y.as<T>();
    for (std::int64_t row = 0; row < outer * n; ++row) {
      const std::int64_t i = row % n;
      for (std::int64_t k = 0; k < inner; ++k, ++y) {
        Acc sum = 0;
        for (std::int64_t t = 0; t < args.indices.dim(0); ++t) {
          const std::int64_t at = (row / n * m + indices[t * n + i]) * inner + k;
          sum += weights[t * n + i] * load(args.x.as<T>() + at);
        }
        store(y, sum, args.accumulate);
      }
    }
  });
}

}  // namespace

void register_resample_reference() {
  resample.add(DeviceType::cpu, {"reference", ImplKind::reference, nullptr, run});
}

}  // namespace ingot::kernels::cpu
