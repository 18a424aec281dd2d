#include "ingot/kernels/affine_quantize.h"

#include <algorithm>

#include "ingot/base/parallel.h"
#include "ingot/kernels/cpu/register.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ingot/kernels/cpu/simd/affine_quantize.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ingot/kernels/cpu/simd/loops-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ingot::kernels::cpu {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

// Limited before they are rounded and moved, which comes to the same: the limits are whole numbers.
template <class Q>
void quantize_run(const float* x, float scale, float zero, CodeRange range, Q* q, std::int64_t n) {
  for_vectors(n, [&](auto d, std::int64_t i) HWY_ATTR {
    using DF = decltype(d);
    const hn::RebindToSigned<DF> words;
    const hn::Rebind<std::int16_t, DF> halves;
    const hn::Rebind<Q, DF> bytes;
    const auto quotient = hn::Div(hn::LoadU(d, x + i), hn::Set(d, scale));
    const auto limited =
        hn::Min(hn::Max(quotient, hn::Set(d, range.low - zero)), hn::Set(d, range.high - zero));
    const auto code = hn::Add(hn::NearestInt(limited), hn::Set(words, static_cast<std::int32_t>(zero)));
    hn::StoreU(hn::DemoteTo(bytes, hn::DemoteTo(halves, code)), bytes, q + i);
  });
}

template <class Q>
void dequantize_run(const Q* q, float scale, float zero, float* x, std::int64_t n) {
  for_vectors(n, [&](auto d, std::int64_t i) HWY_ATTR {
    using DF = decltype(d);
    const hn::RebindToSigned<DF> words;
    const hn::Rebind<Q, DF> bytes;
    const auto code = hn::ConvertTo(d, hn::PromoteTo(words, hn::LoadU(bytes, q + i)));
    hn::StoreU(hn::Mul(hn::Sub(code, hn::Set(d, zero)), hn::Set(d, scale)), d, x + i);
  });
}

// What codes stand for, as above.
template <class Q, class D>
HWY_INLINE hn::Vec<D> values_of(D d, const Q* q, const AffineCodes& of) {
  const hn::Rebind<Q, D> bytes;
  const auto code = hn::ConvertTo(d, hn::PromoteTo(hn::RebindToSigned<D>(), hn::LoadU(bytes, q)));
  return hn::Mul(hn::Sub(code, hn::Set(d, static_cast<float>(of.zero))), hn::Set(d, of.scale));
}

template <class A, class B, class Y>
void add_run(const AffineAddArgs& args, std::int64_t at, std::int64_t n) {
  const A* a = args.a.codes.as<A>() + at;
  const B* b = args.b.codes.as<B>() + at;
  Y* y = args.y.codes.as<Y>() + at;
  const CodeRange range(args.y.codes.dtype);
  const auto zero = static_cast<float>(args.y.zero);
  for_vectors(n, [&](auto d, std::int64_t i) HWY_ATTR {
    using DF = decltype(d);
    const hn::RebindToSigned<DF> words;
    const hn::Rebind<std::int16_t, DF> halves;
    const hn::Rebind<Y, DF> bytes;
    const auto sum = hn::Add(values_of(d, a + i, args.a), values_of(d, b + i, args.b));
    const auto quotient = hn::Div(sum, hn::Set(d, args.y.scale));
    const auto limited =
        hn::Min(hn::Max(quotient, hn::Set(d, range.low - zero)), hn::Set(d, range.high - zero));
    const auto code = hn::Add(hn::NearestInt(limited), hn::Set(words, args.y.zero));
    hn::StoreU(hn::DemoteTo(bytes, hn::DemoteTo(halves, code)), bytes, y + i);
  });
}

template <class A, class B>
void add_to(const AffineAddArgs& args, std::int64_t at, std::int64_t n) {
  args.y.codes.dtype == DType::i8 ? add_run<A, B, std::int8_t>(args, at, n)
                                  : add_run<A, B, std::uint8_t>(args, at, n);
}
template <class A>
void add_second(const AffineAddArgs& args, std::int64_t at, std::int64_t n) {
  args.b.codes.dtype == DType::i8 ? add_to<A, std::int8_t>(args, at, n)
                                  : add_to<A, std::uint8_t>(args, at, n);
}
void add_part(const AffineAddArgs& args, std::int64_t at, std::int64_t n) {
  args.a.codes.dtype == DType::i8 ? add_second<std::int8_t>(args, at, n)
                                  : add_second<std::uint8_t>(args, at, n);
}

void quantize_part(const AffineQuantizeArgs& args, std::int64_t at, std::int64_t n, float scale, float zero) {
  const float* x = args.x.as<float>() + at;
  const CodeRange range(args.q.dtype);
  if (args.q.dtype == DType::i8) return quantize_run(x, scale, zero, range, args.q.as<std::int8_t>() + at, n);
  quantize_run(x, scale, zero, range, args.q.as<std::uint8_t>() + at, n);
}
void dequantize_part(const AffineDequantizeArgs& args, std::int64_t at, std::int64_t n, float scale,
                     float zero) {
  float* x = args.x.as<float>() + at;
  if (args.q.dtype == DType::i8)
    return dequantize_run(args.q.as<const std::int8_t>() + at, scale, zero, x, n);
  dequantize_run(args.q.as<const std::uint8_t>() + at, scale, zero, x, n);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace ingot::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ingot::kernels::cpu {
namespace {
HWY_EXPORT(quantize_part);
HWY_EXPORT(dequantize_part);
HWY_EXPORT(add_part);
constexpr std::int64_t kGrain = 32768;  // elements, some 10 µs

float zero_of(const View& zero, std::int64_t channel) {
  if (!zero) return 0;
  return zero.dtype == DType::i8 ? static_cast<float>(zero.as<std::int8_t>()[channel])
                                 : static_cast<float>(zero.as<std::uint8_t>()[channel]);
}

// f(first element, number, scale, zero) for the runs of one scale.
template <class F>
void for_each_run_of_scale(const View& q, const View& scale, const View& zero, F&& f) {
  const std::int64_t channels = q.dim(1), inner = q.dim(2);
  parallel_for(q.numel(), kGrain, [&](std::int64_t begin, std::int64_t end) {
    while (begin < end) {
      const std::int64_t run = begin / inner, stop = std::min(end, (run + 1) * inner);
      f(begin, stop - begin, scale.as<float>()[run % channels], zero_of(zero, run % channels));
      begin = stop;
    }
  });
}

void quantize(const AffineQuantizeArgs& args, Stream) {
  for_each_run_of_scale(args.q, args.scale, args.zero,
                        [&](std::int64_t at, std::int64_t n, float scale, float zero) {
                          HWY_DYNAMIC_DISPATCH(quantize_part)(args, at, n, scale, zero);
                        });
}
void dequantize(const AffineDequantizeArgs& args, Stream) {
  for_each_run_of_scale(args.q, args.scale, args.zero,
                        [&](std::int64_t at, std::int64_t n, float scale, float zero) {
                          HWY_DYNAMIC_DISPATCH(dequantize_part)(args, at, n, scale, zero);
                        });
}

void add_codes(const AffineAddArgs& args, Stream) {
  parallel_for(args.y.codes.numel(), kGrain, [&](std::int64_t begin, std::int64_t end) {
    HWY_DYNAMIC_DISPATCH(add_part)(args, begin, end - begin);
  });
}

}  // namespace

void register_affine_quantize_simd() {
  affine_add.add(DeviceType::cpu, {"simd", ImplKind::simd, nullptr, add_codes});
  affine_quantize.add(DeviceType::cpu,
                      {"simd", ImplKind::simd,
                       [](const AffineQuantizeArgs& args) { return args.x.dtype == DType::f32; }, quantize});
  affine_dequantize.add(
      DeviceType::cpu,
      {"simd", ImplKind::simd, [](const AffineDequantizeArgs& args) { return args.x.dtype == DType::f32; },
       dequantize});
}

}  // namespace ingot::kernels::cpu
#endif  // HWY_ONCE
