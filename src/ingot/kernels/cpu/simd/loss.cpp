#include "ingot/kernels/loss.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ingot/base/parallel.h"
#include "ingot/kernels/cpu/register.h"
#include "ingot/kernels/cpu/simd/convert.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ingot/kernels/cpu/simd/loss.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ingot/kernels/cpu/simd/lanes-inl.h"
#include "ingot/kernels/cpu/simd/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ingot::kernels::cpu {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

constexpr float kLog2e = 1.44269504F;

std::int64_t target_at(const View& targets, std::int64_t i) {
  const std::int64_t at = i * targets.stride(0);
  return targets.dtype == DType::i64 ? targets.as<std::int64_t>()[at] : targets.as<std::int32_t>()[at];
}

float cap(float x, float softcap) { return softcap > 0.0F ? softcap * std::tanh(x / softcap) : x; }

// Calls f(i, x) for whole vectors of the row's (capped) logits, and scalar(i, x) for the rest.
template <class T, class Vector, class Scalar>
HWY_INLINE void for_logits(const T* x, std::int64_t n, float softcap, Vector&& f, Scalar&& scalar) {
  const D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t i = 0;
  if (softcap > 0.0F) {
    const auto c = hn::Set(d, softcap), inverse = hn::Set(d, 1.0F / softcap);
    for (; i + lanes <= n; i += lanes) f(i, hn::Mul(c, tanh(hn::Mul(load_lanes(d, x + i), inverse))));
  } else {
    for (; i + lanes <= n; i += lanes) f(i, load_lanes(d, x + i));
  }
  for (; i < n; ++i) scalar(i, cap(static_cast<float>(x[i]), softcap));
}

struct RowSums {
  float lse, mean;
};

// Two passes over a row that the second finds in L2: largest (and mean), then Σ exp.
template <class T>
RowSums row_sums(const T* x, std::int64_t n, const CrossEntropyOptions& options) {
  const D d;
  auto tops = hn::Set(d, -std::numeric_limits<float>::infinity());
  auto sums = hn::Zero(d);
  float top = -std::numeric_limits<float>::infinity();
  float mean = 0.0F;
  if (options.label_smoothing > 0.0F) {
    for_logits(
        x, n, options.softcap,
        [&](std::int64_t, auto v) HWY_ATTR {
          tops = hn::Max(tops, v);
          sums = hn::Add(sums, v);
        },
        [&](std::int64_t, float v) HWY_ATTR {
          top = std::max(top, v);
          mean += v;
        });
    mean = (mean + hn::GetLane(hn::SumOfLanes(d, sums))) / static_cast<float>(n);
  } else {
    for_logits(
        x, n, options.softcap, [&](std::int64_t, auto v) HWY_ATTR { tops = hn::Max(tops, v); },
        [&](std::int64_t, float v) HWY_ATTR { top = std::max(top, v); });
  }
  top = std::max(top, hn::GetLane(hn::MaxOfLanes(d, tops)));
  const auto shift = hn::Set(d, top), log2e = hn::Set(d, kLog2e);
  sums = hn::Zero(d);
  float rest = 0.0F;
  for_logits(
      x, n, options.softcap,
      [&](std::int64_t, auto v) HWY_ATTR { sums = hn::Add(sums, exp2(hn::Mul(hn::Sub(v, shift), log2e))); },
      [&](std::int64_t, float v) HWY_ATTR { rest += std::exp(v - top); });
  return {top + std::log(rest + hn::GetLane(hn::SumOfLanes(d, sums))), mean};
}

// d = (weight·exp(x − lse) − ε/n)·factor, and −(1 − ε)·factor more at the target.
template <class T>
void row_gradient(const T* x, T* dx, std::int64_t n, std::int64_t target, float lse, float factor,
                  const CrossEntropyOptions& options, bool accumulate) {
  const D d;
  if (target == options.ignore_index) {
    if (!accumulate) std::fill_n(dx, n, T{});
    return;
  }
  const float weight = (1.0F + 2.0F * options.z_loss * lse) * factor;
  const float uniform = options.label_smoothing / static_cast<float>(n) * factor;
  const float softcap = options.softcap, inverse = softcap > 0.0F ? 1.0F / softcap : 0.0F;
  const float at_target = cap(static_cast<float>(x[target]), softcap);
  const float before = accumulate ? static_cast<float>(dx[target]) : 0.0F;
  const auto weights = hn::Set(d, weight), uniforms = hn::Set(d, uniform), one = hn::Set(d, 1.0F);
  const auto shift = hn::Set(d, lse), log2e = hn::Set(d, kLog2e), inverses = hn::Set(d, inverse);
  const auto slope = [=](float v) HWY_ATTR { return 1.0F - (v * inverse) * (v * inverse); };
  for_logits(
      x, n, softcap,
      [&](std::int64_t i, auto v) HWY_ATTR {
        auto g = hn::MulSub(weights, exp2(hn::Mul(hn::Sub(v, shift), log2e)), uniforms);
        if (softcap > 0.0F) {
          const auto t = hn::Mul(v, inverses);
          g = hn::Mul(g, hn::NegMulAdd(t, t, one));
        }
        store_lanes(d, g, dx + i, accumulate);
      },
      [&](std::int64_t i, float v) HWY_ATTR {
        const float g = (weight * std::exp(v - lse) - uniform) * slope(v);
        dx[i] = static_cast<T>(accumulate ? g + static_cast<float>(dx[i]) : g);
      });
  const float g = weight * std::exp(at_target - lse) - uniform - (1.0F - options.label_smoothing) * factor;
  dx[target] = static_cast<T>(before + g * slope(at_target));
}

template <class T>
void forward_rows(const CrossEntropyArgs& args, std::int64_t begin, std::int64_t end) {
  const std::int64_t n = args.logits.dim(1);
  const CrossEntropyOptions& options = args.options;
  const float factor = args.denominator ? 1.0F / args.denominator.as<float>()[0] : 1.0F;
  for (std::int64_t row = begin; row < end; ++row) {
    const T* x = args.logits.as<T>() + row * args.logits.stride(0);
    const std::int64_t target = target_at(args.targets, row);
    const bool ignored = target == options.ignore_index;
    RowSums sums{0.0F, 0.0F};
    if (!ignored) sums = row_sums(x, n, options);
    const float picked = ignored ? 0.0F : cap(static_cast<float>(x[target]), options.softcap);
    args.loss.as<float>()[row] = ignored ? 0.0F
                                         : sums.lse - (1.0F - options.label_smoothing) * picked -
                                               options.label_smoothing * sums.mean +
                                               options.z_loss * sums.lse * sums.lse;
    if (args.lse) args.lse.as<float>()[row] = sums.lse;
    if (args.dlogits) {
      row_gradient(x, args.dlogits.as<T>() + row * args.dlogits.stride(0), n, target, sums.lse, factor,
                   options, false);
    }
  }
}

template <class T>
void backward_rows(const CrossEntropyBackwardArgs& args, std::int64_t begin, std::int64_t end) {
  const float scale = args.denominator ? 1.0F / args.denominator.as<float>()[0] : 1.0F;
  for (std::int64_t row = begin; row < end; ++row) {
    const float dloss = args.dloss.as<float>()[args.dloss.numel() == 1 ? 0 : row];
    row_gradient(args.logits.as<T>() + row * args.logits.stride(0),
                 args.dlogits.as<T>() + row * args.dlogits.stride(0), args.logits.dim(1),
                 target_at(args.targets, row), args.lse.as<float>()[row], dloss * scale, args.options,
                 args.accumulate);
  }
}

void forward(const CrossEntropyArgs& args, std::int64_t begin, std::int64_t end) {
  dispatch_simd_float(args.logits.dtype, [&]<class T>() { forward_rows<T>(args, begin, end); });
}

void backward(const CrossEntropyBackwardArgs& args, std::int64_t begin, std::int64_t end) {
  dispatch_simd_float(args.logits.dtype, [&]<class T>() { backward_rows<T>(args, begin, end); });
}

template <class T>
void scale_range(const T* x, float factor, T* y, bool accumulate, std::int64_t n) {
  const D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto f = hn::Set(d, factor);
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) store_lanes(d, hn::Mul(load_lanes(d, x + i), f), y + i, accumulate);
  for (; i < n; ++i) {
    const float old = accumulate ? static_cast<float>(y[i]) : 0.0F;
    y[i] = static_cast<T>(static_cast<float>(x[i]) * factor + old);
  }
}

void scale_elements(const ScaleByArgs& args, float factor, std::int64_t begin, std::int64_t end) {
  dispatch_simd_float(args.x.dtype, [&]<class T>() {
    scale_range(args.x.as<T>() + begin, factor, args.y.as<T>() + begin, args.accumulate, end - begin);
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace ingot::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ingot::kernels::cpu {
namespace {
HWY_EXPORT(forward);
HWY_EXPORT(backward);
HWY_EXPORT(scale_elements);

constexpr std::int64_t kGrainElements = 8192;  // of exp: about 5 µs

bool adjacent(const View& x) { return x.dim(-1) == 1 || x.stride(-1) == 1; }

bool accepts(const CrossEntropyArgs& args) {
  return args.logits.dtype != DType::f64 && adjacent(args.logits) &&
         (!args.dlogits || adjacent(args.dlogits));
}

bool accepts_backward(const CrossEntropyBackwardArgs& args) {
  return args.logits.dtype != DType::f64 && adjacent(args.logits) && adjacent(args.dlogits);
}

void run_forward(const CrossEntropyArgs& args, Stream) {
  parallel_for(args.logits.dim(0), kGrainElements / (args.logits.dim(1) + 1) + 1,
               [&](std::int64_t begin, std::int64_t end) {
                 HWY_DYNAMIC_DISPATCH(forward)(args, begin, end);
               });
}

void run_backward(const CrossEntropyBackwardArgs& args, Stream) {
  parallel_for(args.logits.dim(0), kGrainElements / (args.logits.dim(1) + 1) + 1,
               [&](std::int64_t begin, std::int64_t end) {
                 HWY_DYNAMIC_DISPATCH(backward)(args, begin, end);
               });
}

bool accepts_scale(const ScaleByArgs& args) {
  return is_simd_float(args.x.dtype) && args.factor.dtype == DType::f32;
}

void run_scale(const ScaleByArgs& args, Stream) {
  const float factor = args.factor.as<float>()[0];
  // A loss is mostly the root itself: its gradient is 1 and the stored gradients are already right.
  if (factor == 1.0F && !args.accumulate && args.x.data == args.y.data) return;
  parallel_for(args.x.numel(), 4 * kGrainElements, [&](std::int64_t begin, std::int64_t end) {
    HWY_DYNAMIC_DISPATCH(scale_elements)(args, factor, begin, end);
  });
}

}  // namespace

void register_loss_simd() {
  cross_entropy.add(DeviceType::cpu, {"simd", ImplKind::simd, accepts, run_forward});
  cross_entropy_backward.add(DeviceType::cpu, {"simd", ImplKind::simd, accepts_backward, run_backward});
  scale_by.add(DeviceType::cpu, {"simd", ImplKind::simd, accepts_scale, run_scale});
}

}  // namespace ingot::kernels::cpu
#endif  // HWY_ONCE
