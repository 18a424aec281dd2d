#include "ingot/kernels/kv_store.h"

#include <algorithm>
#include <bit>

#include "ingot/base/parallel.h"
#include "ingot/kernels/cpu/int8_rounding.h"
#include "ingot/kernels/cpu/register.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ingot/kernels/cpu/simd/kv_store.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ingot/kernels/cpu/simd/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ingot::kernels::cpu {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

template <class T>
void store_row(const float* x, std::int64_t n, T* y) {
  const D d;
  for (std::int64_t c = 0; c < n; c += static_cast<std::int64_t>(hn::Lanes(d)))
    store_lanes(d, hn::LoadU(d, x + c), y + c);
}

void store_row_i8(const float* x, std::int64_t n, std::int8_t* y, float* scale) {
  const D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const hn::RebindToUnsigned<D> du;
  auto tops = hn::Zero(du);  // magnitudes compare by their bits, a NaN as the largest
  for (std::int64_t c = 0; c < n; c += lanes)
    tops = hn::Max(tops, hn::And(hn::BitCast(du, hn::LoadU(d, x + c)), hn::Set(du, 0x7fffffffU)));
  const Int8Rounding rounding(std::bit_cast<float>(hn::GetLane(hn::MaxOfLanes(du, tops))));
  *scale = rounding.scale;
  if (rounding.inverse == 0) {
    std::fill_n(y, n, std::int8_t{0});
    return;
  }
  const auto inverse = hn::Set(d, rounding.inverse);
  const hn::Rebind<std::int8_t, D> bytes;
  for (std::int64_t c = 0; c < n; c += lanes) {
    const auto rounded = hn::NearestInt(hn::Mul(hn::LoadU(d, x + c), inverse));
    hn::StoreU(hn::DemoteTo(bytes, rounded), bytes, y + c);
  }
}

// The rows of heads [begin, end).
void store_heads(const KvStoreArgs& args, std::int64_t begin, std::int64_t end) {
  const std::int64_t n = args.x.dim(2);
  for (std::int64_t h = begin; h < end; ++h) {
    for (std::int64_t i = 0; i < args.x.dim(0); ++i) {
      const float* x = args.x.as<float>() + i * args.x.stride(0) + h * args.x.stride(1);
      const std::int64_t at = h * args.y.stride(0) + i * args.y.stride(1);
      if (args.y.dtype == DType::f32) store_row(x, n, args.y.as<float>() + at);
      if (args.y.dtype == DType::bf16) store_row(x, n, args.y.as<bf16>() + at);
      if (args.y.dtype == DType::f16) store_row(x, n, args.y.as<f16>() + at);
      if (args.y.dtype == DType::i8) {
        store_row_i8(x, n, args.y.as<std::int8_t>() + at,
                     args.scale.as<float>() + h * args.scale.stride(0) + i);
      }
    }
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace ingot::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ingot::kernels::cpu {
namespace {
HWY_EXPORT(store_heads);

// Positions on the device are for CUDA graphs, which the CPU has none of.
bool accepts(const KvStoreArgs& args) {
  return args.x.dim(2) % 16 == 0 && args.y.dtype != DType::f64 && !args.position;
}

void run(const KvStoreArgs& args, Stream) {
  constexpr std::int64_t kGrain = 32768;  // elements, about 5 µs
  const KvStoreArgs also = args.also();
  parallel_for(args.x.dim(1), kGrain / (args.x.dim(0) * args.x.dim(2) + 1) + 1,
               [&](std::int64_t begin, std::int64_t end) {
                 HWY_DYNAMIC_DISPATCH(store_heads)(args, begin, end);
                 if (also.x) HWY_DYNAMIC_DISPATCH(store_heads)(also, begin, end);
               });
}

}  // namespace

void register_kv_store_simd() { kv_store.add(DeviceType::cpu, {"simd", ImplKind::simd, accepts, run}); }

}  // namespace ingot::kernels::cpu
#endif  // HWY_ONCE
