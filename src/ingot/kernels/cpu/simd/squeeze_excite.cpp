#include "ingot/kernels/squeeze_excite.h"

#include <algorithm>
#include <cmath>

#include "ingot/base/parallel.h"
#include "ingot/kernels/cpu/add_partials.h"
#include "ingot/kernels/cpu/register.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ingot/kernels/cpu/simd/squeeze_excite.cpp"
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

float dot(const float* a, const float* b, std::int64_t n) {
  return sum_vectors(n, [&](auto d, std::int64_t i, auto sum) {
    return hn::MulAdd(hn::LoadU(d, a + i), hn::LoadU(d, b + i), sum);
  });
}

// y += k · x
void axpy(float k, const float* x, float* y, std::int64_t n) {
  for_vectors(n, [&](auto d, std::int64_t i) {
    hn::StoreU(hn::MulAdd(hn::Set(d, k), hn::LoadU(d, x + i), hn::LoadU(d, y + i)), d, y + i);
  });
}

void forward_samples(const SqueezeExciteArgs& args, std::int64_t begin, std::int64_t end) {
  const std::int64_t rows = args.x.dim(1), channels = args.x.dim(2), reduced = args.w1.dim(0);
  for (std::int64_t n = begin; n < end; ++n) {
    const float* x = args.x.as<float>() + n * rows * channels;
    const float* residual = args.residual.as<float>() + n * rows * channels;
    float* y = args.y.as<float>() + n * rows * channels;
    float* pooled = args.pooled.as<float>() + n * channels;
    float* hidden = args.hidden.as<float>() + n * reduced;
    float* gate = args.gate.as<float>() + n * channels;
    std::fill_n(pooled, channels, 0.0F);
    for (std::int64_t s = 0; s < rows; ++s)
      axpy(1.0F / static_cast<float>(rows), x + s * channels, pooled, channels);
    for (std::int64_t r = 0; r < reduced; ++r) {
      const float value = dot(args.w1.as<float>() + r * channels, pooled, channels) + args.b1.as<float>()[r];
      hidden[r] = std::max(value, 0.0F);
    }
    for (std::int64_t c = 0; c < channels; ++c) {
      gate[c] = dot(args.w2.as<float>() + c * reduced, hidden, reduced) + args.b2.as<float>()[c];
    }
    for_vectors(channels, [&](auto d, std::int64_t c) {
      const auto one = hn::Set(d, 1.0F);
      hn::StoreU(hn::Div(one, hn::Add(one, hn::Exp(d, hn::Neg(hn::LoadU(d, gate + c))))), d, gate + c);
    });
    for (std::int64_t s = 0; s < rows; ++s) {
      for_vectors(channels, [&](auto d, std::int64_t c) {
        const std::int64_t at = s * channels + c;
        const auto z = hn::MulAdd(hn::LoadU(d, x + at), hn::LoadU(d, gate + c), hn::LoadU(d, residual + at));
        hn::StoreU(mish(d, z), d, y + at);
      });
    }
  }
}

// `own` is this part's scratch; see squeeze_excite_scratch for its order.
void backward_samples(const SqueezeExciteBackwardArgs& args, std::int64_t begin, std::int64_t end,
                      float* own) {
  const std::int64_t rows = args.x.dim(1), channels = args.x.dim(2), reduced = args.w1.dim(0);
  float* dw1 = own;
  float* db1 = dw1 + reduced * channels;
  float* dw2 = db1 + reduced;
  float* db2 = dw2 + reduced * channels;
  float* dz = db2 + channels;
  float* dgate = dz + rows * channels;
  float* dpooled = dgate + channels;
  float* dhidden = dpooled + channels;
  for (std::int64_t n = begin; n < end; ++n) {
    const float* x = args.x.as<float>() + n * rows * channels;
    const float* residual = args.residual.as<float>() + n * rows * channels;
    const float* dy = args.dy.as<float>() + n * rows * channels;
    const float* pooled = args.pooled.as<float>() + n * channels;
    const float* hidden = args.hidden.as<float>() + n * reduced;
    const float* gate = args.gate.as<float>() + n * channels;
    std::fill_n(dgate, 2 * channels + reduced, 0.0F);
    for (std::int64_t s = 0; s < rows; ++s) {
      for_vectors(channels, [&](auto d, std::int64_t c) {
        const std::int64_t at = s * channels + c;
        const auto v = hn::LoadU(d, x + at);
        const auto z = hn::MulAdd(v, hn::LoadU(d, gate + c), hn::LoadU(d, residual + at));
        const auto g = hn::Mul(hn::LoadU(d, dy + at), mish_derivative(d, z));
        hn::StoreU(g, d, dz + at);
        hn::StoreU(hn::MulAdd(g, v, hn::LoadU(d, dgate + c)), d, dgate + c);
      });
    }
    for_vectors(channels, [&](auto d, std::int64_t c) {  // through the sigmoid
      const auto g = hn::LoadU(d, gate + c);
      const auto slope = hn::Mul(g, hn::Sub(hn::Set(d, 1.0F), g));
      hn::StoreU(hn::Mul(hn::LoadU(d, dgate + c), slope), d, dgate + c);
    });
    axpy(1.0F, dgate, db2, channels);
    for (std::int64_t c = 0; c < channels; ++c) {
      axpy(dgate[c], args.w2.as<float>() + c * reduced, dhidden, reduced);
      axpy(dgate[c], hidden, dw2 + c * reduced, reduced);
    }
    for (std::int64_t r = 0; r < reduced; ++r) {
      if (hidden[r] <= 0.0F) continue;
      db1[r] += dhidden[r];
      axpy(dhidden[r], pooled, dw1 + r * channels, channels);
      axpy(dhidden[r] / static_cast<float>(rows), args.w1.as<float>() + r * channels, dpooled, channels);
    }
    float* dx = args.dx ? args.dx.as<float>() + n * rows * channels : nullptr;
    float* dresidual = args.dresidual ? args.dresidual.as<float>() + n * rows * channels : nullptr;
    for (std::int64_t s = 0; s < rows; ++s) {
      for_vectors(channels, [&](auto d, std::int64_t c) {
        const std::int64_t at = s * channels + c;
        const auto g = hn::LoadU(d, dz + at);
        if (dx != nullptr) {
          const auto out = hn::MulAdd(g, hn::LoadU(d, gate + c), hn::LoadU(d, dpooled + c));
          store_lanes(d, out, dx + at, args.accumulate_dx);
        }
        if (dresidual != nullptr) store_lanes(d, g, dresidual + at, args.accumulate_dresidual);
      });
    }
  }
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

bool accepts_forward(const SqueezeExciteArgs& args) { return args.x.dtype == DType::f32; }

void forward(const SqueezeExciteArgs& args, Stream) {
  const std::int64_t size = args.x.dim(1) * args.x.dim(2);
  parallel_for(args.x.dim(0), kGrainElements / (size + 1), [&](std::int64_t begin, std::int64_t end) {
    HWY_DYNAMIC_DISPATCH(forward_samples)(args, begin, end);
  });
}

bool accepts_backward(const SqueezeExciteBackwardArgs& args) { return args.x.dtype == DType::f32; }

void backward(const SqueezeExciteBackwardArgs& args, Stream) {
  const std::int64_t n = args.x.dim(0), channels = args.x.dim(2), reduced = args.w1.dim(0);
  const std::int64_t parts = std::max<std::int64_t>(1, std::min(args.scratch.dim(0), n));
  const std::int64_t stride = args.scratch.dim(1), sums = 2 * reduced * channels + reduced + channels;
  float* scratch = args.scratch.as<float>();
  parallel_for(parts, 1 + kGrainElements / (1 + args.x.numel() / parts),
               [&](std::int64_t first, std::int64_t last) {
                 for (std::int64_t part = first; part < last; ++part) {
                   std::fill_n(scratch + part * stride, sums, 0.0F);
                   HWY_DYNAMIC_DISPATCH(backward_samples)
                   (args, n * part / parts, n * (part + 1) / parts, scratch + part * stride);
                 }
               });
  const auto collect = [&](const View& to, std::int64_t size, bool accumulate) {
    add_partials(to, scratch, parts, stride, accumulate);
    scratch += size;
  };
  collect(args.dw1, reduced * channels, args.accumulate_dw1);
  collect(args.db1, reduced, args.accumulate_db1);
  collect(args.dw2, reduced * channels, args.accumulate_dw2);
  collect(args.db2, channels, args.accumulate_db2);
}

}  // namespace

void register_squeeze_excite_simd() {
  squeeze_excite.add(DeviceType::cpu, {"simd", ImplKind::simd, accepts_forward, forward});
  squeeze_excite_backward.add(DeviceType::cpu, {"simd", ImplKind::simd, accepts_backward, backward});
}

}  // namespace ingot::kernels::cpu
#endif  // HWY_ONCE
