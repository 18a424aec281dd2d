#include "ingot/kernels/topk.h"

#include "ingot/base/parallel.h"
#include "ingot/kernels/cpu/register.h"
#include "ingot/kernels/cpu/top_list.h"

namespace ingot::kernels::cpu {
namespace {

void topk_reference(const TopKArgs& args, Stream) {
  dispatch_float(args.x.dtype, "topk", [&]<class T>() {
    const std::int64_t n = args.x.dim(-1), k = args.indices.dim(-1);
    constexpr std::int64_t kGrain = 16384;  // elements, about 10 µs
    parallel_for(args.x.rows(), kGrain / n + 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        TopList<T> list(args.x.as<T>() + row * n, args.indices.as<std::int64_t>() + row * k, k);
        for (std::int64_t i = 0; i < n; ++i) list.offer(i);
      }
    });
  });
}

}  // namespace

void register_topk_reference() {
  topk.add(DeviceType::cpu, {"reference", ImplKind::reference, nullptr, topk_reference});
}

}  // namespace ingot::kernels::cpu
