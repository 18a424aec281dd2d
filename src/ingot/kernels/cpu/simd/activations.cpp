#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "ingot/base/parallel.h"
#include "ingot/kernels/cpu/register.h"
#include "ingot/kernels/quantized.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ingot/kernels/cpu/simd/activations.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ingot/kernels/cpu/simd/fold-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ingot::kernels::cpu {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;
using D = hn::CappedTag<float, 16>;
using DI = hn::RebindToSigned<D>;
using DU = hn::RebindToUnsigned<D>;
using D8 = hn::Rebind<std::int8_t, D>;

constexpr auto kLeastBits = std::bit_cast<std::uint32_t>(kLeastTop);
constexpr std::uint32_t kInfinityBits = 0x7f800000U;

// Magnitudes compare as whole numbers do, and a NaN is the largest.
HWY_INLINE hn::Vec<DU> top_lanes(const float* x) {
  const D d;
  const DU du;
  auto top = hn::Zero(du);
  for (std::size_t i = 0; i < 32; i += hn::Lanes(d))
    top = hn::Max(top, hn::And(hn::BitCast(du, hn::LoadU(d, x + i)), hn::Set(du, 0x7fffffffU)));
  return top;
}

#if INGOT_HAS_FOLD
// Four blocks, whose maxima and sums are found at once. False, and nothing done, where one of them is a
// special case.
bool round_four(const float* x, ActivationBlock* y) {
  const D d;
  const DI di;
  const DU du;
  const hn::FixedTag<float, 4> four;
  const hn::FixedTag<std::int32_t, 4> four_ints;
  const auto bits =
      fold_each(MaxOp(), du, top_lanes(x), top_lanes(x + 32), top_lanes(x + 64), top_lanes(x + 96));
  const auto ints = hn::BitCast(four_ints, bits);  // no sign bits, so they compare as signed
  const auto usual = hn::And(hn::Gt(ints, hn::Set(four_ints, static_cast<std::int32_t>(kLeastBits) - 1)),
                             hn::Lt(ints, hn::Set(four_ints, static_cast<std::int32_t>(kInfinityBits))));
  if (!hn::AllTrue(four_ints, usual)) return false;
  const auto top = hn::BitCast(four, bits), most = hn::Set(four, 127.0F);
  const auto scale = hn::Div(top, most);
  float inverses[4], scales[4], scaled_sums[4];
  hn::StoreU(hn::Div(most, top), four, inverses);
  hn::StoreU(scale, four, scales);
  hn::Vec<DI> halves[8];
  for (int b = 0; b < 4; ++b) {
    const auto inverse = hn::Set(d, inverses[b]);
    for (int half = 0; half < 2; ++half) {
      auto sum = hn::Zero(di);
      for (std::size_t i = 0; i < 16; i += hn::Lanes(d)) {
        const std::size_t at = static_cast<std::size_t>(half) * 16 + i;
        const auto code = hn::NearestInt(hn::Mul(hn::LoadU(d, x + 32 * b + at), inverse));
        hn::StoreU(hn::DemoteTo(D8(), code), D8(), y[b].codes.data() + at);
        sum = hn::Add(sum, code);
      }
      halves[2 * b + half] = sum;
    }
  }
  std::int32_t first[4], second[4], sums[4];
  const auto a = fold_each(AddOp(), di, halves[0], halves[2], halves[4], halves[6]);
  const auto b = fold_each(AddOp(), di, halves[1], halves[3], halves[5], halves[7]);
  const auto sum = hn::Add(a, b);
  hn::StoreU(hn::Neg(a), four_ints, first);
  hn::StoreU(hn::Neg(b), four_ints, second);
  hn::StoreU(hn::Neg(sum), four_ints, sums);
  hn::StoreU(hn::Mul(scale, hn::ConvertTo(four, sum)), four, scaled_sums);
  for (std::size_t i = 0; i < 4; ++i) {
    y[i].scale = scales[i];
    y[i].scaled_sum = scaled_sums[i];
    y[i].negative_sum = sums[i];
    y[i].negative_half_sums = {first[i], second[i]};
    y[i].unused = {};
  }
  return true;
}
#endif

// The rules, NaN among them, are those of kernels/quantized.h.
void round_blocks(const float* x, std::int64_t blocks, ActivationBlock* y) {
  const D d;
  const DI di;
  const DU du;
  const auto lanes = hn::Lanes(d);
  for (std::int64_t b = 0; b < blocks; ++b, x += 32, ++y) {
#if INGOT_HAS_FOLD
    if (b + 4 <= blocks && round_four(x, y)) {
      b += 3, x += 96, y += 3;
      continue;
    }
#endif
    const std::uint32_t bits = hn::GetLane(hn::MaxOfLanes(du, top_lanes(x)));
    float largest = 0;
    std::memcpy(&largest, &bits, sizeof(largest));
    *y = {};
    if (bits < kLeastBits) continue;
    if (bits >= kInfinityBits) {
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

// The codes of k numbers, up to kMost, with one scale; `to` has memory for a whole vector of them more than
// the last one begins. Returns their sum.
template <int kMost, class Code>
HWY_INLINE std::int32_t round_codes(const float* x, std::int64_t k, Code* to, float& scale) {
  const D d;
  const DI di;
  const DU du;
  const hn::Rebind<Code, D> dc;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const std::int64_t whole = k / lanes * lanes;
  float rest[16] = {};
  std::copy(x + whole, x + k, rest);
  auto tops = hn::Zero(du);
  const auto compare = [&](const float* from) {
    tops = hn::Max(tops, hn::And(hn::BitCast(du, hn::LoadU(d, from)), hn::Set(du, 0x7fffffffU)));
  };
  for (std::int64_t i = 0; i < whole; i += lanes) compare(x + i);
  compare(rest);
  const std::uint32_t bits = hn::GetLane(hn::MaxOfLanes(du, tops));
  if (bits < kLeastBits || bits >= kInfinityBits) {
    scale = bits < kLeastBits ? 0 : NAN;
    std::fill(to, to + k, Code{0});
    return 0;
  }
  const auto top = std::bit_cast<float>(bits);
  scale = top / kMost;
  const auto inverse = hn::Set(d, kMost / top);
  auto sum = hn::Zero(di);
  const auto round = [&](const float* from, Code* at) {
    const auto code = hn::NearestInt(hn::Mul(hn::LoadU(d, from), inverse));
    hn::StoreU(hn::DemoteTo(dc, code), dc, at);
    sum = hn::Add(sum, code);
  };
  for (std::int64_t i = 0; i < whole; i += lanes) round(x + i, to + i);
  if (whole < k) round(rest, to + whole);
  return hn::GetLane(hn::SumOfLanes(di, sum));
}

// A row with one scale: `codes` of them, of which x has k.
void round_row(const float* x, std::int64_t k, std::int64_t codes, std::uint8_t* row) {
  // Written field by field where it belongs: a header put together on the stack and copied whole waits there
  // until the narrow stores before it have left the processor's store queue, all codes among them.
  auto* header = new (row) ActivationRow{};
  auto* to = reinterpret_cast<std::int8_t*>(row + sizeof(ActivationRow));
  header->negative_sum = -round_codes<127>(x, k, to, header->scale);
  std::fill(to + k, to + codes, std::int8_t{0});
}

void round_span(const float* x, std::int64_t k, ActivationSpan* span) {
  span->unused = {};
  round_codes<kMostSpanCode>(x, k, span->codes.data(), span->scale);
  std::fill(span->codes.begin() + k, span->codes.end(), std::int16_t{0});
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace ingot::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ingot::kernels::cpu {
namespace {
HWY_EXPORT(round_blocks);
HWY_EXPORT(round_row);
HWY_EXPORT(round_span);

void round_whole_rows(const QuantizeRowsArgs& args, Stream) {
  const std::int64_t k = args.x.dim(-1),
                     codes = args.y.dim(-1) - static_cast<std::int64_t>(sizeof(ActivationRow));
  parallel_for(args.x.dim(0), 1 + 16384 / std::max<std::int64_t>(k, 1),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t row = begin; row < end; ++row) HWY_DYNAMIC_DISPATCH(round_row)
                 (args.x.as<float>() + row * args.x.stride(0), k, codes,
                  args.y.as<std::uint8_t>() + row * args.y.stride(0));
               });
}

void round_spans(const QuantizeSpansArgs& args, Stream) {
  const std::int64_t k = args.x.dim(-1), spans = args.y.dim(1);
  parallel_for(args.x.dim(0), 1 + 16384 / std::max<std::int64_t>(k, 1),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t row = begin; row < end; ++row) {
                   const float* x = args.x.as<float>() + row * args.x.stride(0);
                   auto* y = args.y.as<std::uint8_t>() + row * args.y.stride(0);
                   for (std::int64_t s = 0; s < spans; ++s) HWY_DYNAMIC_DISPATCH(round_span)
                   (x + s * kPackedSpan, std::clamp<std::int64_t>(k - s * kPackedSpan, 0, kPackedSpan),
                    reinterpret_cast<ActivationSpan*>(y + s * args.y.stride(1)));
                 }
               });
}

void round_rows(const QuantizeActivationsArgs& args, Stream) {
  const std::int64_t k = args.x.dim(-1), blocks = args.y.dim(-1) / 64, whole = k / 32;
  parallel_for(args.x.dim(0), 1 + 4096 / std::max<std::int64_t>(k, 1),
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
  quantize_rows.add(DeviceType::cpu, {"simd", ImplKind::simd, nullptr, round_whole_rows});
  quantize_spans.add(DeviceType::cpu, {"simd", ImplKind::simd, nullptr, round_spans});
}

}  // namespace ingot::kernels::cpu
#endif
