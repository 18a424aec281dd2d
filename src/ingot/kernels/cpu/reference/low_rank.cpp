#include "ingot/kernels/low_rank.h"

#include <cstdint>

#include "ingot/base/parallel.h"
#include "ingot/kernels/cpu/low_rank.h"
#include "ingot/kernels/cpu/numeric.h"

namespace ingot::kernels::cpu {
namespace {

template <class T, class W>
void add_update(const View& x, const LowRankUpdate& update, Accumulator<T>* inner) {
  const std::int64_t in = x.dim(1), out = update.b.dim(0), rank = update.rank();
  const W* a = update.a.as<W>();
  const W* b = update.b.as<W>();
  parallel_for(
      update.y.dim(0), 1 + 16'384 / (rank * (in + out) + 1), [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
          const T* from = x.as<T>() + (update.begin + i) * x.stride(0);
          T* to = update.y.as<T>() + i * update.y.stride(0);
          for (std::int64_t r = 0; r < rank; ++r) {
            Accumulator<T> sum = 0;
            for (std::int64_t c = 0; c < in; ++c)
              sum += load(from + c) * static_cast<Accumulator<T>>(load(a + r * update.a.stride(0) + c));
            inner[i * rank + r] = sum;
          }
          for (std::int64_t o = 0; o < out; ++o) {
            Accumulator<T> sum = 0;
            for (std::int64_t r = 0; r < rank; ++r)
              sum += inner[i * rank + r] *
                     static_cast<Accumulator<T>>(load(b + o * update.b.stride(0) + r * update.b.stride(1)));
            store(to + o, sum * static_cast<Accumulator<T>>(update.scale), true);
          }
        }
      });
}

void low_rank_reference(const LowRankArgs& args, Stream) {
  dispatch_float(args.x.dtype, "low_rank", [&]<class T>() {
    auto* inner = args.inner.as<Accumulator<T>>();
    for (const LowRankUpdate& update : args.updates) {
      if (update.a.dtype == DType::i8) {
        add_update<T, std::int8_t>(args.x, update, inner);
      } else {
        dispatch_float(update.a.dtype, "low_rank",
                       [&]<class W>() { add_update<T, W>(args.x, update, inner); });
      }
      inner += update.inner();
    }
  });
}

}  // namespace

void register_low_rank_reference() {
  low_rank.add(DeviceType::cpu, {"reference", ImplKind::reference, nullptr, low_rank_reference});
}

}  // namespace ingot::kernels::cpu
