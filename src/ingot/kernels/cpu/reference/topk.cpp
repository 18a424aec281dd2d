#include "ingot/kernels/topk.h"

#include <cmath>
#include <limits>

#include "ingot/base/parallel.h"
#include "ingot/kernels/cpu/numeric.h"
#include "ingot/kernels/cpu/register.h"

namespace ingot::kernels::cpu {
namespace {

// Keeps the best k in order while it goes through the row: k is small, and most elements fail the first test.
template <class T>
void topk_row(const T* x, std::int64_t n, std::int64_t* best, std::int64_t k) {
  const auto value = [x](std::int64_t i) {
    const auto v = load(x + i);
    return std::isnan(v) ? -std::numeric_limits<decltype(v)>::infinity() : v;
  };
  std::int64_t held = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    if (held == k && value(i) <= value(best[k - 1])) continue;
    std::int64_t at = held < k ? held++ : k - 1;
    for (; at > 0 && value(best[at - 1]) < value(i); --at) best[at] = best[at - 1];
    best[at] = i;
  }
}

void topk_reference(const TopKArgs& args, Stream) {
  dispatch_float(args.x.dtype, "topk", [&]<class T>() {
    const std::int64_t n = args.x.dim(-1), k = args.indices.dim(-1);
    constexpr std::int64_t kGrain = 16384;  // elements, about 10 µs
    parallel_for(args.x.rows(), kGrain / n + 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        topk_row(args.x.as<T>() + row * n, n, args.indices.as<std::int64_t>() + row * k, k);
      }
    });
  });
}

}  // namespace

void register_topk_reference() {
  topk.add(DeviceType::cpu, {"reference", ImplKind::reference, nullptr, topk_reference});
}

}  // namespace ingot::kernels::cpu
