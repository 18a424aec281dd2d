#include "ingot/kernels/rope.h"

#include "ingot/base/parallel.h"
#include "ingot/kernels/cpu/register.h"
#include "ingot/kernels/cpu/rope_positions.h"
#include "ingot/kernels/cpu/simd/convert.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ingot/kernels/cpu/simd/rope.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ingot/kernels/cpu/simd/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ingot::kernels::cpu {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

template <class T>
HWY_INLINE void put(float value, T* y, bool accumulate) {
  *y = static_cast<T>(accumulate ? value + static_cast<float>(*y) : value);
}

template <class T>
void rotate_head(const T* x, T* y, const float* cos, const float* sin, std::int64_t half,
                 const RopeArgs& args) {
  const D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const float sign = args.inverse ? -1.0F : 1.0F;
  const auto signs = hn::Set(d, sign);
  std::int64_t i = 0;
  for (; !args.interleaved && i + lanes <= half; i += lanes) {
    const auto u = load_lanes(d, x + i), v = load_lanes(d, x + half + i);
    const auto c = hn::LoadU(d, cos + i), w = hn::Mul(signs, hn::LoadU(d, sin + i));
    store_lanes(d, hn::NegMulAdd(v, w, hn::Mul(u, c)), y + i, args.accumulate);
    store_lanes(d, hn::MulAdd(u, w, hn::Mul(v, c)), y + half + i, args.accumulate);
  }
  for (; i < half; ++i) {
    const std::int64_t first = args.interleaved ? 2 * i : i, second = args.interleaved ? 2 * i + 1 : i + half;
    const float u = static_cast<float>(x[first]), v = static_cast<float>(x[second]), w = sign * sin[i];
    put(u * cos[i] - v * w, y + first, args.accumulate);
    put(v * cos[i] + u * w, y + second, args.accumulate);
  }
}

template <class T>
void copy_elements(const T* x, T* y, std::int64_t begin, std::int64_t end, bool accumulate) {
  const D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t i = begin;
  for (; i + lanes <= end; i += lanes) store_lanes(d, load_lanes(d, x + i), y + i, accumulate);
  for (; i < end; ++i) put(static_cast<float>(x[i]), y + i, accumulate);
}

template <class T>
void rotate_token(const RopeArgs& args, std::int64_t b, std::int64_t s, std::int64_t position) {
  const std::int64_t half = args.cos.dim(1), size = args.x.dim(3);
  const float* cos = args.cos.as<float>() + position * half;
  const float* sin = args.sin.as<float>() + position * half;
  const T* x = args.x.as<T>() + b * args.x.stride(0) + s * args.x.stride(1);
  T* y = args.y.as<T>() + b * args.y.stride(0) + s * args.y.stride(1);
  const bool copies = x != y || args.accumulate;
  for (std::int64_t h = 0; h < args.x.dim(2); ++h) {
    const bool rotated = h < args.rotated_heads;
    if (rotated) rotate_head(x, y, cos, sin, half, args);
    if (copies) copy_elements(x, y, rotated ? 2 * half : 0, size, args.accumulate);
    x += args.x.stride(2);
    y += args.y.stride(2);
  }
}

void rope_tokens(const RopeArgs& args, std::int64_t begin, std::int64_t end) {
  dispatch_simd_float(args.x.dtype, [&]<class T>() {
    for (std::int64_t token = begin; token < end; ++token) {
      const std::int64_t b = token / args.x.dim(1), s = token % args.x.dim(1);
      rotate_token<T>(args, b, s, rope_position(args, b, s));
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
HWY_EXPORT(rope_tokens);

bool adjacent(const RopeArgs& args) {
  return args.x.dim(3) == 1 || (args.x.stride(3) == 1 && args.y.stride(3) == 1);
}

bool accepts(const RopeArgs& args) {
  return args.x.dtype != DType::f64 && adjacent(args) && (!args.also_x || adjacent(args.also()));
}

void run(const RopeArgs& args, Stream) {
  constexpr std::int64_t kGrainElements = 16384;  // about 5 µs
  const RopeArgs also = args.also();
  const std::int64_t heads = args.x.dim(2) + (also.x ? also.x.dim(2) : 0);
  parallel_for(args.x.dim(0) * args.x.dim(1), kGrainElements / (heads * args.x.dim(3) + 1) + 1,
               [&](std::int64_t begin, std::int64_t end) {
                 HWY_DYNAMIC_DISPATCH(rope_tokens)(args, begin, end);
                 if (also.x) HWY_DYNAMIC_DISPATCH(rope_tokens)(also, begin, end);
               });
}

}  // namespace

void register_rope_simd() { rope.add(DeviceType::cpu, {"simd", ImplKind::simd, accepts, run}); }

}  // namespace ingot::kernels::cpu
#endif  // HWY_ONCE
