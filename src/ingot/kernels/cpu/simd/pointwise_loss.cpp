#include <algorithm>

#include "ingot/base/parallel.h"
#include "ingot/kernels/cpu/register.h"
#include "ingot/kernels/cpu/simd/blocks.h"
#include "ingot/kernels/loss.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ingot/kernels/cpu/simd/pointwise_loss.cpp"
#include <hwy/foreach_target.h>

#include "ingot/kernels/cpu/simd/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ingot::kernels::cpu {
namespace HWY_NAMESPACE {
namespace {

// Binary cross-entropy of probabilities stays with the reference: it is rare, and its logs have limits of
// their own.
void loss_block(PointwiseLoss kind, float delta, const float* x, const float* target, float* y,
                std::int64_t n) {
  const V bound = set(delta), half = set(0.5F);
  const auto run = [&](auto f) HWY_ATTR { map<2>({x, target}, y, n, false, f); };
  switch (kind) {
    case PointwiseLoss::mse:
      return run([](V a, V t) HWY_ATTR {
        const V d = hn::Sub(a, t);
        return hn::Mul(d, d);
      });
    case PointwiseLoss::l1:
      return run([](V a, V t) HWY_ATTR { return hn::Abs(hn::Sub(a, t)); });
    case PointwiseLoss::huber:
      return run([=](V a, V t) HWY_ATTR {
        const V d = hn::Sub(a, t), size = hn::Abs(d);
        const V square = hn::Mul(half, hn::Mul(d, d)),
                line = hn::Mul(bound, hn::NegMulAdd(half, bound, size));
        return hn::IfThenElse(hn::Gt(size, bound), line, square);
      });
    default:
      return run([](V a, V t) HWY_ATTR { return hn::NegMulAdd(a, t, softplus(a)); });
  }
}

// y (+)= dloss·factor·slope, with dloss per element or (null) 1; the slope by x, or by the target.
void slope_block(const PointwiseLossBackwardArgs& args, bool by_target, float factor, const float* x,
                 const float* target, const float* dloss, float* y, std::int64_t n, bool accumulate) {
  const D d;
  const V bound = set(args.delta), one = set(1.0F), zero = hn::Zero(d);
  const V scale = set(by_target && args.kind != PointwiseLoss::bce_with_logits ? -factor : factor);
  const auto run = [&](auto slope) HWY_ATTR {
    if (dloss == nullptr) {
      map<2>({x, target}, y, n, accumulate, [=](V a, V t) HWY_ATTR { return hn::Mul(scale, slope(a, t)); });
    } else {
      map<3>({x, target, dloss}, y, n, accumulate,
             [=](V a, V t, V g) HWY_ATTR { return hn::Mul(hn::Mul(scale, g), slope(a, t)); });
    }
  };
  switch (args.kind) {
    case PointwiseLoss::mse:
      return run([](V a, V t) HWY_ATTR {
        const V difference = hn::Sub(a, t);
        return hn::Add(difference, difference);
      });
    case PointwiseLoss::l1:
      return run([=](V a, V t) HWY_ATTR {
        const V difference = hn::Sub(a, t);
        return hn::IfThenElse(hn::Eq(difference, zero), zero, hn::CopySign(one, difference));
      });
    case PointwiseLoss::huber:
      return run([=](V a, V t) HWY_ATTR {  // in this order a NaN stays
        return hn::Min(bound, hn::Max(hn::Neg(bound), hn::Sub(a, t)));
      });
    default:
      if (by_target) return run([](V a, V) HWY_ATTR { return hn::Neg(a); });
      return run([](V a, V t) HWY_ATTR { return hn::Sub(sigmoid(a), t); });
  }
}

// Σ loss over [begin, end), in pieces whose losses stay in L1.
double loss_sum(const PointwiseLossArgs& args, std::int64_t begin, std::int64_t end) {
  constexpr std::int64_t kPiece = 1024;
  alignas(64) float losses[kPiece];
  const D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  double total = 0;
  for (std::int64_t i = begin; i < end; i += kPiece) {
    const std::int64_t n = std::min(kPiece, end - i);
    loss_block(args.kind, args.delta, args.x.as<float>() + i, args.target.as<float>() + i, losses, n);
    std::fill(losses + n, losses + (n + lanes - 1) / lanes * lanes, 0.0F);
    V sum = hn::Zero(d);
    for (std::int64_t k = 0; k < n; k += lanes) sum = hn::Add(sum, hn::LoadU(d, losses + k));
    total += static_cast<double>(hn::GetLane(hn::SumOfLanes(d, sum)));
  }
  return total;
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace ingot::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ingot::kernels::cpu {
namespace {
HWY_EXPORT(loss_block);
HWY_EXPORT(slope_block);
HWY_EXPORT(loss_sum);

constexpr std::int64_t kGrain = 16384;  // elements, about 5 µs

bool accepts(const PointwiseLossArgs& args) {
  if (args.kind == PointwiseLoss::bce) return false;
  return args.partials ? args.x.dtype == DType::f32 : are_simd_floats(args.x, args.target, args.loss);
}

void run(const PointwiseLossArgs& args, Stream) {
  if (!args.partials) {
    for_each_block<3>({reads(args.x), reads(args.target), writes(args.loss, false)}, kGrain,
                      [&](const auto& p, std::int64_t n) {
                        HWY_DYNAMIC_DISPATCH(loss_block)(args.kind, args.delta, p[0], p[1], p[2], n);
                      });
    return;
  }
  // Each part sums its elements apart, then the parts are added in order.
  const std::int64_t n = args.x.numel(), parts = n <= kGrain ? 1 : args.partials.dim(0);
  float* partials = args.partials.as<float>();
  parallel_for(parts, 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t part = first; part < last; ++part) {
      partials[part] =
          static_cast<float>(HWY_DYNAMIC_DISPATCH(loss_sum)(args, n * part / parts, n * (part + 1) / parts));
    }
  });
  double sum = 0;
  for (std::int64_t part = 0; part < parts; ++part) sum += static_cast<double>(partials[part]);
  args.loss.as<float>()[0] = static_cast<float>(sum * args.scale);
}

bool accepts_backward(const PointwiseLossBackwardArgs& args) {
  return args.kind != PointwiseLoss::bce &&
         are_simd_floats(args.x, args.target, args.dloss, args.dx, args.dtarget);
}

void gradient(const PointwiseLossBackwardArgs& args, bool by_target, const View& to, bool accumulate) {
  if (!to) return;
  const bool reduced = args.dloss.rank == 0;
  const auto factor = static_cast<float>(args.scale) * (reduced ? args.dloss.as<float>()[0] : 1.0F);
  for_each_block<4>(
      {reads(args.x), reads(args.target), reads(reduced ? View{} : args.dloss), writes(to, accumulate)},
      kGrain, [&](const auto& p, std::int64_t n) {
        HWY_DYNAMIC_DISPATCH(slope_block)
        (args, by_target, factor, p[0], p[1], p[2], p[3], n, accumulate);
      });
}

void run_backward(const PointwiseLossBackwardArgs& args, Stream) {
  gradient(args, false, args.dx, args.accumulate_dx);
  gradient(args, true, args.dtarget, args.accumulate_dtarget);
}

}  // namespace

void register_pointwise_loss_simd() {
  pointwise_loss.add(DeviceType::cpu, {"simd", ImplKind::simd, accepts, run});
  pointwise_loss_backward.add(DeviceType::cpu, {"simd", ImplKind::simd, accepts_backward, run_backward});
}

}  // namespace ingot::kernels::cpu
#endif  // HWY_ONCE
