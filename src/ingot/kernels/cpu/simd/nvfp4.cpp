#include "ingot/kernels/nvfp4.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "ingot/base/parallel.h"
#include "ingot/kernels/cpu/nvfp4_scale.h"
#include "ingot/kernels/cpu/register.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ingot/kernels/cpu/simd/nvfp4.cpp"
#include <hwy/foreach_target.h>

#include "ingot/kernels/cpu/simd/math-inl.h"
#include "ingot/kernels/cpu/simd/philox-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ingot::kernels::cpu {
namespace HWY_NAMESPACE {
namespace {
static_assert(HWY_MAX_BYTES <= kNvfp4Block * sizeof(float), "registers that a block fills");
constexpr std::int64_t kDrawn = 4 * kNvfp4Block;  // random words drawn together

HWY_INLINE std::int64_t lanes() { return static_cast<std::int64_t>(hn::Lanes(D())); }

// The largest magnitude of `count` blocks `stride` apart, or a NaN where one holds one.
HWY_INLINE float largest(const float* x, std::int64_t stride, std::int64_t count) {
  V most = hn::Zero(D());
  auto nan = hn::IsNaN(most);
  for (std::int64_t row = 0; row < count; ++row) {
    for (std::int64_t i = 0; i < kNvfp4Block; i += lanes()) {
      const V value = hn::LoadU(D(), x + row * stride + i);
      nan = hn::Or(nan, hn::IsNaN(value));
      most = hn::Max(most, hn::Abs(value));
    }
  }
  if (!hn::AllFalse(D(), nan)) return std::numeric_limits<float>::quiet_NaN();
  return hn::GetLane(hn::MaxOfLanes(D(), most));
}

// E4M3's nearest, ties to even, of 0 <= x <= 448. Numbers are `step` apart around x, and around 1.5 · 2^23
// steps floats are: adding that rounds.
HWY_INLINE float nearest_e4m3(float x) {
  const std::uint32_t exponent = std::max(std::bit_cast<std::uint32_t>(x) >> 23, 127U - 6);
  const float step = std::bit_cast<float>((exponent - 3) << 23);
  const float shift = step * 12582912.0F;
  return (x + shift) - shift;
}

// By what numbers of E2M1 around a magnitude are apart, and its inverse.
struct Step {
  V step, inverse;
  HWY_INLINE explicit Step(V magnitude)
      : step(hn::IfThenElse(hn::Lt(magnitude, set(2)), set(0.5F),
                            hn::IfThenElse(hn::Lt(magnitude, set(4)), set(1), set(2)))),
        inverse(hn::IfThenElse(hn::Lt(magnitude, set(2)), set(2),
                               hn::IfThenElse(hn::Lt(magnitude, set(4)), set(1), set(0.5F)))) {}
};

HWY_INLINE V nearest_e2m1(V x) {
  const Step of(hn::Abs(x));
  // SSE2 has no rounding instruction; through integers -0.25 becomes +0.
  return hn::CopySign(hn::Mul(hn::Round(hn::Mul(x, of.inverse)), of.step), x);
}

HWY_INLINE V stochastic_e2m1(V x, V uniform) {
  const V magnitude = hn::Abs(x);
  const Step of(magnitude);
  const V steps = hn::Mul(magnitude, of.inverse), below = hn::Floor(steps);
  const V up = hn::IfThenElseZero(hn::Lt(uniform, hn::Sub(steps, below)), set(1));
  return hn::CopySign(hn::Mul(hn::Add(below, up), of.step), x);
}

// One block's row. words: its random ones, or null.
HWY_INLINE void round_block(const float* x, float* y, float whole, float most, const std::uint32_t* words) {
  const float scale = nearest_e4m3(std::min(most / kE2m1Largest * whole, kE4m3Largest));
  const float encode = std::min(1 / (scale * (1 / whole)), kMostFloat);
  for (std::int64_t i = 0; i < kNvfp4Block; i += lanes()) {
    const V scaled = hn::Mul(hn::LoadU(D(), x + i), set(encode));
    const V limited = hn::Min(hn::Max(scaled, set(-kE2m1Largest)), set(kE2m1Largest));
    const V number = words == nullptr ? nearest_e2m1(limited)
                                      : stochastic_e2m1(limited, uniform_of(hn::LoadU(DU(), words + i)));
    hn::StoreU(hn::Mul(number, set(scale)), D(), y + i);
  }
}

// kDrawn words of the stream from `at` on, a multiple of 4.
HWY_INLINE void draw(RngKey key, std::int64_t at, std::uint32_t* words) {
  for (std::int64_t i = 0; i < kDrawn; i += 4 * lanes())
    philox_blocks(key, static_cast<std::uint64_t>((at + i) / 4), words + i);
}

// Rows [first, last) of one row of blocks.
void round_band(const RoundNvfp4Args& args, float whole, std::int64_t first, std::int64_t last) {
  const std::int64_t cols = args.x.dim(1);
  std::uint32_t words[kDrawn];
  for (std::int64_t begin = 0; begin < cols; begin += kDrawn) {
    const std::int64_t end = std::min(begin + kDrawn, cols);
    float most[kDrawn / kNvfp4Block];
    for (std::int64_t col = begin; col < end; col += kNvfp4Block)
      most[(col - begin) / kNvfp4Block] =
          largest(args.x.as<float>() + first * cols + col, cols, last - first);
    for (std::int64_t row = first; row < last; ++row) {
      if (args.stochastic) draw(args.key, row * cols + begin, words);
      for (std::int64_t col = begin; col < end; col += kNvfp4Block) {
        const std::int64_t at = row * cols + col;
        round_block(args.x.as<float>() + at, args.y.as<float>() + at, whole,
                    most[(col - begin) / kNvfp4Block], args.stochastic ? words + (col - begin) : nullptr);
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
HWY_EXPORT(round_band);
constexpr std::int64_t kGrain = 16384;  // elements, some 10 µs

bool whole_blocks(const RoundNvfp4Args& args) { return args.x.dim(1) % kNvfp4Block == 0; }

void round_simd(const RoundNvfp4Args& args, Stream) {
  const std::int64_t rows = args.x.dim(0), height = args.square ? kNvfp4Block : 1;
  const std::int64_t bands = (rows + height - 1) / height, elements = height * args.x.dim(1);
  const float whole = scale_of_tensor(*args.amax.as<float>());
  parallel_for(bands, std::max<std::int64_t>(kGrain / std::max<std::int64_t>(elements, 1), 1),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t band = begin; band < end; ++band) HWY_DYNAMIC_DISPATCH(round_band)
                 (args, whole, band * height, std::min((band + 1) * height, rows));
               });
}

}  // namespace

void register_nvfp4_simd() {
  round_nvfp4.add(DeviceType::cpu, {"simd", ImplKind::simd, whole_blocks, round_simd});
}

}  // namespace ingot::kernels::cpu
#endif  // HWY_ONCE
