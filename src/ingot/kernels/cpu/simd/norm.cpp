#include "ingot/kernels/norm.h"

#include <cmath>
#include <cstring>

#include "ingot/base/parallel.h"
#include "ingot/kernels/cpu/register.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ingot/kernels/cpu/simd/norm.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace ingot::kernels::cpu {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;

// Σ f(i) over a row, in four independent sums so that additions overlap; the order is fixed.
template <class F>
float sum_row(std::int64_t n, F&& f) {
  const D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  auto s0 = hn::Zero(d), s1 = hn::Zero(d), s2 = hn::Zero(d), s3 = hn::Zero(d);
  std::int64_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    s0 = f(i, s0);
    s1 = f(i + lanes, s1);
    s2 = f(i + 2 * lanes, s2);
    s3 = f(i + 3 * lanes, s3);
  }
  for (; i + lanes <= n; i += lanes) s0 = f(i, s0);
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(s0, s1), hn::Add(s2, s3))));
}

void rms_norm_row(const RmsNormArgs& args, std::int64_t row) {
  const D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const std::int64_t n = args.x.dim(-1), whole = n - n % lanes;
  const float* x = args.x.as<float>() + row * n;
  const float* w = args.weight.as<float>();
  float* y = args.y.as<float>() + row * n;
  float sum = sum_row(n, [&](std::int64_t i, auto acc) {
    const auto v = hn::LoadU(d, x + i);
    return hn::MulAdd(v, v, acc);
  });
  for (std::int64_t i = whole; i < n; ++i) sum += x[i] * x[i];
  const float rstd = 1.0F / std::sqrt(sum / static_cast<float>(n) + args.eps);
  args.rstd.as<float>()[row] = rstd;
  const auto scale = hn::Set(d, rstd);
  for (std::int64_t i = 0; i < whole; i += lanes) {
    hn::StoreU(hn::Mul(hn::Mul(hn::LoadU(d, x + i), scale), hn::LoadU(d, w + i)), d, y + i);
  }
  for (std::int64_t i = whole; i < n; ++i) y[i] = x[i] * rstd * w[i];
}

void rms_norm_rows(const RmsNormArgs& args, std::int64_t begin, std::int64_t end) {
  for (std::int64_t row = begin; row < end; ++row) rms_norm_row(args, row);
}

// Adds this row's share to `dw` unless that is null.
void rms_norm_backward_row(const RmsNormBackwardArgs& args, std::int64_t row, float* dw) {
  const D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const std::int64_t n = args.x.dim(-1), whole = n - n % lanes;
  const float* x = args.x.as<float>() + row * n;
  const float* dy = args.dy.as<float>() + row * n;
  const float* w = args.weight.as<float>();
  float* dx = args.dx ? args.dx.as<float>() + row * n : nullptr;
  const float rstd = args.rstd.as<float>()[row];
  float dot = sum_row(n, [&](std::int64_t i, auto acc) {
    return hn::MulAdd(hn::Mul(hn::LoadU(d, w + i), hn::LoadU(d, dy + i)), hn::LoadU(d, x + i), acc);
  });
  for (std::int64_t i = whole; i < n; ++i) dot += w[i] * dy[i] * x[i];
  const float mean = dot * rstd / static_cast<float>(n);
  const auto rstd_v = hn::Set(d, rstd), mean_v = hn::Set(d, mean);
  for (std::int64_t i = 0; i < whole; i += lanes) {
    const auto g = hn::LoadU(d, dy + i);
    const auto normalized = hn::Mul(hn::LoadU(d, x + i), rstd_v);
    if (dx != nullptr) {
      auto out = hn::Mul(rstd_v, hn::NegMulAdd(normalized, mean_v, hn::Mul(hn::LoadU(d, w + i), g)));
      if (args.accumulate_dx) out = hn::Add(out, hn::LoadU(d, dx + i));
      hn::StoreU(out, d, dx + i);
    }
    if (dw != nullptr) hn::StoreU(hn::MulAdd(g, normalized, hn::LoadU(d, dw + i)), d, dw + i);
  }
  for (std::int64_t i = whole; i < n; ++i) {
    const float normalized = x[i] * rstd;
    if (dx != nullptr)
      dx[i] = rstd * (w[i] * dy[i] - normalized * mean) + (args.accumulate_dx ? dx[i] : 0.0F);
    if (dw != nullptr) dw[i] += dy[i] * normalized;
  }
}

void rms_norm_backward_rows(const RmsNormBackwardArgs& args, std::int64_t begin, std::int64_t end,
                            float* dw) {
  for (std::int64_t row = begin; row < end; ++row) rms_norm_backward_row(args, row, dw);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace ingot::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ingot::kernels::cpu {
namespace {
HWY_EXPORT(rms_norm_rows);
HWY_EXPORT(rms_norm_backward_rows);

constexpr std::int64_t kGrainElements =
    16384;  // about 5 µs of work, several times the cost of waking a thread

bool accepts_forward(const RmsNormArgs& args) {
  return args.x.dtype == DType::f32 && args.x.is_contiguous() && args.y.is_contiguous() &&
         args.weight.is_contiguous();
}

void forward(const RmsNormArgs& args, Stream) {
  const std::int64_t d = args.x.dim(-1);
  parallel_for(args.x.rows(), kGrainElements / (d + 1), [&](std::int64_t begin, std::int64_t end) {
    HWY_DYNAMIC_DISPATCH(rms_norm_rows)(args, begin, end);
  });
}

bool accepts_backward(const RmsNormBackwardArgs& args) {
  return args.x.dtype == DType::f32 && args.x.is_contiguous() && args.dy.is_contiguous() &&
         (!args.dx || args.dx.is_contiguous());
}

void backward(const RmsNormBackwardArgs& args, Stream) {
  const std::int64_t d = args.x.dim(-1);
  const std::int64_t rows = args.x.rows();
  // Each part sums its rows of dweight apart; the parts are then added in order, so the result does not
  // depend on which thread finished first.
  const std::int64_t parts = args.dweight ? args.partials.dim(0) : num_threads();
  parallel_for(parts, 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t part = first; part < last; ++part) {
      float* dw = args.dweight ? args.partials.as<float>() + part * d : nullptr;
      if (dw != nullptr) std::memset(dw, 0, static_cast<std::size_t>(d) * sizeof(float));
      HWY_DYNAMIC_DISPATCH(rms_norm_backward_rows)(args, rows * part / parts, rows * (part + 1) / parts, dw);
    }
  });
  for (std::int64_t i = 0; args.dweight && i < d; ++i) {
    float sum = args.accumulate_dweight ? args.dweight.as<float>()[i] : 0.0F;
    for (std::int64_t part = 0; part < parts; ++part) sum += args.partials.as<float>()[part * d + i];
    args.dweight.as<float>()[i] = sum;
  }
}

}  // namespace

void register_norm_simd() {
  rms_norm.add(DeviceType::cpu, {"simd", ImplKind::simd, accepts_forward, forward});
  rms_norm_backward.add(DeviceType::cpu, {"simd", ImplKind::simd, accepts_backward, backward});
}

}  // namespace ingot::kernels::cpu
#endif  // HWY_ONCE
