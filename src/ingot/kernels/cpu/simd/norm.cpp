#include "ingot/kernels/norm.h"

#include <cmath>
#include <cstring>

#include "ingot/base/parallel.h"
#include "ingot/kernels/cpu/add_partials.h"
#include "ingot/kernels/cpu/register.h"
#include "ingot/kernels/cpu/simd/convert.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ingot/kernels/cpu/simd/norm.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ingot/kernels/cpu/simd/lanes-inl.h"
#include "ingot/kernels/cpu/simd/loops-inl.h"
#include "ingot/kernels/cpu/simd/rms_row-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ingot::kernels::cpu {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

// T is what rows and weights are stored as: f32, bf16 or f16. Statistics and sums are f32 for all three.

// The row to normalize: x's, or x + residual, which is then also in `sum`.
template <class T, class Args>
HWY_INLINE const T* summed_row(const Args& args, std::int64_t row) {
  const std::int64_t n = args.x.dim(-1);
  const T* x = args.x.template as<T>() + row * n;
  if (!args.residual) return x;
  const T* residual = args.residual.template as<T>() + row * n;
  T* sum = args.sum.template as<T>() + row * n;
  for_vectors(n, [&](auto d, std::int64_t i) {
    store_lanes(d, hn::Add(load_lanes(d, x + i), load_lanes(d, residual + i)), sum + i);
  });
  return sum;
}

template <class T>
void rms_norm_row(const RmsNormArgs& args, std::int64_t row) {
  const std::int64_t n = args.x.dim(-1);
  const T* x = summed_row<T>(args, row);
  const float rstd = rms_rstd(x, n, args.eps);
  args.rstd.as<float>()[row] = rstd;
  rms_scale(x, args.weight.as<T>(), n, rstd, args.weight_offset, args.y.as<T>() + row * n);
}

void rms_norm_rows(const RmsNormArgs& args, std::int64_t begin, std::int64_t end) {
  dispatch_simd_float(args.x.dtype, [&]<class T>() {
    for (std::int64_t row = begin; row < end; ++row) rms_norm_row<T>(args, row);
  });
}

template <class T>
void rms_norm_backward_row(const RmsNormBackwardArgs& args, std::int64_t row, float* dw) {
  const std::int64_t at = row * args.x.dim(-1);
  rms_row_backward(RmsRow<T>{.x = args.x.as<T>() + at,
                             .weight = args.weight.as<T>(),
                             .dy = args.dy.as<T>() + at,
                             .dx = args.dx ? args.dx.as<T>() + at : nullptr,
                             .n = args.x.dim(-1),
                             .rstd = args.rstd.as<float>()[row],
                             .weight_offset = args.weight_offset,
                             .accumulate = args.accumulate_dx},
                   dw);
}

void rms_norm_backward_rows(const RmsNormBackwardArgs& args, std::int64_t begin, std::int64_t end,
                            float* dw) {
  dispatch_simd_float(args.x.dtype, [&]<class T>() {
    for (std::int64_t row = begin; row < end; ++row) rms_norm_backward_row<T>(args, row, dw);
  });
}

template <class T>
void layer_norm_row(const LayerNormArgs& args, std::int64_t row) {
  const std::int64_t n = args.x.dim(-1);
  const T* x = summed_row<T>(args, row);
  const T* w = args.weight.as<T>();
  const T* b = args.bias.as<T>();
  T* y = args.y.as<T>() + row * n;
  const auto add = [&](auto d, std::int64_t i, auto sum) { return hn::Add(sum, load_lanes(d, x + i)); };
  const float mean = sum_vectors(n, add) / static_cast<float>(n);
  // A second pass over the row, which is in cache, instead of E[x²] − E[x]²: that cancels when |mean| is
  // large.
  const float squares = sum_vectors(n, [&](auto d, std::int64_t i, auto sum) {
    const auto centred = hn::Sub(load_lanes(d, x + i), hn::Set(d, mean));
    return hn::MulAdd(centred, centred, sum);
  });
  const float rstd = 1.0F / std::sqrt(squares / static_cast<float>(n) + args.eps);
  args.mean.as<float>()[row] = mean;
  args.rstd.as<float>()[row] = rstd;
  for_vectors(n, [&](auto d, std::int64_t i) {
    auto v = hn::Mul(hn::Sub(load_lanes(d, x + i), hn::Set(d, mean)), hn::Set(d, rstd));
    if (w != nullptr) v = hn::Mul(v, load_lanes(d, w + i));
    if (b != nullptr) v = hn::Add(v, load_lanes(d, b + i));
    store_lanes(d, v, y + i);
  });
}

void layer_norm_rows(const LayerNormArgs& args, std::int64_t begin, std::int64_t end) {
  dispatch_simd_float(args.x.dtype, [&]<class T>() {
    for (std::int64_t row = begin; row < end; ++row) layer_norm_row<T>(args, row);
  });
}

// Adds this row's share to `dw` and `db` unless they are null.
template <class T>
void layer_norm_backward_row(const LayerNormBackwardArgs& args, std::int64_t row, float* dw, float* db) {
  const std::int64_t n = args.x.dim(-1);
  const T* x = args.x.as<T>() + row * n;
  const T* dy = args.dy.as<T>() + row * n;
  const T* w = args.weight.as<T>();
  T* dx = args.dx ? args.dx.as<T>() + row * n : nullptr;
  const float mean = args.mean.as<float>()[row], rstd = args.rstd.as<float>()[row];
  const auto gradient = [&](auto d, std::int64_t i) {
    const auto g = load_lanes(d, dy + i);
    return w != nullptr ? hn::Mul(g, load_lanes(d, w + i)) : g;
  };
  const auto normalized = [&](auto d, std::int64_t i) {
    return hn::Mul(hn::Sub(load_lanes(d, x + i), hn::Set(d, mean)), hn::Set(d, rstd));
  };
  const auto inverse = 1.0F / static_cast<float>(n);
  const float mean_g = inverse * sum_vectors(n, [&](auto d, std::int64_t i, auto sum) {
                         return hn::Add(sum, gradient(d, i));
                       });
  const float mean_dot = inverse * sum_vectors(n, [&](auto d, std::int64_t i, auto sum) {
                           return hn::MulAdd(gradient(d, i), normalized(d, i), sum);
                         });
  for_vectors(n, [&](auto d, std::int64_t i) {
    const auto hat = normalized(d, i);
    if (dx != nullptr) {
      const auto centred = hn::Sub(gradient(d, i), hn::Set(d, mean_g));
      const auto out = hn::Mul(hn::Set(d, rstd), hn::NegMulAdd(hat, hn::Set(d, mean_dot), centred));
      store_lanes(d, out, dx + i, args.accumulate_dx);
    }
    if (dw != nullptr) {
      const auto g = load_lanes(d, dy + i);
      hn::StoreU(hn::MulAdd(g, hat, hn::LoadU(d, dw + i)), d, dw + i);
      hn::StoreU(hn::Add(g, hn::LoadU(d, db + i)), d, db + i);
    }
  });
}

void layer_norm_backward_rows(const LayerNormBackwardArgs& args, std::int64_t begin, std::int64_t end,
                              float* dw, float* db) {
  dispatch_simd_float(args.x.dtype, [&]<class T>() {
    for (std::int64_t row = begin; row < end; ++row) layer_norm_backward_row<T>(args, row, dw, db);
  });
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
  return is_simd_float(args.x.dtype) && args.x.is_contiguous() && args.y.is_contiguous() &&
         args.weight.is_contiguous() && (!args.residual || args.residual.is_contiguous());
}

void forward(const RmsNormArgs& args, Stream) {
  const std::int64_t d = args.x.dim(-1);
  parallel_for(args.x.rows(), kGrainElements / (d + 1), [&](std::int64_t begin, std::int64_t end) {
    HWY_DYNAMIC_DISPATCH(rms_norm_rows)(args, begin, end);
  });
}

bool accepts_backward(const RmsNormBackwardArgs& args) {
  return is_simd_float(args.x.dtype) && args.x.is_contiguous() && args.dy.is_contiguous() &&
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
  add_partials(args.dweight, args.partials.as<float>(), parts, d, args.accumulate_dweight);
}

bool accepts_layer_norm(const LayerNormArgs& args) {
  return is_simd_float(args.x.dtype) && args.x.is_contiguous() && args.y.is_contiguous() &&
         (!args.residual || args.residual.is_contiguous());
}

void layer_norm_forward(const LayerNormArgs& args, Stream) {
  parallel_for(args.x.rows(), kGrainElements / (args.x.dim(-1) + 1),
               [&](std::int64_t begin, std::int64_t end) {
                 HWY_DYNAMIC_DISPATCH(layer_norm_rows)(args, begin, end);
               });
}

bool accepts_layer_norm_backward(const LayerNormBackwardArgs& args) {
  return is_simd_float(args.x.dtype) && args.x.is_contiguous() && args.dy.is_contiguous() &&
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
  if (!sums) return;
  add_partials(args.dweight, args.partials.as<float>(), parts, 2 * d, args.accumulate_dweight);
  add_partials(args.dbias, args.partials.as<float>() + d, parts, 2 * d, args.accumulate_dbias);
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
