#include "ingot/kernels/complex.h"

#include <cmath>

#include "ingot/base/parallel.h"
#include "ingot/kernels/cpu/numeric.h"
#include "ingot/kernels/cpu/register.h"

namespace ingot::kernels::cpu {
namespace {

constexpr std::int64_t kComplexGrain = 16'384;

void complex_multiply_reference(const ComplexMultiplyArgs& args, Stream) {
  dispatch_float(args.a.dtype, "complex_multiply", [&]<class T>() {
    const std::int64_t n = args.y.numel() / 2;
    const T* a = args.a.as<T>();
    const T* b = args.b.as<T>();
    T* y = args.y.as<T>();
    const Accumulator<T> sign = args.conjugate_b ? -1 : 1;
    parallel_for(n, kComplexGrain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const auto ar = load(a + i), ai = load(a + n + i), br = load(b + i), bi = sign * load(b + n + i);
        store(y + i, ar * br - ai * bi, args.accumulate);
        store(y + n + i, ar * bi + ai * br, args.accumulate);
      }
    });
  });
}

void complex_abs_reference(const ComplexAbsArgs& args, Stream) {
  dispatch_float(args.x.dtype, "complex_abs", [&]<class T>() {
    const std::int64_t n = args.y.numel();
    const T* x = args.x.as<T>();
    parallel_for(n, kComplexGrain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        store(args.y.as<T>() + i, std::hypot(load(x + i), load(x + n + i)));
      }
    });
  });
}

void complex_abs_backward_reference(const ComplexAbsBackwardArgs& args, Stream) {
  dispatch_float(args.x.dtype, "complex_abs_backward", [&]<class T>() {
    const std::int64_t n = args.y.numel();
    const T* x = args.x.as<T>();
    T* dx = args.dx.as<T>();
    parallel_for(n, kComplexGrain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const auto size = load(args.y.as<T>() + i);
        const auto factor = size == 0 ? 0 : load(args.dy.as<T>() + i) / size;
        store(dx + i, factor * load(x + i), args.accumulate);
        store(dx + n + i, factor * load(x + n + i), args.accumulate);
      }
    });
  });
}

// tanh(a + ib) for a ≥ 0, with e = exp(−2a), is (1 − e² + 4ie·sin(b)·cos(b)) / ((1 − e)² + 4e·cos²(b)):
// nothing overflows, and small differences come from expm1. It is odd in a, and its imaginary part even.
void complex_tanh_reference(const ComplexTanhArgs& args, Stream) {
  dispatch_float(args.x.dtype, "complex_tanh", [&]<class T>() {
    const std::int64_t n = args.y.numel() / 2;
    const T* x = args.x.as<T>();
    T* y = args.y.as<T>();
    parallel_for(n, kComplexGrain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const auto a = load(x + i), size = std::abs(a), sine = std::sin(load(x + n + i)),
                   cosine = std::cos(load(x + n + i)), e = std::exp(-2 * size), gap = std::expm1(-2 * size);
        const auto below = gap * gap + 4 * e * cosine * cosine;
        store(y + i, std::copysign(-std::expm1(-4 * size) / below, a));
        store(y + n + i, 4 * e * sine * cosine / below);
      }
    });
  });
}

void complex_tanh_backward_reference(const ComplexTanhBackwardArgs& args, Stream) {
  dispatch_float(args.y.dtype, "complex_tanh_backward", [&]<class T>() {
    const std::int64_t n = args.y.numel() / 2;
    const T* y = args.y.as<T>();
    const T* dy = args.dy.as<T>();
    T* dx = args.dx.as<T>();
    parallel_for(n, kComplexGrain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const auto re = load(y + i), im = load(y + n + i), dre = load(dy + i), dim = load(dy + n + i);
        const auto slope = 1 - re * re + im * im, turn = 2 * re * im;  // conj(1 − y²)
        store(dx + i, dre * slope - dim * turn, args.accumulate);
        store(dx + n + i, dre * turn + dim * slope, args.accumulate);
      }
    });
  });
}

}  // namespace

void register_complex_reference() {
  complex_tanh.add(DeviceType::cpu, {"reference", ImplKind::reference, nullptr, complex_tanh_reference});
  complex_tanh_backward.add(DeviceType::cpu,
                            {"reference", ImplKind::reference, nullptr, complex_tanh_backward_reference});
  complex_multiply.add(DeviceType::cpu,
                       {"reference", ImplKind::reference, nullptr, complex_multiply_reference});
  complex_abs.add(DeviceType::cpu, {"reference", ImplKind::reference, nullptr, complex_abs_reference});
  complex_abs_backward.add(DeviceType::cpu,
                           {"reference", ImplKind::reference, nullptr, complex_abs_backward_reference});
}

}  // namespace ingot::kernels::cpu
