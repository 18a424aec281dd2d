#include "ingot/kernels/weighted_roll.h"

#include <algorithm>

#include "ingot/base/parallel.h"
#include "ingot/kernels/cpu/register.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ingot/kernels/cpu/simd/weighted_roll.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace ingot::kernels::cpu {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;

// Columns [d, d + V·lanes) of one row of the sum; they stay in registers over all delays.
template <int V>
HWY_INLINE void sum_columns(const WeightedRollArgs& args, std::int64_t row, std::int64_t d) {
  const D tag;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(tag));
  const std::int64_t length = args.x.dim(1), width = args.x.dim(2), count = args.delays.dim(1);
  const std::int64_t b = row / length, t = row % length;
  const std::int64_t* delays = args.delays.as<std::int64_t>() + b * count;
  const float* weights = args.weights.as<float>() + b * count;
  const float* x = args.x.as<float>() + b * length * width + d;
  float* y = args.y.as<float>() + row * width + d;
  hn::Vec<D> sum[V];
  for (int v = 0; v < V; ++v) sum[v] = args.accumulate ? hn::LoadU(tag, y + v * lanes) : hn::Zero(tag);
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t from = t + (args.transposed ? length - delays[i] : delays[i]);
    if (from >= length) from -= length;
    const auto weight = hn::Set(tag, weights[i]);
    for (int v = 0; v < V; ++v) {
      sum[v] = hn::MulAdd(weight, hn::LoadU(tag, x + from * width + v * lanes), sum[v]);
    }
  }
  for (int v = 0; v < V; ++v) hn::StoreU(sum[v], tag, y + v * lanes);
}

void sum_rows(const WeightedRollArgs& args, std::int64_t begin, std::int64_t end) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(D()));
  const std::int64_t width = args.x.dim(2);
  for (std::int64_t row = begin; row < end; ++row) {
    std::int64_t d = 0;
    for (; d + 8 * lanes <= width; d += 8 * lanes) sum_columns<8>(args, row, d);
    for (; d < width; d += lanes) sum_columns<1>(args, row, d);
  }
}

void dots(const WeightedRollDotArgs& args, std::int64_t begin, std::int64_t end) {
  const D tag;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(tag));
  const std::int64_t length = args.x.dim(1), width = args.x.dim(2), count = args.delays.dim(1);
  // a[0, n) · b[0, n), n a multiple of the lanes; in four sums, so that additions overlap.
  const auto dot = [&](const float* a, const float* b, std::int64_t n) HWY_ATTR {
    hn::Vec<D> sum[4] = {hn::Zero(tag), hn::Zero(tag), hn::Zero(tag), hn::Zero(tag)};
    std::int64_t i = 0;
    for (; i + 4 * lanes <= n; i += 4 * lanes) {
      for (int v = 0; v < 4; ++v) {
        sum[v] = hn::MulAdd(hn::LoadU(tag, a + i + v * lanes), hn::LoadU(tag, b + i + v * lanes), sum[v]);
      }
    }
    for (; i < n; i += lanes) sum[0] = hn::MulAdd(hn::LoadU(tag, a + i), hn::LoadU(tag, b + i), sum[0]);
    return hn::GetLane(hn::SumOfLanes(tag, hn::Add(hn::Add(sum[0], sum[1]), hn::Add(sum[2], sum[3]))));
  };
  for (std::int64_t item = begin; item < end; ++item) {
    const float* x = args.x.as<float>() + item / count * length * width;
    const float* dy = args.dy.as<float>() + item / count * length * width;
    const std::int64_t delay = args.delays.as<std::int64_t>()[item];
    double sum = 0;
    for (std::int64_t t = 0; t < length; ++t) {
      const std::int64_t from = t + delay < length ? t + delay : t + delay - length;
      sum += dot(x + from * width, dy + t * width, width);
    }
    float& y = args.y.as<float>()[item];
    y = static_cast<float>(args.accumulate ? y + sum : sum);
  }
}

std::int64_t vector_lanes() { return static_cast<std::int64_t>(hn::Lanes(D())); }

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace ingot::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ingot::kernels::cpu {
namespace {
HWY_EXPORT(sum_rows);
HWY_EXPORT(dots);
HWY_EXPORT(vector_lanes);

constexpr std::int64_t kGrainProducts = 32'768;

// Rows of whole vectors: the widths of networks. Others are the reference's.
bool accepts(const View& x) {
  return x.dtype == DType::f32 && x.dim(2) % HWY_DYNAMIC_DISPATCH(vector_lanes)() == 0;
}

bool accepts_sum(const WeightedRollArgs& args) { return accepts(args.x); }

void sum(const WeightedRollArgs& args, Stream) {
  const std::int64_t products = args.x.dim(2) * args.delays.dim(1);
  parallel_for(args.x.dim(0) * args.x.dim(1), kGrainProducts / (products + 1) + 1,
               [&](std::int64_t begin, std::int64_t end) {
                 HWY_DYNAMIC_DISPATCH(sum_rows)(args, begin, end);
               });
}

bool accepts_dot(const WeightedRollDotArgs& args) { return accepts(args.x); }

void dot(const WeightedRollDotArgs& args, Stream) {
  const std::int64_t products = args.x.dim(1) * args.x.dim(2);
  parallel_for(args.x.dim(0) * args.delays.dim(1), kGrainProducts / (products + 1) + 1,
               [&](std::int64_t begin, std::int64_t end) {
                 HWY_DYNAMIC_DISPATCH(dots)
                 (args, begin, end);
               });
}

}  // namespace

void register_delay_simd() {
  weighted_roll.add(DeviceType::cpu, {"simd", ImplKind::simd, accepts_sum, sum});
  weighted_roll_dot.add(DeviceType::cpu, {"simd", ImplKind::simd, accepts_dot, dot});
}

}  // namespace ingot::kernels::cpu
#endif  // HWY_ONCE
