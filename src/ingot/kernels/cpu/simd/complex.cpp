#include "ingot/kernels/complex.h"

#include "ingot/kernels/cpu/register.h"
#include "ingot/kernels/cpu/simd/blocks.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ingot/kernels/cpu/simd/complex.cpp"
#include <hwy/foreach_target.h>

#include "ingot/kernels/cpu/simd/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ingot::kernels::cpu {
namespace HWY_NAMESPACE {
namespace {

// p: a's parts, b's parts, y's parts.
void multiply_block(float* const* p, std::int64_t n, float sign, bool accumulate) {
  const V s = set(sign);
  const float* const in[4] = {p[0], p[1], p[2], p[3]};
  map<4>(in, p[4], n, accumulate,
         [=](V ar, V ai, V br, V bi) HWY_ATTR { return hn::NegMulAdd(hn::Mul(s, ai), bi, hn::Mul(ar, br)); });
  map<4>(in, p[5], n, accumulate,
         [=](V ar, V ai, V br, V bi) HWY_ATTR { return hn::MulAdd(hn::Mul(s, ar), bi, hn::Mul(ai, br)); });
}

void abs_block(const float* re, const float* im, float* y, std::int64_t n) {
  map<2>({re, im}, y, n, false, [](V a, V b) HWY_ATTR {
    // The larger part stands outside of the root, so that no square overflows or vanishes.
    const V x = hn::Abs(a), z = hn::Abs(b), larger = hn::Max(x, z);
    const V ratio = hn::IfThenElseZero(hn::Gt(larger, hn::Zero(D())), hn::Div(hn::Min(x, z), larger));
    return hn::Mul(larger, hn::Sqrt(hn::MulAdd(ratio, ratio, set(1.0F))));
  });
}

void abs_slope_block(const float* x, const float* y, const float* dy, float* dx, std::int64_t n,
                     bool accumulate) {
  map<3>({x, y, dy}, dx, n, accumulate, [](V part, V size, V g) HWY_ATTR {
    return hn::IfThenZeroElse(hn::Eq(size, hn::Zero(D())), hn::Mul(g, hn::Div(part, size)));
  });
}

// The reference's formula.
void tanh_block(const float* re, const float* im, float* y_re, float* y_im, std::int64_t n) {
  const V four = set(4.0F), minus_two = set(-2.0F);
  const auto below = [=](V size, V e, V cosine) HWY_ATTR {
    const V gap = hn::Expm1(D(), hn::Mul(minus_two, size));
    return hn::MulAdd(gap, gap, hn::Mul(hn::Mul(four, e), hn::Mul(cosine, cosine)));
  };
  map<2>({re, im}, y_re, n, false, [=](V a, V b) HWY_ATTR {
    const V size = hn::Abs(a), e = exp(hn::Mul(minus_two, size));
    const V above = hn::Neg(hn::Expm1(D(), hn::Mul(set(-4.0F), size)));
    return hn::CopySign(hn::Div(above, below(size, e, cos(b))), a);
  });
  map<2>({re, im}, y_im, n, false, [=](V a, V b) HWY_ATTR {
    const V size = hn::Abs(a), e = exp(hn::Mul(minus_two, size)), cosine = cos(b);
    return hn::Div(hn::Mul(hn::Mul(four, e), hn::Mul(sin(b), cosine)), below(size, e, cosine));
  });
}

// p: y's parts, dy's parts, dx's parts.
void tanh_slope_block(float* const* p, std::int64_t n, bool accumulate) {
  const float* const in[4] = {p[0], p[1], p[2], p[3]};
  const auto slope = [](V re, V im) HWY_ATTR { return hn::MulAdd(im, im, hn::NegMulAdd(re, re, set(1.0F))); };
  const auto turn = [](V re, V im) HWY_ATTR { return hn::Mul(set(2.0F), hn::Mul(re, im)); };
  map<4>(in, p[4], n, accumulate, [=](V re, V im, V dre, V dim) HWY_ATTR {
    return hn::NegMulAdd(dim, turn(re, im), hn::Mul(dre, slope(re, im)));
  });
  map<4>(in, p[5], n, accumulate, [=](V re, V im, V dre, V dim) HWY_ATTR {
    return hn::MulAdd(dre, turn(re, im), hn::Mul(dim, slope(re, im)));
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace ingot::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ingot::kernels::cpu {
namespace {
HWY_EXPORT(multiply_block);
HWY_EXPORT(abs_block);
HWY_EXPORT(abs_slope_block);
HWY_EXPORT(tanh_block);
HWY_EXPORT(tanh_slope_block);

constexpr std::int64_t kGrain = 32'768;

// The elements [part·n, part·n + n) of a contiguous view, as [n].
View plane(const View& view, std::int64_t n, std::int64_t part = 0) {
  View flat = view;
  flat.data = view.as<char>() + part * n * static_cast<std::int64_t>(byte_size(view.dtype));
  flat.rank = 1;
  flat.shape[0] = n;
  flat.strides[0] = 1;
  return flat;
}

bool accepts_multiply(const ComplexMultiplyArgs& args) { return are_simd_floats(args.a); }

void multiply(const ComplexMultiplyArgs& args, Stream) {
  const float sign = args.conjugate_b ? -1.0F : 1.0F;
  const std::int64_t size = args.y.numel() / 2;
  for_each_block<6>({reads(plane(args.a, size)), reads(plane(args.a, size, 1)), reads(plane(args.b, size)),
                     reads(plane(args.b, size, 1)), writes(plane(args.y, size), args.accumulate),
                     writes(plane(args.y, size, 1), args.accumulate)},
                    kGrain, [&](const auto& p, std::int64_t n) {
                      HWY_DYNAMIC_DISPATCH(multiply_block)
                      (p.data(), n, sign, args.accumulate);
                    });
}

bool accepts_abs(const ComplexAbsArgs& args) { return are_simd_floats(args.x); }

void abs(const ComplexAbsArgs& args, Stream) {
  const std::int64_t size = args.y.numel();
  for_each_block<3>(
      {reads(plane(args.x, size)), reads(plane(args.x, size, 1)), writes(plane(args.y, size), false)}, kGrain,
      [&](const auto& p, std::int64_t n) {
        HWY_DYNAMIC_DISPATCH(abs_block)
        (p[0], p[1], p[2], n);
      });
}

bool accepts_abs_backward(const ComplexAbsBackwardArgs& args) { return are_simd_floats(args.x); }

void abs_backward(const ComplexAbsBackwardArgs& args, Stream) {
  const std::int64_t size = args.y.numel();
  for (const std::int64_t part : {0, 1}) {
    for_each_block<4>({reads(plane(args.x, size, part)), reads(plane(args.y, size)),
                       reads(plane(args.dy, size)), writes(plane(args.dx, size, part), args.accumulate)},
                      kGrain, [&](const auto& p, std::int64_t n) {
                        HWY_DYNAMIC_DISPATCH(abs_slope_block)(p[0], p[1], p[2], p[3], n, args.accumulate);
                      });
  }
}

bool accepts_tanh(const ComplexTanhArgs& args) { return are_simd_floats(args.x); }

void tanh(const ComplexTanhArgs& args, Stream) {
  const std::int64_t size = args.y.numel() / 2;
  for_each_block<4>({reads(plane(args.x, size)), reads(plane(args.x, size, 1)),
                     writes(plane(args.y, size), false), writes(plane(args.y, size, 1), false)},
                    kGrain, [&](const auto& p, std::int64_t n) {
                      HWY_DYNAMIC_DISPATCH(tanh_block)(p[0], p[1], p[2], p[3], n);
                    });
}

bool accepts_tanh_backward(const ComplexTanhBackwardArgs& args) { return are_simd_floats(args.y); }

void tanh_backward(const ComplexTanhBackwardArgs& args, Stream) {
  const std::int64_t size = args.y.numel() / 2;
  for_each_block<6>({reads(plane(args.y, size)), reads(plane(args.y, size, 1)), reads(plane(args.dy, size)),
                     reads(plane(args.dy, size, 1)), writes(plane(args.dx, size), args.accumulate),
                     writes(plane(args.dx, size, 1), args.accumulate)},
                    kGrain, [&](const auto& p, std::int64_t n) {
                      HWY_DYNAMIC_DISPATCH(tanh_slope_block)(p.data(), n, args.accumulate);
                    });
}

}  // namespace

void register_complex_simd() {
  complex_tanh.add(DeviceType::cpu, {"simd", ImplKind::simd, accepts_tanh, tanh});
  complex_tanh_backward.add(DeviceType::cpu, {"simd", ImplKind::simd, accepts_tanh_backward, tanh_backward});
  complex_multiply.add(DeviceType::cpu, {"simd", ImplKind::simd, accepts_multiply, multiply});
  complex_abs.add(DeviceType::cpu, {"simd", ImplKind::simd, accepts_abs, abs});
  complex_abs_backward.add(DeviceType::cpu, {"simd", ImplKind::simd, accepts_abs_backward, abs_backward});
}

}  // namespace ingot::kernels::cpu
#endif  // HWY_ONCE
