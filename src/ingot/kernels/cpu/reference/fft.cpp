#include "ingot/kernels/fft.h"

#include <cmath>
#include <numbers>
#include <vector>

#include "ingot/base/parallel.h"
#include "ingot/kernels/cpu/numeric.h"
#include "ingot/kernels/cpu/register.h"

namespace ingot::kernels::cpu {
namespace {

struct Root {
  double re, im;
};

// e^(2πi·j/n) for all j below n.
std::vector<Root> roots_of_unity(std::int64_t n) {
  std::vector<Root> roots;
  for (std::int64_t j = 0; j < n; ++j) {
    const double angle = 2 * std::numbers::pi * static_cast<double>(j) / static_cast<double>(n);
    roots.push_back({std::cos(angle), std::sin(angle)});
  }
  return roots;
}

template <class F>
void for_each_line(std::int64_t outer, std::int64_t n, std::int64_t inner, F&& f) {
  parallel_for(outer * inner, 1 + 16'384 / (n * n), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t line = begin; line < end; ++line) f(line / inner, line % inner);
  });
}

bool is_edge(std::int64_t k, std::int64_t n) { return k == 0 || 2 * k == n; }

void real_fft_reference(const RealFftArgs& args, Stream) {
  const std::int64_t outer = args.x.dim(0), n = args.x.dim(1), inner = args.x.dim(2), bins = args.y.dim(2);
  const std::vector<Root> roots = roots_of_unity(n);
  dispatch_float(args.x.dtype, "real_fft", [&]<class T>() {
    const std::int64_t plane = outer * bins * inner;
    for_each_line(outer, n, inner, [&](std::int64_t o, std::int64_t c) {
      const T* x = args.x.as<T>() + o * n * inner + c;
      T* y = args.y.as<T>() + o * bins * inner + c;
      for (std::int64_t k = 0; k < bins; ++k) {
        double re = 0, im = 0;
        for (std::int64_t t = 0; t < n; ++t) {
          const auto value = static_cast<double>(load(x + t * inner));
          const Root& root = roots[static_cast<std::size_t>(k * t % n)];
          re += value * root.re;
          im -= value * root.im;
        }
        const double weight = is_edge(k, n) ? args.edge : args.interior;
        store(y + k * inner, static_cast<Accumulator<T>>(weight * re), args.accumulate);
        store(y + plane + k * inner, static_cast<Accumulator<T>>(is_edge(k, n) ? 0 : weight * im),
              args.accumulate);
      }
    });
  });
}

void inverse_real_fft_reference(const InverseRealFftArgs& args, Stream) {
  const std::int64_t outer = args.y.dim(0), n = args.y.dim(1), inner = args.y.dim(2), bins = args.x.dim(2);
  const std::vector<Root> roots = roots_of_unity(n);
  dispatch_float(args.x.dtype, "inverse_real_fft", [&]<class T>() {
    const std::int64_t plane = outer * bins * inner;
    for_each_line(outer, n, inner, [&](std::int64_t o, std::int64_t c) {
      const T* x = args.x.as<T>() + o * bins * inner + c;
      T* y = args.y.as<T>() + o * n * inner + c;
      for (std::int64_t t = 0; t < n; ++t) {
        double sum = 0;
        for (std::int64_t k = 0; k < bins; ++k) {
          const Root& root = roots[static_cast<std::size_t>(k * t % n)];
          const auto re = static_cast<double>(load(x + k * inner));
          const auto im = static_cast<double>(load(x + plane + k * inner));
          sum += is_edge(k, n) ? args.edge * re * root.re : args.interior * (re * root.re - im * root.im);
        }
        store(y + t * inner, static_cast<Accumulator<T>>(sum), args.accumulate);
      }
    });
  });
}

}  // namespace

void register_fft_reference() {
  real_fft.add(DeviceType::cpu, {"reference", ImplKind::reference, nullptr, real_fft_reference});
  inverse_real_fft.add(DeviceType::cpu,
                       {"reference", ImplKind::reference, nullptr, inverse_real_fft_reference});
}

}  // namespace ingot::kernels::cpu
