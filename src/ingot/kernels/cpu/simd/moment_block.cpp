#include "ingot/kernels/cpu/simd/moment_block.h"

#include <algorithm>
#include <bit>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ingot/kernels/cpu/simd/moment_block.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ingot/kernels/cpu/simd/loops-inl.h"

// Codes of 8-bit moments and back, as kernels/dynamic_map.h defines them.
HWY_BEFORE_NAMESPACE();
namespace ingot::kernels::cpu {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

// One block of at most kMomentBlock elements.
void decode_block(const QuantMap8bit& map, const std::uint8_t* codes, std::int64_t n, float scale,
                  float* to) {
  for_vectors(n, [&](auto d, std::int64_t i) {
    using Tag = decltype(d);
    const auto code =
        hn::PromoteTo(hn::RebindToSigned<Tag>(), hn::LoadU(hn::Rebind<std::uint8_t, Tag>(), codes + i));
    hn::StoreU(hn::Mul(hn::GatherIndex(d, map.values.data(), code), hn::Set(d, scale)), d, to + i);
  });
}

// The largest bits of |x|.
std::uint32_t largest_magnitude(const float* x, std::int64_t n) {
  const hn::ScalableTag<float> d;
  const hn::RebindToUnsigned<decltype(d)> words;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  auto largest = hn::Zero(words);
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes)
    largest = hn::Max(largest, hn::BitCast(words, hn::Abs(hn::LoadU(d, x + i))));
  std::uint32_t result = hn::GetLane(hn::MaxOfLanes(words, largest));
  for (; i < n; ++i) result = std::max(result, std::bit_cast<std::uint32_t>(x[i]) & 0x7fffffffU);
  return result;
}

// As moment_code has it: the magnitude that kMagnitudeLines give is the nearest one or the one before it,
// which one look at the limit between the two tells.
template <bool kSigned>
void encode_block(const QuantMap8bit& map, const float* from, std::int64_t n, float inverse,
                  std::uint8_t* codes) {
  for_vectors(n, [&](auto d, std::int64_t i) {
    const hn::RebindToSigned<decltype(d)> ints;
    const auto y = hn::Mul(hn::LoadU(d, from + i), hn::Set(d, inverse)), t = hn::Abs(y);
    const auto on = [&](const MagnitudeLine& line) {
      return hn::MulAdd(t, hn::Set(d, line.slope), hn::Set(d, line.offset));
    };
    auto r = on(kMagnitudeLines[0]);
    for (std::size_t decade = 1; decade < kMagnitudeLines.size(); ++decade)
      r = hn::Min(r, on(kMagnitudeLines[decade]));
    r = kSigned ? hn::Sub(r, hn::Set(d, 0.25F)) : hn::MulSub(r, hn::Set(d, 2.0F), hn::Set(d, 1.25F));
    auto code = hn::ConvertTo(ints, r);
    const auto more = hn::Gt(t, hn::GatherIndex(d, map.limits.data(), code));
    code = hn::Sub(code, hn::VecFromMask(ints, hn::RebindMask(ints, more)));
    if constexpr (kSigned) {
      const auto zero = hn::Set(ints, map.zero);
      const auto negative = hn::RebindMask(ints, hn::Lt(y, hn::Zero(d)));
      code = hn::IfThenElse(negative, hn::Sub(zero, hn::Min(code, zero)), hn::Add(zero, code));
    }
    const hn::Rebind<std::uint8_t, decltype(d)> bytes;
    hn::StoreU(hn::DemoteTo(bytes, code), bytes, codes + i);
  });
}

void decode_moments(const QuantMap8bit& map, const std::uint8_t* codes, const float* scales, std::int64_t n,
                    float* to) {
  for (std::int64_t i = 0; i < n; i += kMomentBlock)
    decode_block(map, codes + i, std::min(kMomentBlock, n - i), scales[i / kMomentBlock], to + i);
}

void encode_moments(const QuantMap8bit& map, const float* from, std::int64_t n, std::uint8_t* codes,
                    float* scales) {
  for (std::int64_t i = 0; i < n; i += kMomentBlock) {
    const std::int64_t size = std::min(kMomentBlock, n - i);
    const MomentScale scale = moment_scale(largest_magnitude(from + i, size));
    scales[i / kMomentBlock] = scale.scale;
    if (scale.inverse == 0) {  // nothing of a block that is not finite may become an index
      std::fill_n(codes + i, size, static_cast<std::uint8_t>(map.zero));
    } else {
      const auto encode = map.zero == 0 ? encode_block<false> : encode_block<true>;
      encode(map, from + i, size, scale.inverse, codes + i);
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
HWY_EXPORT(decode_moments);
HWY_EXPORT(encode_moments);
}  // namespace

MomentBlock::MomentBlock(const QuantMap8bit& map, const View& moments, const View& scales, std::int64_t begin,
                         std::int64_t n)
    : map_(map), n_(n) {
  if (moments.dtype == DType::f32) {
    data_ = moments.as<float>() + begin;
    return;
  }
  codes_ = moments.as<std::uint8_t>() + begin;
  scales_ = scales.as<float>() + begin / kMomentBlock;
  data_ = buffer_.data();
  HWY_DYNAMIC_DISPATCH(decode_moments)(map_, codes_, scales_, n_, data_);
}

void MomentBlock::store() const {
  if (codes_ != nullptr) HWY_DYNAMIC_DISPATCH(encode_moments)(map_, data_, n_, codes_, scales_);
}

}  // namespace ingot::kernels::cpu
#endif  // HWY_ONCE
