#include <algorithm>
#include <cmath>
#include <cstring>

#include "ingot/kernels/cpu/register.h"
#include "ingot/kernels/cpu/simd/blocks.h"
#include "ingot/kernels/elementwise.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ingot/kernels/cpu/simd/random.cpp"
#include <hwy/foreach_target.h>

#include "ingot/kernels/cpu/simd/math-inl.h"
#include "ingot/kernels/cpu/simd/philox-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ingot::kernels::cpu {
namespace HWY_NAMESPACE {
namespace {
// Calls body(i, words, n) for pieces of [begin, end), begin a multiple of 4: `words` has the stream's words
// from i on, at least Lanes whole vectors of them, n of which are wanted.
template <class Body>
HWY_INLINE void for_each_words(RngKey key, std::int64_t begin, std::int64_t end, Body&& body) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(DU()));
  std::uint32_t words[HWY_MAX_BYTES];
  for (std::int64_t i = begin; i < end; i += 4 * lanes) {
    philox_blocks(key, static_cast<std::uint64_t>(i / 4), words);
    body(i, words, end - i < 4 * lanes ? end - i : 4 * lanes);
  }
}

void dropout_range(const float* x, float* y, float p, RngKey key, bool accumulate, std::int64_t begin,
                   std::int64_t end) {
  const float keep_scale = 1.0F / (1.0F - p);
  const V scale = set(keep_scale), threshold = set(p);
  for_each_words(key, begin, end, [&](std::int64_t i, const std::uint32_t* words, std::int64_t n) HWY_ATTR {
    const auto lanes = static_cast<std::int64_t>(hn::Lanes(D()));
    std::int64_t k = 0;
    for (; k + lanes <= n; k += lanes) {
      const auto keep = hn::Ge(uniform_of(hn::LoadU(DU(), words + k)), threshold);
      V value = hn::IfThenElseZero(keep, hn::Mul(hn::LoadU(D(), x + i + k), scale));
      if (accumulate) value = hn::Add(value, hn::LoadU(D(), y + i + k));
      hn::StoreU(value, D(), y + i + k);
    }
    for (; k < n; ++k) {
      const float value = uniform_from_bits(words[k]) >= p ? x[i + k] * keep_scale : 0.0F;
      y[i + k] = accumulate ? y[i + k] + value : value;
    }
  });
}

// `normal`: Box and Muller on neighbouring words, else uniform.
void random_range(float* y, bool normal, float a, float b, RngKey key, std::int64_t begin, std::int64_t end) {
  const D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const float width = normal ? b : b - a;
  for_each_words(key, begin, end, [&](std::int64_t i, const std::uint32_t* words, std::int64_t n) HWY_ATTR {
    float values[HWY_MAX_BYTES];
    for (std::int64_t k = 0; k < 4 * lanes; k += 2 * lanes) {
      if (normal) {
        VU even, odd;
        hn::LoadInterleaved2(DU(), words + k, even, odd);
        const V u = uniform_of(even), v = uniform_of(odd);
        const V radius = hn::Sqrt(hn::Mul(set(-2.0F), hn::Log(d, hn::Sub(set(1.0F), u))));
        const V angle = hn::Mul(set(6.283185307F), v);
        const V cosine = hn::Mul(radius, hn::Cos(d, angle)), sine = hn::Mul(radius, hn::Sin(d, angle));
        hn::StoreInterleaved2(hn::MulAdd(cosine, set(width), set(a)), hn::MulAdd(sine, set(width), set(a)), d,
                              values + k);
      } else {
        const V first = uniform_of(hn::LoadU(DU(), words + k));
        const V second = uniform_of(hn::LoadU(DU(), words + k + lanes));
        hn::StoreU(hn::MulAdd(first, set(width), set(a)), d, values + k);
        hn::StoreU(hn::MulAdd(second, set(width), set(a)), d, values + k + lanes);
      }
    }
    std::memcpy(y + i, values, static_cast<std::size_t>(n) * sizeof(float));
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace ingot::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ingot::kernels::cpu {
namespace {
HWY_EXPORT(dropout_range);
HWY_EXPORT(random_range);

constexpr std::int64_t kGroup = 64;  // elements that stay together: whole vectors, so a part never splits one
constexpr std::int64_t kGrain = 8192;

template <class Body>
void for_each_range(std::int64_t n, Body&& body) {
  parallel_for((n + kGroup - 1) / kGroup, kGrain / kGroup, [&](std::int64_t begin, std::int64_t end) {
    body(begin * kGroup, std::min(end * kGroup, n));
  });
}

void run_dropout(const DropoutArgs& args, Stream) {
  for_each_range(args.x.numel(), [&](std::int64_t begin, std::int64_t end) {
    HWY_DYNAMIC_DISPATCH(dropout_range)
    (args.x.as<float>(), args.y.as<float>(), static_cast<float>(args.p), args.key, args.accumulate, begin,
     end);
  });
}

void run_random(const RandomArgs& args, Stream) {
  for_each_range(args.y.numel(), [&](std::int64_t begin, std::int64_t end) {
    HWY_DYNAMIC_DISPATCH(random_range)
    (args.y.as<float>(), args.distribution == Distribution::normal, static_cast<float>(args.a),
     static_cast<float>(args.b), args.key, begin, end);
  });
}

}  // namespace

void register_random_simd() {
  dropout.add(DeviceType::cpu,
              {"simd", ImplKind::simd, [](const DropoutArgs& args) { return args.x.dtype == DType::f32; },
               run_dropout});
  random.add(DeviceType::cpu,
             {"simd", ImplKind::simd, [](const RandomArgs& args) { return args.y.dtype == DType::f32; },
              run_random});
}

}  // namespace ingot::kernels::cpu
#endif  // HWY_ONCE
