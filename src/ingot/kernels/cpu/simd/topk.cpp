#include "ingot/kernels/topk.h"

#include <bit>

#include "ingot/base/parallel.h"
#include "ingot/kernels/cpu/register.h"
#include "ingot/kernels/cpu/simd/convert.h"
#include "ingot/kernels/cpu/top_list.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ingot/kernels/cpu/simd/topk.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ingot/kernels/cpu/simd/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ingot::kernels::cpu {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

// Once the list is full, few elements come in: four registers at a time are only compared with its last, and
// only what exceeds that is offered.
template <class T>
void topk_row(const T* x, std::int64_t n, std::int64_t* positions, std::int64_t k) {
  const D d;
  const auto block = 4 * static_cast<std::int64_t>(hn::Lanes(d));
  TopList<T> list(x, positions, k);
  std::int64_t i = 0;
  for (; !list.is_full(); ++i) list.offer(i);
  const auto exceeds = [&](std::int64_t at)
                           HWY_ATTR { return hn::Gt(load_lanes(d, x + at), hn::Set(d, list.threshold())); };
  const auto offer_lanes = [&](std::int64_t at) HWY_ATTR {
    std::uint64_t lanes = 0;
    hn::StoreMaskBits(d, exceeds(at), reinterpret_cast<std::uint8_t*>(&lanes));
    for (; lanes != 0; lanes &= lanes - 1) list.offer(at + std::countr_zero(lanes));
  };
  for (; i + block <= n; i += block) {
    const auto any = hn::Or(hn::Or(exceeds(i), exceeds(i + block / 4)),
                            hn::Or(exceeds(i + block / 2), exceeds(i + 3 * block / 4)));
    if (hn::AllFalse(d, any)) continue;
    for (std::int64_t j = i; j < i + block; j += block / 4) offer_lanes(j);
  }
  for (; i + block / 4 <= n; i += block / 4) offer_lanes(i);
  for (; i < n; ++i) list.offer(i);
}

void topk_rows(const TopKArgs& args, std::int64_t begin, std::int64_t end) {
  const std::int64_t n = args.x.dim(-1), k = args.indices.dim(-1);
  dispatch_simd_float(args.x.dtype, [&]<class T>() {
    for (std::int64_t row = begin; row < end; ++row) {
      topk_row(args.x.as<T>() + row * n, n, args.indices.as<std::int64_t>() + row * k, k);
    }
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace ingot::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ingot::kernels::cpu {
namespace {
HWY_EXPORT(topk_rows);

bool accepts(const TopKArgs& args) { return is_simd_float(args.x.dtype); }

void run(const TopKArgs& args, Stream) {
  constexpr std::int64_t kGrain = 65536;  // elements, about 10 µs
  parallel_for(args.x.rows(), kGrain / args.x.dim(-1) + 1, [&](std::int64_t begin, std::int64_t end) {
    HWY_DYNAMIC_DISPATCH(topk_rows)(args, begin, end);
  });
}

}  // namespace

void register_topk_simd() { topk.add(DeviceType::cpu, {"simd", ImplKind::simd, accepts, run}); }

}  // namespace ingot::kernels::cpu
#endif  // HWY_ONCE
