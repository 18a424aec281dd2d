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
  const auto scale = hn::Set(d, rstd), offset = hn::Set(d, args.weight_offset);
  for (std::int64_t i = 0; i < whole; i += lanes) {
    const auto weight = hn::Add(offset, hn::LoadU(d, w + i));
    hn::StoreU(hn::Mul(hn::Mul(hn::LoadU(d, x + i), scale), weight), d, y + i);
  }
  for (std::int64_t i = whole; i < n; ++i) y[i] = x[i] * rstd * (args.weight_offset + w[i]);
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
  const float rstd = args.rstd.as<float>()[row], offset = args.weight_offset;
  const auto offset_v = hn::Set(d, offset);
  const auto weighted = [&](std::int64_t i) {
    return hn::Mul(hn::Add(offset_v, hn::LoadU(d, w + i)), hn::LoadU(d, dy + i));
  };
  float dot =
      sum_row(n, [&](std::int64_t i, auto acc) { return hn::MulAdd(weighted(i), hn::LoadU(d, x + i), acc); });
  for (std::int64_t i = whole; i < n; ++i) dot += (offset + w[i]) * dy[i] * x[i];
  const float mean = dot * rstd / static_cast<float>(n);
  const auto rstd_v = hn::Set(d, rstd), mean_v = hn::Set(d, mean);
  for (std::int64_t i = 0; i < whole; i += lanes) {
    const auto g = hn::LoadU(d, dy + i);
    const auto normalized = hn::Mul(hn::LoadU(d, x + i), rstd_v);
    if (dx != nullptr) {
      auto out = hn::Mul(rstd_v, hn::NegMulAdd(normalized, mean_v, weighted(i)));
      if (args.accumulate_dx) out = hn::Add(out, hn::LoadU(d, dx + i));
      hn::StoreU(out, d, dx + i);
    }
    if (dw != nullptr) hn::StoreU(hn::MulAdd(g, normalized, hn::LoadU(d, dw + i)), d, dw + i);
  }
  for (std::int64_t i = whole; i < n; ++i) {
    const float normalized = x[i] * rstd;
    if (dx != nullptr)
      dx[i] = rstd * ((offset + w[i]) * dy[i] - normalized * mean) + (args.accumulate_dx ? dx[i] : 0.0F);
    if (dw != nullptr) dw[i] += dy[i] * normalized;
  }
}

void rms_norm_backward_rows(const RmsNormBackwardArgs& args, std::int64_t begin, std::int64_t end,
                            float* dw) {
  for (std::int64_t row = begin; row < end; ++row) rms_norm_backward_row(args, row, dw);
}

void layer_norm_row(const LayerNormArgs& args, std::int64_t row) {
  const D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const std::int64_t n = args.x.dim(-1), whole = n - n % lanes;
  const float* x = args.x.as<float>() + row * n;
  const float* w = args.weight.as<float>();
  const float* b = args.bias.as<float>();
  float* y = args.y.as<float>() + row * n;
  float sum = sum_row(n, [&](std::int64_t i, auto acc) { return hn::Add(acc, hn::LoadU(d, x + i)); });
  for (std::int64_t i = whole; i < n; ++i) sum += x[i];
  const float mean = sum / static_cast<float>(n);
  const auto mean_v = hn::Set(d, mean);
  // A second pass over the row, which is in cache, instead of E[x²] − E[x]²: that cancels when |mean| is
  // large.
  float squares = sum_row(n, [&](std::int64_t i, auto acc) {
    const auto centred = hn::Sub(hn::LoadU(d, x + i), mean_v);
    return hn::MulAdd(centred, centred, acc);
  });
  for (std::int64_t i = whole; i < n; ++i) squares += (x[i] - mean) * (x[i] - mean);
  const float rstd = 1.0F / std::sqrt(squares / static_cast<float>(n) + args.eps);
  args.mean.as<float>()[row] = mean;
  args.rstd.as<float>()[row] = rstd;
  const auto rstd_v = hn::Set(d, rstd);
  for (std::int64_t i = 0; i < whole; i += lanes) {
    auto v = hn::Mul(hn::Sub(hn::LoadU(d, x + i), mean_v), rstd_v);
    if (w != nullptr) v = hn::Mul(v, hn::LoadU(d, w + i));
    if (b != nullptr) v = hn::Add(v, hn::LoadU(d, b + i));
    hn::StoreU(v, d, y + i);
  }
  for (std::int64_t i = whole; i < n; ++i) {
    y[i] = (x[i] - mean) * rstd * (w != nullptr ? w[i] : 1.0F) + (b != nullptr ? b[i] : 0.0F);
  }
}

void layer_norm_rows(const LayerNormArgs& args, std::int64_t begin, std::int64_t end) {
  for (std::int64_t row = begin; row < end; ++row) layer_norm_row(args, row);
}

// Adds this row's share to `dw` and `db` unless they are null.
void layer_norm_backward_row(const LayerNormBackwardArgs& args, std::int64_t row, float* dw, float* db) {
  const D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const std::int64_t n = args.x.dim(-1), whole = n - n % lanes;
  const float* x = args.x.as<float>() + row * n;
  const float* dy = args.dy.as<float>() + row * n;
  const float* w = args.weight.as<float>();
  float* dx = args.dx ? args.dx.as<float>() + row * n : nullptr;
  const float mean = args.mean.as<float>()[row], rstd = args.rstd.as<float>()[row];
  const auto mean_v = hn::Set(d, mean), rstd_v = hn::Set(d, rstd);
  const auto gradient = [&](std::int64_t i) {
    const auto g = hn::LoadU(d, dy + i);
    return w != nullptr ? hn::Mul(g, hn::LoadU(d, w + i)) : g;
  };
  const auto normalized = [&](std::int64_t i) {
    return hn::Mul(hn::Sub(hn::LoadU(d, x + i), mean_v), rstd_v);
  };
  float sum = sum_row(n, [&](std::int64_t i, auto acc) { return hn::Add(acc, gradient(i)); });
  float dot =
      sum_row(n, [&](std::int64_t i, auto acc) { return hn::MulAdd(gradient(i), normalized(i), acc); });
  for (std::int64_t i = whole; i < n; ++i) {
    const float g = dy[i] * (w != nullptr ? w[i] : 1.0F);
    sum += g;
    dot += g * (x[i] - mean) * rstd;
  }
  const float mean_g = sum / static_cast<float>(n), mean_dot = dot / static_cast<float>(n);
  const auto mean_g_v = hn::Set(d, mean_g), mean_dot_v = hn::Set(d, mean_dot);
  for (std::int64_t i = 0; i < whole; i += lanes) {
    const auto hat = normalized(i);
    if (dx != nullptr) {
      auto out = hn::Mul(rstd_v, hn::NegMulAdd(hat, mean_dot_v, hn::Sub(gradient(i), mean_g_v)));
      if (args.accumulate_dx) out = hn::Add(out, hn::LoadU(d, dx + i));
      hn::StoreU(out, d, dx + i);
    }
    if (dw != nullptr) {
      const auto g = hn::LoadU(d, dy + i);
      hn::StoreU(hn::MulAdd(g, hat, hn::LoadU(d, dw + i)), d, dw + i);
      hn::StoreU(hn::Add(g, hn::LoadU(d, db + i)), d, db + i);
    }
  }
  for (std::int64_t i = whole; i < n; ++i) {
    const float hat = (x[i] - mean) * rstd, g = dy[i] * (w != nullptr ? w[i] : 1.0F);
    if (dx != nullptr) dx[i] = rstd * (g - mean_g - hat * mean_dot) + (args.accumulate_dx ? dx[i] : 0.0F);
    if (dw != nullptr) {
      dw[i] += dy[i] * hat;
      db[i] += dy[i];
    }
  }
}

void layer_norm_backward_rows(const LayerNormBackwardArgs& args, std::int64_t begin, std::int64_t end,
                              float* dw, float* db) {
  for (std::int64_t row = begin; row < end; ++row) layer_norm_backward_row(args, row, dw, db);
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
HWY_EXPORT(layer_norm_rows);
HWY_EXPORT(layer_norm_backward_rows);

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

// Adds up what the parts summed, in their order.
void reduce_parts(const View& to, const float* partials, std::int64_t parts, std::int64_t stride,
                  bool accumulate) {
  for (std::int64_t i = 0; i < to.dim(0); ++i) {
    float sum = accumulate ? to.as<float>()[i] : 0.0F;
    for (std::int64_t part = 0; part < parts; ++part) sum += partials[part * stride + i];
    to.as<float>()[i] = sum;
  }
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
  if (args.dweight) reduce_parts(args.dweight, args.partials.as<float>(), parts, d, args.accumulate_dweight);
}

bool accepts_layer_norm(const LayerNormArgs& args) {
  return args.x.dtype == DType::f32 && args.x.is_contiguous() && args.y.is_contiguous();
}

void layer_norm_forward(const LayerNormArgs& args, Stream) {
  parallel_for(args.x.rows(), kGrainElements / (args.x.dim(-1) + 1),
               [&](std::int64_t begin, std::int64_t end) {
                 HWY_DYNAMIC_DISPATCH(layer_norm_rows)(args, begin, end);
               });
}

bool accepts_layer_norm_backward(const LayerNormBackwardArgs& args) {
  return args.x.dtype == DType::f32 && args.x.is_contiguous() && args.dy.is_contiguous() &&
         (!args.dx || args.dx.is_contiguous());
}

void layer_norm_backward_all(const LayerNormBackwardArgs& args, Stream) {
  const std::int64_t d = args.x.dim(-1), rows = args.x.rows();
  const bool sums = args.dweight || args.dbias;
  const std::int64_t parts = sums ? args.partials.dim(0) : num_threads();
  parallel_for(parts, 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t part = first; part < last; ++part) {
      float* dw = sums ? args.partials.as<float>() + part * 2 * d : nullptr;
      if (sums) std::memset(dw, 0, static_cast<std::size_t>(2 * d) * sizeof(float));
      HWY_DYNAMIC_DISPATCH(layer_norm_backward_rows)
      (args, rows * part / parts, rows * (part + 1) / parts, dw, sums ? dw + d : nullptr);
    }
  });
  if (args.dweight)
    reduce_parts(args.dweight, args.partials.as<float>(), parts, 2 * d, args.accumulate_dweight);
  if (args.dbias)
    reduce_parts(args.dbias, args.partials.as<float>() + d, parts, 2 * d, args.accumulate_dbias);
}

}  // namespace

void register_norm_simd() {
  layer_norm.add(DeviceType::cpu, {"simd", ImplKind::simd, accepts_layer_norm, layer_norm_forward});
  layer_norm_backward.add(DeviceType::cpu,
                          {"simd", ImplKind::simd, accepts_layer_norm_backward, layer_norm_backward_all});
  rms_norm.add(DeviceType::cpu, {"simd", ImplKind::simd, accepts_forward, forward});
  rms_norm_backward.add(DeviceType::cpu, {"simd", ImplKind::simd, accepts_backward, backward});
}

}  // namespace ingot::kernels::cpu
#endif  // HWY_ONCE
