#include "ingot/kernels/batch_norm.h"

#include <algorithm>
#include <cmath>

#include "ingot/base/parallel.h"
#include "ingot/kernels/cpu/channel_affine.h"
#include "ingot/kernels/cpu/register.h"
#include "ingot/kernels/cpu/simd/convert.h"
#include "ingot/kernels/cpu/tile.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ingot/kernels/cpu/simd/batch_norm.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ingot/kernels/cpu/simd/lanes-inl.h"
#include "ingot/kernels/cpu/simd/loops-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ingot::kernels::cpu {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

// Rows of channels-last samples that are summed in registers before they go to the f64 sums: they stay in L1
// while the channels are gone through.
constexpr std::int64_t kRows = 64;

// T is what x, y and their gradients are stored as: f32, bf16 or f16. All that is by channel is f32.

// sums[c] += Σ over samples [begin, end) of x, or of (x − mean)².
template <class T>
void sum_samples_of(const View& view, const float* mean, std::int64_t begin, std::int64_t end, double* sums) {
  const T* x = view.as<T>();
  const std::int64_t channels = view.dim(1), positions = view.dim(2);
  if (positions == 1) {
    for (std::int64_t n = begin; n < end; n += kRows) {
      const std::int64_t rows = std::min(kRows, end - n);
      for_vectors(channels, [&](auto d, std::int64_t c) {
        const T* p = x + n * channels + c;
        auto sum = hn::Zero(d);
        const auto shift = mean != nullptr ? hn::LoadU(d, mean + c) : hn::Zero(d);
        for (std::int64_t r = 0; r < rows; ++r, p += channels) {
          const auto v = hn::Sub(load_lanes(d, p), shift);
          sum = mean != nullptr ? hn::MulAdd(v, v, sum) : hn::Add(v, sum);
        }
        alignas(64) float lanes[HWY_MAX_BYTES / sizeof(float)];
        hn::StoreU(sum, d, lanes);
        for (std::size_t i = 0; i < hn::Lanes(d); ++i)
          sums[c + static_cast<std::int64_t>(i)] += static_cast<double>(lanes[i]);
      });
    }
    return;
  }
  for (std::int64_t n = begin; n < end; ++n) {
    for (std::int64_t c = 0; c < channels; ++c) {
      const T* p = x + (n * channels + c) * positions;
      const float m = mean != nullptr ? mean[c] : 0.0F;
      sums[c] += static_cast<double>(sum_vectors(positions, [&](auto d, std::int64_t i, auto sum) {
        const auto v = hn::Sub(load_lanes(d, p + i), hn::Set(d, m));
        return mean != nullptr ? hn::MulAdd(v, v, sum) : hn::Add(sum, v);
      }));
    }
  }
}

void sum_samples(const View& x, const float* mean, std::int64_t begin, std::int64_t end, double* sums) {
  dispatch_simd_float(x.dtype, [&]<class T>() { sum_samples_of<T>(x, mean, begin, end, sums); });
}

// sums[c] += Σ dy, sums[channels + c] += Σ dy·(x − mean).
template <class T>
void sum_gradients_of(const BatchNormBackwardArgs& args, std::int64_t begin, std::int64_t end, double* sums) {
  const T* x = args.x.as<T>();
  const T* dy = args.dy.as<T>();
  const auto* mean = args.mean.as<float>();
  const std::int64_t channels = args.x.dim(1), positions = args.x.dim(2);
  if (positions == 1) {
    for (std::int64_t n = begin; n < end; n += kRows) {
      const std::int64_t rows = std::min(kRows, end - n);
      for_vectors(channels, [&](auto d, std::int64_t c) {
        std::int64_t at = n * channels + c;
        auto s1 = hn::Zero(d), s2 = hn::Zero(d);
        const auto shift = hn::LoadU(d, mean + c);
        for (std::int64_t r = 0; r < rows; ++r, at += channels) {
          const auto g = load_lanes(d, dy + at);
          s1 = hn::Add(s1, g);
          s2 = hn::MulAdd(g, hn::Sub(load_lanes(d, x + at), shift), s2);
        }
        alignas(64) float lanes[2][HWY_MAX_BYTES / sizeof(float)];
        hn::StoreU(s1, d, lanes[0]);
        hn::StoreU(s2, d, lanes[1]);
        for (std::size_t i = 0; i < hn::Lanes(d); ++i) {
          const std::int64_t to = c + static_cast<std::int64_t>(i);
          sums[to] += static_cast<double>(lanes[0][i]);
          sums[channels + to] += static_cast<double>(lanes[1][i]);
        }
      });
    }
    return;
  }
  for (std::int64_t n = begin; n < end; ++n) {
    for (std::int64_t c = 0; c < channels; ++c) {
      const std::int64_t at = (n * channels + c) * positions;
      sums[c] += static_cast<double>(sum_vectors(positions, [&](auto d, std::int64_t i, auto sum) {
        return hn::Add(sum, load_lanes(d, dy + at + i));
      }));
      sums[channels + c] += static_cast<double>(sum_vectors(positions, [&](auto d, std::int64_t i, auto sum) {
        return hn::MulAdd(load_lanes(d, dy + at + i), hn::Sub(load_lanes(d, x + at + i), hn::Set(d, mean[c])),
                          sum);
      }));
    }
  }
}

void sum_gradients(const BatchNormBackwardArgs& args, std::int64_t begin, std::int64_t end, double* sums) {
  dispatch_simd_float(args.x.dtype, [&]<class T>() { sum_gradients_of<T>(args, begin, end, sums); });
}

template <class T>
void affine_samples_of(const ChannelAffine& a, std::int64_t begin, std::int64_t end) {
  const T* x = a.x.as<T>();
  const T* z = a.z.as<T>();
  T* y = a.y.as<T>();
  const std::int64_t channels = a.x.dim(1), positions = a.x.dim(2);
  const auto apply = [&](auto d, std::int64_t at, auto kx, auto kz, auto k0) HWY_ATTR {
    auto v = hn::MulAdd(load_lanes(d, x + at), kx, k0);
    if (z != nullptr) v = hn::MulAdd(load_lanes(d, z + at), kz, v);
    store_lanes(d, v, y + at, a.accumulate);
  };
  if (positions == 1) {
    for (std::int64_t n = begin; n < end; n += kRows) {
      const std::int64_t rows = std::min(kRows, end - n);
      for_vectors(channels, [&](auto d, std::int64_t c) {
        const auto kx = hn::LoadU(d, a.kx + c), k0 = hn::LoadU(d, a.k0 + c);
        const auto kz = z != nullptr ? hn::LoadU(d, a.kz + c) : hn::Zero(d);
        for (std::int64_t r = 0; r < rows; ++r) apply(d, (n + r) * channels + c, kx, kz, k0);
      });
    }
    return;
  }
  for (std::int64_t n = begin; n < end; ++n) {
    for (std::int64_t c = 0; c < channels; ++c) {
      const std::int64_t at = (n * channels + c) * positions;
      const float kz = z != nullptr ? a.kz[c] : 0.0F;
      for_vectors(positions, [&](auto d, std::int64_t i) {
        apply(d, at + i, hn::Set(d, a.kx[c]), hn::Set(d, kz), hn::Set(d, a.k0[c]));
      });
    }
  }
}

void affine_samples(const ChannelAffine& a, std::int64_t begin, std::int64_t end) {
  dispatch_simd_float(a.x.dtype, [&]<class T>() { affine_samples_of<T>(a, begin, end); });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace ingot::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ingot::kernels::cpu {
namespace {
HWY_EXPORT(sum_samples);
HWY_EXPORT(sum_gradients);
HWY_EXPORT(affine_samples);

constexpr std::int64_t kGrainElements = 16'384;

// Cuts the N samples of x into one part per thread and calls body(part, first sample, last sample). Returns
// the number of parts, which depends on the sizes and the number of threads only.
template <class Body>
std::int64_t for_each_part(const View& x, std::int64_t most, Body&& body) {
  const std::int64_t n = x.dim(0);
  const std::int64_t parts = std::min<std::int64_t>({most, n, 1 + x.numel() / kGrainElements});
  parallel_for(parts, 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t part = first; part < last; ++part) body(part, n * part / parts, n * (part + 1) / parts);
  });
  return parts;
}

// Each part sums into its row of scratch; the rows are added in order, into the first.
template <class Sum>
const double* sum_parts(const View& x, const View& scratch, std::int64_t width, Sum&& sum) {
  auto* sums = scratch.as<double>();
  const std::int64_t parts =
      for_each_part(x, scratch.dim(0), [&](std::int64_t part, std::int64_t begin, std::int64_t end) {
        std::fill_n(sums + part * width, width, 0.0);
        sum(begin, end, sums + part * width);
      });
  for (std::int64_t part = 1; part < parts; ++part) {
    for (std::int64_t c = 0; c < width; ++c) sums[c] += sums[part * width + c];
  }
  return sums;
}

void apply(const ChannelAffine& affine) {
  for_each_part(affine.x, num_threads(), [&](std::int64_t, std::int64_t begin, std::int64_t end) {
    HWY_DYNAMIC_DISPATCH(affine_samples)(affine, begin, end);
  });
}

template <class Args>
bool accepts(const Args& args) {
  return is_simd_float(args.x.dtype);
}

void statistics(const BatchStatisticsArgs& args, Stream) {
  const std::int64_t channels = args.x.dim(1);
  const double inverse = 1.0 / static_cast<double>(args.x.dim(0) * args.x.dim(2));
  const auto run = [&](const float* mean, float* to) {
    const double* sums =
        sum_parts(args.x, args.scratch, channels, [&](std::int64_t begin, std::int64_t end, double* into) {
          HWY_DYNAMIC_DISPATCH(sum_samples)(args.x, mean, begin, end, into);
        });
    for (std::int64_t c = 0; c < channels; ++c) to[c] = static_cast<float>(sums[c] * inverse);
  };
  run(nullptr, args.mean.as<float>());
  run(args.mean.as<float>(), args.variance.as<float>());
}

void forward(const BatchNormArgs& args, Stream) {
  const std::int64_t channels = args.x.dim(1);
  float* scale = thread_scratch(0, static_cast<std::size_t>(2 * channels));
  float* shift = scale + channels;
  for (std::int64_t c = 0; c < channels; ++c) {
    scale[c] = 1.0F / std::sqrt(args.variance.as<float>()[c] + args.eps);
    if (args.weight) scale[c] *= args.weight.as<float>()[c];
    shift[c] = (args.bias ? args.bias.as<float>()[c] : 0.0F) - args.mean.as<float>()[c] * scale[c];
  }
  apply({.x = args.x, .z = {}, .kx = scale, .k0 = shift, .y = args.y});
}

void backward(const BatchNormBackwardArgs& args, Stream) {
  const std::int64_t channels = args.x.dim(1);
  const double inverse = 1.0 / static_cast<double>(args.x.dim(0) * args.x.dim(2));
  const double* sums =
      sum_parts(args.x, args.scratch, 2 * channels, [&](std::int64_t begin, std::int64_t end, double* into) {
        HWY_DYNAMIC_DISPATCH(sum_gradients)(args, begin, end, into);
      });
  float* k_dy = thread_scratch(0, static_cast<std::size_t>(3 * channels));
  float *k_x = k_dy + channels, *k0 = k_x + channels;
  const auto add = [](const View& to, std::int64_t c, double value, bool accumulate) {
    if (to) to.as<float>()[c] = static_cast<float>(value + (accumulate ? to.as<float>()[c] : 0.0F));
  };
  for (std::int64_t c = 0; c < channels; ++c) {
    const double mean = static_cast<double>(args.mean.as<float>()[c]);
    const double rstd = 1 / std::sqrt(static_cast<double>(args.variance.as<float>()[c] + args.eps));
    const double sum_dy = sums[c], sum_dyx = sums[channels + c] * rstd;
    add(args.dbias, c, sum_dy, args.accumulate_dbias);
    add(args.dweight, c, sum_dyx, args.accumulate_dweight);
    const double scale = rstd * (args.weight ? static_cast<double>(args.weight.as<float>()[c]) : 1.0);
    k_dy[c] = static_cast<float>(scale);
    const double slope = args.own_statistics ? -scale * rstd * sum_dyx * inverse : 0.0;
    k_x[c] = static_cast<float>(slope);
    k0[c] = static_cast<float>((args.own_statistics ? -scale * sum_dy * inverse : 0.0) - slope * mean);
  }
  if (!args.dx) return;
  apply({.x = args.dy,
         .z = args.own_statistics ? args.x : View{},
         .kx = k_dy,
         .kz = k_x,
         .k0 = k0,
         .y = args.dx,
         .accumulate = args.accumulate_dx});
}

}  // namespace

void register_batch_norm_simd() {
  batch_statistics.add(DeviceType::cpu, {"simd", ImplKind::simd, accepts<BatchStatisticsArgs>, statistics});
  batch_norm.add(DeviceType::cpu, {"simd", ImplKind::simd, accepts<BatchNormArgs>, forward});
  batch_norm_backward.add(DeviceType::cpu,
                          {"simd", ImplKind::simd, accepts<BatchNormBackwardArgs>, backward});
}

}  // namespace ingot::kernels::cpu
#endif  // HWY_ONCE
