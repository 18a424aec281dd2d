#include "ingot/kernels/group_norm.h"

#include <algorithm>
#include <cmath>

#include "ingot/base/parallel.h"
#include "ingot/kernels/cpu/add_partials.h"
#include "ingot/kernels/cpu/register.h"
#include "ingot/kernels/cpu/simd/convert.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ingot/kernels/cpu/simd/group_norm.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ingot/kernels/cpu/simd/lanes-inl.h"
#include "ingot/kernels/cpu/simd/loops-inl.h"
#include "ingot/kernels/cpu/simd/mish-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ingot::kernels::cpu {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

// T is what x, y, their gradients, weight and bias are stored as: f32, bf16 or f16. All else is f32.

// out = act(x · scale + shift), element by element along channels, or with one scale for a run.
template <class T>
void affine_rows(const T* x, const float* scale, const float* shift, bool mish_after, std::int64_t rows,
                 std::int64_t channels, T* y) {
  for (std::int64_t s = 0; s < rows; ++s) {
    const T* in = x + s * channels;
    T* out = y + s * channels;
    for_vectors(channels, [&](auto d, std::int64_t c) {
      const auto u = hn::MulAdd(load_lanes(d, in + c), hn::LoadU(d, scale + c), hn::LoadU(d, shift + c));
      store_lanes(d, mish_after ? mish(d, u) : u, out + c);
    });
  }
}

template <class T>
void affine_run(const T* x, float scale, float shift, bool mish_after, std::int64_t n, T* y) {
  for_vectors(n, [&](auto d, std::int64_t i) {
    const auto u = hn::MulAdd(load_lanes(d, x + i), hn::Set(d, scale), hn::Set(d, shift));
    store_lanes(d, mish_after ? mish(d, u) : u, y + i);
  });
}

// sums[c] = Σ_s x[s, c] / sums[c] = Σ_s (x[s, c] − mean[c])².
template <class T>
void channel_sums(const T* x, std::int64_t rows, std::int64_t channels, float* sums) {
  std::fill_n(sums, channels, 0.0F);
  for (std::int64_t s = 0; s < rows; ++s) {
    for_vectors(channels, [&](auto d, std::int64_t c) {
      hn::StoreU(hn::Add(hn::LoadU(d, sums + c), load_lanes(d, x + s * channels + c)), d, sums + c);
    });
  }
}
template <class T>
void channel_squares(const T* x, const float* mean, std::int64_t rows, std::int64_t channels, float* sums) {
  std::fill_n(sums, channels, 0.0F);
  for (std::int64_t s = 0; s < rows; ++s) {
    for_vectors(channels, [&](auto d, std::int64_t c) {
      const auto v = hn::Sub(load_lanes(d, x + s * channels + c), hn::LoadU(d, mean + c));
      hn::StoreU(hn::MulAdd(v, v, hn::LoadU(d, sums + c)), d, sums + c);
    });
  }
}

template <class T>
void forward_last(const GroupNormArgs& args, std::int64_t n, float* scratch) {
  const std::int64_t rows = args.x.dim(1), channels = args.x.dim(2), groups = args.groups;
  const std::int64_t width = channels / groups;
  const float inverse = 1.0F / static_cast<float>(rows * width);
  const T* x = args.x.as<T>() + n * rows * channels;
  const T* weight = args.weight.as<T>();
  const T* bias = args.bias.as<T>();
  float* sums = scratch;
  float* scale = scratch + channels;
  float* shift = scratch + 2 * channels;  // the mean, until the variance is known
  channel_sums(x, rows, channels, sums);
  for (std::int64_t g = 0; g < groups; ++g) {
    float sum = 0;
    for (std::int64_t c = g * width; c < (g + 1) * width; ++c) sum += sums[c];
    args.mean.as<float>()[n * groups + g] = sum * inverse;
    std::fill_n(shift + g * width, width, sum * inverse);
  }
  channel_squares(x, shift, rows, channels, sums);
  for (std::int64_t g = 0; g < groups; ++g) {
    float sum = 0;
    for (std::int64_t c = g * width; c < (g + 1) * width; ++c) sum += sums[c];
    const float rstd = 1.0F / std::sqrt(sum * inverse + args.eps);
    args.rstd.as<float>()[n * groups + g] = rstd;
    for (std::int64_t c = g * width; c < (g + 1) * width; ++c) {
      scale[c] = static_cast<float>(weight[c]) * rstd;
      shift[c] = static_cast<float>(bias[c]) - shift[c] * scale[c];
    }
  }
  affine_rows(x, scale, shift, args.activation == NormActivation::mish, rows, channels,
              args.y.as<T>() + n * rows * channels);
}

template <class T>
void forward_first(const GroupNormArgs& args, std::int64_t n) {
  const std::int64_t channels = args.x.dim(1), length = args.x.dim(2), groups = args.groups;
  const std::int64_t width = channels / groups, size = width * length;
  const bool mish_after = args.activation == NormActivation::mish;
  for (std::int64_t g = 0; g < groups; ++g) {
    const T* x = args.x.as<T>() + (n * groups + g) * size;
    T* y = args.y.as<T>() + (n * groups + g) * size;
    const auto add = [&](auto d, std::int64_t i, auto sum) { return hn::Add(sum, load_lanes(d, x + i)); };
    const float mean = sum_vectors(size, add) / static_cast<float>(size);
    const float square = sum_vectors(size, [&](auto d, std::int64_t i, auto sum) {
      const auto v = hn::Sub(load_lanes(d, x + i), hn::Set(d, mean));
      return hn::MulAdd(v, v, sum);
    });
    const float rstd = 1.0F / std::sqrt(square / static_cast<float>(size) + args.eps);
    args.mean.as<float>()[n * groups + g] = mean;
    args.rstd.as<float>()[n * groups + g] = rstd;
    for (std::int64_t i = 0; i < width; ++i) {
      const std::int64_t c = g * width + i;
      const float scale = static_cast<float>(args.weight.as<T>()[c]) * rstd;
      const float shift = static_cast<float>(args.bias.as<T>()[c]) - mean * scale;
      affine_run(x + i * length, scale, shift, mish_after, length, y + i * length);
    }
  }
}

void forward_samples(const GroupNormArgs& args, std::int64_t begin, std::int64_t end, float* scratch) {
  dispatch_simd_float(args.x.dtype, [&]<class T>() {
    for (std::int64_t n = begin; n < end; ++n) {
      args.channels_last ? forward_last<T>(args, n, scratch) : forward_first<T>(args, n);
    }
  });
}

// dx = du·k1 + x·k2 + k3 of one register.
template <class D, class V, class U, class T>
HWY_INLINE void store_gradient(D d, const U* du, const T* x, V k1, V k2, V k3, T* dx, bool accumulate) {
  const auto out = hn::MulAdd(load_lanes(d, x), k2, hn::MulAdd(load_lanes(d, du), k1, k3));
  store_lanes(d, out, dx, accumulate);
}

// With x̂ = (x − mean)·rstd, u = x̂·w + b and du = dy·act'(u):
// dx = rstd · (w·du − mean_group(w·du) − x̂ · mean_group(w·du·x̂)), dw = Σ du·x̂, db = Σ du.
// dx comes as du·k1 + x·k2 + k3 with one k of each kind per channel.
template <class T>
void backward_last(const GroupNormBackwardArgs& args, std::int64_t n, float* dweight, float* dbias,
                   float* scratch) {
  const std::int64_t rows = args.x.dim(1), channels = args.x.dim(2), groups = args.groups;
  const std::int64_t width = channels / groups;
  const bool mish_after = args.activation == NormActivation::mish;
  const T* x = args.x.as<T>() + n * rows * channels;
  const T* dy = args.dy.as<T>() + n * rows * channels;
  const T* weight = args.weight.as<T>();
  const T* bias = args.bias.as<T>();
  float* du = scratch;
  float* sum_du = scratch + rows * channels;
  float* sum_dux = sum_du + channels;
  float* rstd = sum_dux + channels;
  float* offset = rstd + channels;  // −mean · rstd
  float* k3 = offset + channels;
  std::fill_n(sum_du, 2 * channels, 0.0F);
  for (std::int64_t c = 0; c < channels; ++c) {
    rstd[c] = args.rstd.as<float>()[n * groups + c / width];
    offset[c] = -args.mean.as<float>()[n * groups + c / width] * rstd[c];
  }
  for (std::int64_t s = 0; s < rows; ++s) {
    for_vectors(channels, [&](auto d, std::int64_t c) {
      const std::int64_t at = s * channels + c;
      const auto hat = hn::MulAdd(load_lanes(d, x + at), hn::LoadU(d, rstd + c), hn::LoadU(d, offset + c));
      auto g = load_lanes(d, dy + at);
      if (mish_after) {
        const auto u = hn::MulAdd(hat, load_lanes(d, weight + c), load_lanes(d, bias + c));
        g = hn::Mul(g, mish_derivative(d, u));
        hn::StoreU(g, d, du + at);
      }
      hn::StoreU(hn::Add(g, hn::LoadU(d, sum_du + c)), d, sum_du + c);
      hn::StoreU(hn::MulAdd(g, hat, hn::LoadU(d, sum_dux + c)), d, sum_dux + c);
    });
  }
  for (std::int64_t c = 0; c < channels; ++c) {
    dbias[c] += sum_du[c];
    dweight[c] += sum_dux[c];
  }
  if (!args.dx) return;
  const float inverse = 1.0F / static_cast<float>(rows * width);
  float* k1 = sum_du;
  float* k2 = sum_dux;
  for (std::int64_t g = 0; g < groups; ++g) {
    float s1 = 0, s2 = 0;
    for (std::int64_t c = g * width; c < (g + 1) * width; ++c) {
      s1 += static_cast<float>(weight[c]) * sum_du[c];
      s2 += static_cast<float>(weight[c]) * sum_dux[c];
    }
    for (std::int64_t c = g * width; c < (g + 1) * width; ++c) {
      k1[c] = static_cast<float>(weight[c]) * rstd[c];
      k2[c] = -rstd[c] * rstd[c] * s2 * inverse;
      k3[c] = -rstd[c] * (s1 + offset[c] * s2) * inverse;
    }
  }
  T* dx = args.dx.as<T>() + n * rows * channels;
  const auto store = [&](const auto* gradient) {
    for (std::int64_t s = 0; s < rows; ++s) {
      for_vectors(channels, [&](auto d, std::int64_t c) {
        const std::int64_t at = s * channels + c;
        store_gradient(d, gradient + at, x + at, hn::LoadU(d, k1 + c), hn::LoadU(d, k2 + c),
                       hn::LoadU(d, k3 + c), dx + at, args.accumulate_dx);
      });
    }
  };
  mish_after ? store(du) : store(dy);
}

template <class T>
void backward_first(const GroupNormBackwardArgs& args, std::int64_t n, float* dweight, float* dbias,
                    float* scratch) {
  const std::int64_t channels = args.x.dim(1), length = args.x.dim(2), groups = args.groups;
  const std::int64_t width = channels / groups;
  const bool mish_after = args.activation == NormActivation::mish;
  for (std::int64_t g = 0; g < groups; ++g) {
    const float rstd = args.rstd.as<float>()[n * groups + g];
    const float offset = -args.mean.as<float>()[n * groups + g] * rstd;
    float s1 = 0, s2 = 0;
    for (std::int64_t c = g * width; c < (g + 1) * width; ++c) {
      const T* x = args.x.as<T>() + (n * channels + c) * length;
      const T* dy = args.dy.as<T>() + (n * channels + c) * length;
      const auto w = static_cast<float>(args.weight.as<T>()[c]), b = static_cast<float>(args.bias.as<T>()[c]);
      float* du = scratch + c * length;
      for_vectors(length, [&](auto d, std::int64_t i) {
        auto v = load_lanes(d, dy + i);
        if (mish_after) {
          const auto hat = hn::MulAdd(load_lanes(d, x + i), hn::Set(d, rstd), hn::Set(d, offset));
          v = hn::Mul(v, mish_derivative(d, hn::MulAdd(hat, hn::Set(d, w), hn::Set(d, b))));
        }
        hn::StoreU(v, d, du + i);
      });
      const float sum_du = sum_vectors(
          length, [&](auto d, std::int64_t i, auto sum) { return hn::Add(sum, hn::LoadU(d, du + i)); });
      const float sum_dux = sum_vectors(length, [&](auto d, std::int64_t i, auto sum) {
        const auto hat = hn::MulAdd(load_lanes(d, x + i), hn::Set(d, rstd), hn::Set(d, offset));
        return hn::MulAdd(hn::LoadU(d, du + i), hat, sum);
      });
      dbias[c] += sum_du;
      dweight[c] += sum_dux;
      s1 += w * sum_du;
      s2 += w * sum_dux;
    }
    if (!args.dx) continue;
    const float inverse = 1.0F / static_cast<float>(width * length);
    for (std::int64_t c = g * width; c < (g + 1) * width; ++c) {
      const T* x = args.x.as<T>() + (n * channels + c) * length;
      const float* du = scratch + c * length;
      T* dx = args.dx.as<T>() + (n * channels + c) * length;
      const float k1 = static_cast<float>(args.weight.as<T>()[c]) * rstd;
      const float k2 = -rstd * rstd * s2 * inverse;
      const float k3 = -rstd * (s1 + offset * s2) * inverse;
      for_vectors(length, [&](auto d, std::int64_t i) {
        store_gradient(d, du + i, x + i, hn::Set(d, k1), hn::Set(d, k2), hn::Set(d, k3), dx + i,
                       args.accumulate_dx);
      });
    }
  }
}

void backward_samples(const GroupNormBackwardArgs& args, std::int64_t begin, std::int64_t end, float* dweight,
                      float* dbias, float* scratch) {
  dispatch_simd_float(args.x.dtype, [&]<class T>() {
    for (std::int64_t n = begin; n < end; ++n) {
      args.channels_last ? backward_last<T>(args, n, dweight, dbias, scratch)
                         : backward_first<T>(args, n, dweight, dbias, scratch);
    }
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace ingot::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ingot::kernels::cpu {
namespace {
HWY_EXPORT(forward_samples);
HWY_EXPORT(backward_samples);

constexpr std::int64_t kGrainElements = 16'384;

bool accepts_forward(const GroupNormArgs& args) { return is_simd_float(args.x.dtype); }

void forward(const GroupNormArgs& args, Stream) {
  const std::int64_t n = args.x.dim(0), size = args.x.dim(1) * args.x.dim(2);
  const std::int64_t parts =
      std::min<std::int64_t>({num_threads(), n, 1 + n * size / kGrainElements, args.scratch.dim(0)});
  parallel_for(parts, 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t part = first; part < last; ++part) {
      HWY_DYNAMIC_DISPATCH(forward_samples)
      (args, n * part / parts, n * (part + 1) / parts, args.scratch.as<float>() + part * args.scratch.dim(1));
    }
  });
}

bool accepts_backward(const GroupNormBackwardArgs& args) { return is_simd_float(args.x.dtype); }

// Every part sums its samples of dweight and dbias at the start of its scratch; the parts are added in order.
void backward(const GroupNormBackwardArgs& args, Stream) {
  const std::int64_t n = args.x.dim(0), channels = args.weight.dim(0);
  const std::int64_t parts = std::max<std::int64_t>(1, std::min(args.scratch.dim(0), n));
  const std::int64_t stride = args.scratch.dim(1);
  float* scratch = args.scratch.as<float>();
  parallel_for(parts, 1 + kGrainElements / (1 + args.x.numel() / parts),
               [&](std::int64_t first, std::int64_t last) {
                 for (std::int64_t part = first; part < last; ++part) {
                   float* own = scratch + part * stride;
                   std::fill_n(own, 2 * channels, 0.0F);
                   HWY_DYNAMIC_DISPATCH(backward_samples)
                   (args, n * part / parts, n * (part + 1) / parts, own, own + channels, own + 2 * channels);
                 }
               });
  add_partials(args.dweight, scratch, parts, stride, args.accumulate_dweight);
  add_partials(args.dbias, scratch + channels, parts, stride, args.accumulate_dbias);
}

}  // namespace

void register_group_norm_simd() {
  group_norm.add(DeviceType::cpu, {"simd", ImplKind::simd, accepts_forward, forward});
  group_norm_backward.add(DeviceType::cpu, {"simd", ImplKind::simd, accepts_backward, backward});
}

}  // namespace ingot::kernels::cpu
#endif  // HWY_ONCE
