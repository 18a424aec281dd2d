#include <algorithm>
#include <cmath>
#include <cstring>

#include "ingot/base/parallel.h"
#include "ingot/kernels/cpu/register.h"
#include "ingot/kernels/quantized.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ingot/kernels/cpu/simd/activations.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace ingot::kernels::cpu {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;
using D = hn::CappedTag<float, 16>;
using DI = hn::RebindToSigned<D>;
using DU = hn::RebindToUnsigned<D>;
using D8 = hn::Rebind<std::int8_t, D>;

// The rules, NaN among them, are those of kernels/quantized.h.
void round_blocks(const float* x, std::int64_t blocks, ActivationBlock* y) {
  const D d;
  const DI di;
  const DU du;
  const auto lanes = hn::Lanes(d);
  const auto magnitude = hn::Set(du, 0x7fffffffU);
  for (std::int64_t b = 0; b < blocks; ++b, x += 32, ++y) {
    // Magnitudes compare as whole numbers do, and a NaN is the largest.
    auto top = hn::Zero(du);
    for (std::size_t i = 0; i < 32; i += lanes)
      top = hn::Max(top, hn::And(hn::BitCast(du, hn::LoadU(d, x + i)), magnitude));
    const std::uint32_t bits = hn::GetLane(hn::MaxOfLanes(du, top));
    float largest = 0;
    std::memcpy(&largest, &bits, sizeof(largest));
    *y = {};
    if (bits < 0x08800000U) continue;  // 2⁻¹¹⁰
    if (bits >= 0x7f800000U) {
      y->scale = y->scaled_sum = NAN;
      continue;
    }
    const auto inverse = hn::Set(d, 127 / largest);
    std::int32_t sums[2] = {};
    for (std::size_t i = 0; i < 32; i += lanes) {
      const auto code = hn::NearestInt(hn::Mul(hn::LoadU(d, x + i), inverse));
      hn::StoreU(hn::DemoteTo(D8(), code), D8(), y->codes.data() + i);
      sums[i / 16] += hn::GetLane(hn::SumOfLanes(di, code));
    }
    y->scale = largest / 127;
    y->negative_sum = -(sums[0] + sums[1]);
    y->negative_half_sums = {-sums[0], -sums[1]};
    y->scaled_sum = y->scale * static_cast<float>(sums[0] + sums[1]);
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace ingot::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ingot::kernels::cpu {
namespace {
HWY_EXPORT(round_blocks);

void round_rows(const QuantizeActivationsArgs& args, Stream) {
  const std::int64_t k = args.x.dim(-1), blocks = args.y.dim(-1) / 64, whole = k / 32;
  parallel_for(args.x.dim(0), 1 + 32768 / std::max<std::int64_t>(k, 1),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t row = begin; row < end; ++row) {
                   const float* x = args.x.as<float>() + row * args.x.stride(0);
                   auto* y = args.y.as<ActivationBlock>() + row * blocks;
                   HWY_DYNAMIC_DISPATCH(round_blocks)(x, whole, y);
                   std::int64_t done = whole;
                   if (k % 32 != 0) {
                     float rest[32] = {};
                     std::copy_n(x + whole * 32, k % 32, rest);
                     HWY_DYNAMIC_DISPATCH(round_blocks)(rest, 1, y + done++);
                   }
                   std::fill(y + done, y + blocks, ActivationBlock{});
                 }
               });
}

}  // namespace

void register_activations_simd() {
  quantize_activations.add(DeviceType::cpu, {"simd", ImplKind::simd, nullptr, round_rows});
}

}  // namespace ingot::kernels::cpu
#endif
