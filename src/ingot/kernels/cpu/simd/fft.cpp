#include "ingot/kernels/fft.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "ingot/base/parallel.h"
#include "ingot/kernels/cpu/fft_plan.h"
#include "ingot/kernels/cpu/register.h"
#include "ingot/kernels/cpu/tile.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ingot/kernels/cpu/simd/fft.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

// Every lane of a vector transforms lines of its own, so the passes have no shuffles and suit any axis. A
// lane takes two real lines at once, one as the real and one as the imaginary part of a complex line; their
// spectra come apart by symmetry. Element e of a work buffer stands at e·width: a vector of real parts, a
// vector of imaginary ones.
HWY_BEFORE_NAMESPACE();
namespace ingot::kernels::cpu {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;
using Wide = hn::ScalableTag<float>;
using Narrow = hn::CappedTag<float, 1>;  // for a line or two, and where wide buffers would be huge

template <class D>
struct Complex {
  hn::Vec<D> re, im;
};
template <class D>
HWY_INLINE Complex<D> add(Complex<D> a, Complex<D> b) {
  return {hn::Add(a.re, b.re), hn::Add(a.im, b.im)};
}
template <class D>
HWY_INLINE Complex<D> sub(Complex<D> a, Complex<D> b) {
  return {hn::Sub(a.re, b.re), hn::Sub(a.im, b.im)};
}
template <class D>
HWY_INLINE Complex<D> times(Complex<D> a, Complex<D> b) {
  return {hn::NegMulAdd(a.im, b.im, hn::Mul(a.re, b.re)), hn::MulAdd(a.re, b.im, hn::Mul(a.im, b.re))};
}
// −i·a
template <class D>
HWY_INLINE Complex<D> turned(Complex<D> a) {
  return {a.im, hn::Neg(a.re)};
}
// a + k·b
template <class D>
HWY_INLINE Complex<D> add_scaled(Complex<D> a, float k, Complex<D> b) {
  const auto factor = hn::Set(D(), k);
  return {hn::MulAdd(factor, b.re, a.re), hn::MulAdd(factor, b.im, a.im)};
}
template <class D>
HWY_INLINE Complex<D> scaled(float k, Complex<D> a) {
  const auto factor = hn::Set(D(), k);
  return {hn::Mul(factor, a.re), hn::Mul(factor, a.im)};
}
template <class D>
HWY_INLINE Complex<D> get(D d, const float* p) {
  return {hn::LoadU(d, p), hn::LoadU(d, p + hn::Lanes(d))};
}
template <class D>
HWY_INLINE void put(D d, Complex<D> v, float* p) {
  hn::StoreU(v.re, d, p);
  hn::StoreU(v.im, d, p + hn::Lanes(d));
}
template <class D>
HWY_INLINE Complex<D> constant(D d, const float* p) {
  return {hn::Set(d, p[0]), hn::Set(d, p[1])};
}

// y_j = Σ_i x_i · e^(−2πi·ij/R), in place.
template <class D>
HWY_INLINE void butterfly(Complex<D> (&x)[2]) {
  const Complex<D> a = x[0];
  x[0] = add(a, x[1]);
  x[1] = sub(a, x[1]);
}
template <class D>
HWY_INLINE void butterfly(Complex<D> (&x)[3]) {
  const Complex<D> sum = add(x[1], x[2]), difference = scaled(0.86602540378F, turned(sub(x[1], x[2])));
  const Complex<D> middle = add_scaled(x[0], -0.5F, sum);
  x[0] = add(x[0], sum);
  x[1] = add(middle, difference);
  x[2] = sub(middle, difference);
}
template <class D>
HWY_INLINE void butterfly(Complex<D> (&x)[4]) {
  const Complex<D> a = add(x[0], x[2]), b = sub(x[0], x[2]), c = add(x[1], x[3]), d = turned(sub(x[1], x[3]));
  x[0] = add(a, c);
  x[1] = add(b, d);
  x[2] = sub(a, c);
  x[3] = sub(b, d);
}
template <class D>
HWY_INLINE void butterfly(Complex<D> (&x)[5]) {
  constexpr float kCos1 = 0.30901699437F, kCos2 = -0.80901699437F;
  constexpr float kSin1 = 0.95105651629F, kSin2 = 0.58778525229F;
  const Complex<D> outer = add(x[1], x[4]), inner = add(x[2], x[3]);
  const Complex<D> outer_turned = turned(sub(x[1], x[4])), inner_turned = turned(sub(x[2], x[3]));
  const Complex<D> first = add_scaled(add_scaled(x[0], kCos1, outer), kCos2, inner);
  const Complex<D> second = add_scaled(add_scaled(x[0], kCos2, outer), kCos1, inner);
  const Complex<D> first_turned = add_scaled(scaled(kSin1, outer_turned), kSin2, inner_turned);
  const Complex<D> second_turned = add_scaled(scaled(kSin2, outer_turned), -kSin1, inner_turned);
  x[0] = add(x[0], add(outer, inner));
  x[1] = add(first, first_turned);
  x[2] = add(second, second_turned);
  x[3] = sub(second, second_turned);
  x[4] = sub(first, first_turned);
}

// One butterfly of a pass, for all its neighbours. `kTwiddles`: twiddles other than 1.
template <int R, bool kTwiddles, class D>
HWY_INLINE void neighbours(D d, const FftStage& stage, const float* twiddles, const float* x, float* y) {
  const auto width = 2 * static_cast<std::int64_t>(hn::Lanes(d));
  const std::int64_t apart = stage.inner * stage.count * width;
  for (std::int64_t q = 0; q < stage.inner; ++q) {
    Complex<D> v[R];
    for (int i = 0; i < R; ++i) v[i] = get(d, x + q * width + i * apart);
    butterfly(v);
    put(d, v[0], y + q * width);
    for (int j = 1; j < R; ++j) {
      if constexpr (kTwiddles) v[j] = times(v[j], constant(d, twiddles + 2 * (j - 1)));
      put(d, v[j], y + (q + j * stage.inner) * width);
    }
  }
}

template <int R, class D>
void pass(D d, const FftStage& stage, const float* numbers, const float* x, float* y) {
  const std::int64_t step = stage.inner * 2 * static_cast<std::int64_t>(hn::Lanes(d));
  const float* twiddles = numbers + stage.twiddles;
  neighbours<R, false>(d, stage, twiddles, x, y);
  for (std::int64_t p = 1; p < stage.count; ++p) {
    neighbours<R, true>(d, stage, twiddles + p * 2 * (R - 1), x + p * step, y + p * R * step);
  }
}

// Any radix, by definition.
template <class D>
void plain_pass(D d, const FftStage& stage, const float* numbers, const float* x, float* y) {
  const auto width = 2 * static_cast<std::int64_t>(hn::Lanes(d));
  const std::int64_t radix = stage.radix, apart = stage.inner * stage.count * width;
  const float* roots = numbers + stage.roots;
  for (std::int64_t p = 0; p < stage.count; ++p) {
    const float* twiddles = numbers + stage.twiddles + p * 2 * (radix - 1);
    for (std::int64_t q = 0; q < stage.inner; ++q) {
      const float* from = x + (p * stage.inner + q) * width;
      float* to = y + (p * radix * stage.inner + q) * width;
      for (std::int64_t j = 0; j < radix; ++j) {
        Complex<D> sum = get(d, from);
        for (std::int64_t i = 1; i < radix; ++i) {
          sum = add(sum, times(get(d, from + i * apart), constant(d, roots + 2 * (i * j % radix))));
        }
        if (j > 0) sum = times(sum, constant(d, twiddles + 2 * (j - 1)));
        put(d, sum, to + j * stage.inner * width);
      }
    }
  }
}

// The transform of x, in x or y: where it is comes back.
template <class D>
float* run_stages(D d, const FftPlan& plan, float* x, float* y) {
  for (const FftStage& stage : plan.stages) {
    const float* numbers = plan.numbers.data();
    switch (stage.radix) {
      case 2:
        pass<2>(d, stage, numbers, x, y);
        break;
      case 3:
        pass<3>(d, stage, numbers, x, y);
        break;
      case 4:
        pass<4>(d, stage, numbers, x, y);
        break;
      case 5:
        pass<5>(d, stage, numbers, x, y);
        break;
      default:
        plain_pass(d, stage, numbers, x, y);
    }
    std::swap(x, y);
  }
  return x;
}

// Real and imaginary parts of `count` elements change positions after multiplication by `factors`: between
// two transforms that makes the second one an inverse.
template <class D>
void multiply_and_swap(D d, float* x, const float* factors, std::int64_t count) {
  const auto width = 2 * static_cast<std::int64_t>(hn::Lanes(d));
  for (std::int64_t i = 0; i < count; ++i) {
    const Complex<D> v = times(get(d, x + i * width), constant(d, factors + 2 * i));
    put(d, {v.im, v.re}, x + i * width);
  }
}

template <class D>
float* transform(D d, const FftPlan& plan, float* x, float* y) {
  if (!plan.convolution) return run_stages(d, plan, x, y);
  const auto width = 2 * static_cast<std::int64_t>(hn::Lanes(d));
  const FftPlan& inner = *plan.convolution;
  for (std::int64_t t = 0; t < plan.n; ++t) {
    put(d, times(get(d, x + t * width), constant(d, plan.chirp.data() + 2 * t)), x + t * width);
  }
  std::fill(x + plan.n * width, x + inner.n * width, 0.0F);
  float* found = run_stages(d, inner, x, y);
  multiply_and_swap(d, found, plan.spectrum.data(), inner.n);
  found = run_stages(d, inner, found, found == x ? y : x);
  for (std::int64_t k = 0; k < plan.n; ++k) {
    const Complex<D> v = get(d, found + k * width);
    put(d, times(Complex<D>{v.im, v.re}, constant(d, plan.chirp.data() + 2 * k)), found + k * width);
  }
  return found;
}

constexpr std::size_t kMaxWidth = 2 * HWY_MAX_BYTES / sizeof(float);

// The lines that one block of lanes works on, in a tensor [outer, length, inner].
struct Block {
  std::int64_t count;  // of lines, at most the width
  bool adjacent;       // a full block of neighbours
  std::int64_t inner;
  std::int64_t base[kMaxWidth];  // where each line begins
};

Block block_of(std::int64_t block, std::int64_t width, std::int64_t outer, std::int64_t length,
               std::int64_t inner) {
  const std::int64_t first = block * width;
  Block b{std::min(width, outer * inner - first), first % inner + width <= inner, inner, {}};
  for (std::int64_t j = 0; j < b.count; ++j) {
    b.base[j] = (first + j) / inner * length * inner + (first + j) % inner;
  }
  return b;
}

// Row t of the block's lines to the `width` floats at `to`.
void read_row(const Block& b, const float* x, std::int64_t t, std::int64_t width, float* to) {
  if (b.adjacent) {
    std::memcpy(to, x + b.base[0] + t * b.inner, static_cast<std::size_t>(width) * sizeof(float));
    return;
  }
  for (std::int64_t j = 0; j < b.count; ++j) to[j] = x[b.base[j] + t * b.inner];
  for (std::int64_t j = b.count; j < width; ++j) to[j] = 0;
}

template <class D>
HWY_INLINE void write_row(D d, const Block& b, Complex<D> v, float* y, std::int64_t t, bool accumulate) {
  if (b.adjacent) {
    float* to = y + b.base[0] + t * b.inner;
    put(d, accumulate ? add(v, get(d, to)) : v, to);
    return;
  }
  float row[kMaxWidth];
  put(d, v, row);
  for (std::int64_t j = 0; j < b.count; ++j) {
    float& to = y[b.base[j] + t * b.inner];
    to = accumulate ? to + row[j] : row[j];
  }
}

bool is_edge(std::int64_t k, std::int64_t n) { return k == 0 || 2 * k == n; }

template <class D>
void forward(D d, const RealFftArgs& args, const FftPlan& plan, std::int64_t begin, std::int64_t end) {
  const std::int64_t outer = args.x.dim(0), n = args.x.dim(1), inner = args.x.dim(2), bins = args.y.dim(2);
  const auto width = 2 * static_cast<std::int64_t>(hn::Lanes(d));
  const std::int64_t work = plan.work_length() * width;
  float* x = thread_scratch(0, static_cast<std::size_t>(2 * work));
  float* real = args.y.as<float>();
  float* imaginary = real + outer * bins * inner;
  for (std::int64_t block = begin; block < end; ++block) {
    const Block from = block_of(block, width, outer, n, inner);
    const Block to = block_of(block, width, outer, bins, inner);
    for (std::int64_t t = 0; t < n; ++t) read_row(from, args.x.as<float>(), t, width, x + t * width);
    const float* z = transform(d, plan, x, x + work);
    for (std::int64_t k = 0; k < bins; ++k) {
      const Complex<D> a = get(d, z + k * width), b = get(d, z + (k == 0 ? 0 : n - k) * width);
      const auto half = static_cast<float>(0.5 * (is_edge(k, n) ? args.edge : args.interior));
      const Complex<D> re{hn::Add(a.re, b.re), hn::Add(a.im, b.im)};
      const Complex<D> im{hn::Sub(a.im, b.im), hn::Sub(b.re, a.re)};
      write_row(d, to, scaled(half, re), real, k, args.accumulate);
      write_row(d, to, scaled(half, im), imaginary, k, args.accumulate);
    }
  }
}

// The spectra of each pair of lines as one, real and imaginary parts swapped: its transform is then the
// inverse one, swapped too.
template <class D>
void join_spectra(D d, const InverseRealFftArgs& args, const Block& from, float* x) {
  const std::int64_t n = args.y.dim(1), bins = args.x.dim(2);
  const auto width = 2 * static_cast<std::int64_t>(hn::Lanes(d));
  const float* real = args.x.as<float>();
  const float* imaginary = real + args.x.numel() / 2;
  for (std::int64_t k = 0; k < bins; ++k) {
    float rows[kMaxWidth];
    read_row(from, real, k, width, rows);
    const Complex<D> re = get(d, rows);
    if (is_edge(k, n)) {
      put(d, scaled(static_cast<float>(args.edge), Complex<D>{re.im, re.re}), x + k * width);
      continue;
    }
    read_row(from, imaginary, k, width, rows);
    const Complex<D> im = get(d, rows);
    const auto half = static_cast<float>(0.5 * args.interior);
    const Complex<D> ahead{hn::Add(im.re, re.im), hn::Sub(re.re, im.im)};
    const Complex<D> behind{hn::Sub(re.im, im.re), hn::Add(re.re, im.im)};
    put(d, scaled(half, ahead), x + k * width);
    put(d, scaled(half, behind), x + (n - k) * width);
  }
  std::fill(x + bins * width, x + std::max(bins, n - bins + 1) * width, 0.0F);
}

template <class D>
void inverse(D d, const InverseRealFftArgs& args, const FftPlan& plan, std::int64_t begin, std::int64_t end) {
  const std::int64_t outer = args.y.dim(0), n = args.y.dim(1), inner = args.y.dim(2), bins = args.x.dim(2);
  const auto width = 2 * static_cast<std::int64_t>(hn::Lanes(d));
  const std::int64_t work = plan.work_length() * width;
  float* x = thread_scratch(0, static_cast<std::size_t>(2 * work));
  for (std::int64_t block = begin; block < end; ++block) {
    const Block to = block_of(block, width, outer, n, inner);
    join_spectra(d, args, block_of(block, width, outer, bins, inner), x);
    const float* z = transform(d, plan, x, x + work);
    for (std::int64_t t = 0; t < n; ++t) {
      const Complex<D> v = get(d, z + t * width);
      write_row(d, to, Complex<D>{v.im, v.re}, args.y.as<float>(), t, args.accumulate);
    }
  }
}

std::int64_t lines_at_once() { return 2 * static_cast<std::int64_t>(hn::Lanes(Wide())); }

void forward_blocks(const RealFftArgs& args, const FftPlan& plan, bool wide, std::int64_t begin,
                    std::int64_t end) {
  wide ? forward(Wide(), args, plan, begin, end) : forward(Narrow(), args, plan, begin, end);
}

void inverse_blocks(const InverseRealFftArgs& args, const FftPlan& plan, bool wide, std::int64_t begin,
                    std::int64_t end) {
  wide ? inverse(Wide(), args, plan, begin, end) : inverse(Narrow(), args, plan, begin, end);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace ingot::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ingot::kernels::cpu {
namespace {
HWY_EXPORT(lines_at_once);
HWY_EXPORT(forward_blocks);
HWY_EXPORT(inverse_blocks);

constexpr std::int64_t kGrainElements = 16'384;
constexpr std::int64_t kLongestWide = 65'536;  // a wide buffer of this length takes 8 MiB

// body(wide, begin, end) over the blocks of `lines` lines of `n` numbers.
template <class Body>
void for_blocks(std::int64_t lines, std::int64_t n, Body&& body) {
  const bool wide = lines > 2 && n <= kLongestWide;
  const std::int64_t width = wide ? HWY_DYNAMIC_DISPATCH(lines_at_once)() : 2;
  parallel_for((lines + width - 1) / width, std::max<std::int64_t>(1, kGrainElements / (n * width)),
               [&](std::int64_t begin, std::int64_t end) { body(wide, begin, end); });
}

bool accepts_forward(const RealFftArgs& args) { return args.x.dtype == DType::f32; }

void real_fft_simd(const RealFftArgs& args, Stream) {
  const std::int64_t n = args.x.dim(1);
  const FftPlan& plan = fft_plan(n);
  for_blocks(args.x.dim(0) * args.x.dim(2), n, [&](bool wide, std::int64_t begin, std::int64_t end) {
    HWY_DYNAMIC_DISPATCH(forward_blocks)(args, plan, wide, begin, end);
  });
}

bool accepts_inverse(const InverseRealFftArgs& args) { return args.x.dtype == DType::f32; }

void inverse_real_fft_simd(const InverseRealFftArgs& args, Stream) {
  const std::int64_t n = args.y.dim(1);
  const FftPlan& plan = fft_plan(n);
  for_blocks(args.y.dim(0) * args.y.dim(2), n, [&](bool wide, std::int64_t begin, std::int64_t end) {
    HWY_DYNAMIC_DISPATCH(inverse_blocks)(args, plan, wide, begin, end);
  });
}

}  // namespace

void register_fft_simd() {
  real_fft.add(DeviceType::cpu, {"simd", ImplKind::simd, accepts_forward, real_fft_simd});
  inverse_real_fft.add(DeviceType::cpu, {"simd", ImplKind::simd, accepts_inverse, inverse_real_fft_simd});
}

}  // namespace ingot::kernels::cpu
#endif  // HWY_ONCE
