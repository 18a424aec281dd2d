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

// Means over the positions, and behind them the maxima where those are asked for (a NaN stays).
void pool_positions(const float* x, std::int64_t rows, std::int64_t channels, SqueezePool pool,
                    float* pooled) {
  const float share = 1.0F / static_cast<float>(rows);
  for_vectors(channels, [&](auto d, std::int64_t c) {
    auto sum = hn::LoadU(d, x + c), most = sum;
    for (std::int64_t s = 1; s < rows; ++s) {
      const auto v = hn::LoadU(d, x + s * channels + c);
      sum = hn::Add(sum, v);
      most = hn::IfThenElse(hn::Or(hn::Gt(v, most), hn::IsNaN(v)), v, most);
    }
    hn::StoreU(hn::Mul(sum, hn::Set(d, share)), d, pooled + c);
    if (pool == SqueezePool::mean_and_max) hn::StoreU(most, d, pooled + channels + c);
  });
}

void forward_samples(const SqueezeExciteArgs& args, std::int64_t begin, std::int64_t end) {
  const std::int64_t rows = args.x.dim(1), channels = args.x.dim(2), reduced = args.w1.dim(0),
                     pools = pools_of(args.pool);
  const float *w1 = args.w1.as<float>(), *b1 = args.b1.as<float>(), *w2 = args.w2.as<float>(),
              *b2 = args.b2.as<float>();
  for (std::int64_t n = begin; n < end; ++n) {
    const float* x = args.x.as<float>() + n * rows * channels;
    const float* residual = args.residual.as<float>() + n * rows * channels;
    float* y = args.y.as<float>() + n * rows * channels;
    float* pooled = args.pooled.as<float>() + n * pools * channels;
    float* hidden = args.hidden.as<float>() + n * pools * reduced;
    float* gate = args.gate.as<float>() + n * channels;
    pool_positions(x, rows, channels, args.pool, pooled);
    for (std::int64_t p = 0; p < pools; ++p)
      for (std::int64_t r = 0; r < reduced; ++r)
        hidden[p * reduced + r] =
            std::max(dot(w1 + r * channels, pooled + p * channels, channels) + b1[r], 0.0F);
    for (std::int64_t c = 0; c < channels; ++c) {
      gate[c] = static_cast<float>(pools) * b2[c];
      for (std::int64_t p = 0; p < pools; ++p)
        gate[c] += dot(w2 + c * reduced, hidden + p * reduced, reduced);
    }
    for_vectors(channels, [&](auto d, std::int64_t c) {
      const auto one = hn::Set(d, 1.0F);
      hn::StoreU(hn::Div(one, hn::Add(one, hn::Exp(d, hn::Neg(hn::LoadU(d, gate + c))))), d, gate + c);
    });
    for (std::int64_t s = 0; s < rows; ++s) {
      for_vectors(channels, [&](auto d, std::int64_t c) {
        const std::int64_t at = s * channels + c;
        const auto z = hn::MulAdd(hn::LoadU(d, x + at), hn::LoadU(d, gate + c), hn::LoadU(d, residual + at));
        hn::StoreU(args.activation == NormActivation::mish ? mish(d, z) : z, d, y + at);
      });
    }
  }
}

// A part's scratch; see squeeze_excite_scratch for its order.
struct BackwardScratch {
  BackwardScratch(float* own, std::int64_t rows, std::int64_t channels, std::int64_t reduced,
                  std::int64_t pools)
      : dw1(own),
        db1(dw1 + reduced * channels),
        dw2(db1 + reduced),
        db2(dw2 + reduced * channels),
        dz(db2 + channels),
        dgate(dz + rows * channels),
        dpooled(dgate + channels),
        sharing(dpooled + pools * channels),
        dhidden(sharing + channels) {}
  float *dw1, *db1, *dw2, *db2, *dz, *dgate, *dpooled, *sharing, *dhidden;
};

// dz of a sample, the gradient that reaches each channel's gate, and how many positions have its maximum.
void backward_gate(const SqueezeExciteBackwardArgs& args, std::int64_t n, const BackwardScratch& to) {
  const std::int64_t rows = args.x.dim(1), channels = args.x.dim(2), size = rows * channels;
  const bool shares = args.pool == SqueezePool::mean_and_max,
             curved = args.activation == NormActivation::mish;
  const float *x = args.x.as<float>() + n * size, *residual = args.residual.as<float>() + n * size,
              *dy = args.dy.as<float>() + n * size, *gate = args.gate.as<float>() + n * channels,
              *most = args.pooled.as<float>() + (n * pools_of(args.pool) + 1) * channels;
  for_vectors(channels, [&](auto d, std::int64_t c) {
    const auto g = hn::LoadU(d, gate + c), one = hn::Set(d, 1.0F);
    auto sum = hn::Zero(d), sharing = sum;
    for (std::int64_t at = c; at < size; at += channels) {
      const auto v = hn::LoadU(d, x + at);
      auto dz = hn::LoadU(d, dy + at);
      if (curved) dz = hn::Mul(dz, mish_derivative(d, hn::MulAdd(v, g, hn::LoadU(d, residual + at))));
      hn::StoreU(dz, d, to.dz + at);
      sum = hn::MulAdd(dz, v, sum);
      if (shares) sharing = hn::Add(sharing, hn::IfThenElseZero(hn::Eq(v, hn::LoadU(d, most + c)), one));
    }
    hn::StoreU(hn::Mul(sum, hn::Mul(g, hn::Sub(one, g))), d, to.dgate + c);  // through the sigmoid
    hn::StoreU(sharing, d, to.sharing + c);
  });
}

void backward_layers(const SqueezeExciteBackwardArgs& args, std::int64_t n, const BackwardScratch& to) {
  const std::int64_t channels = args.x.dim(2), reduced = args.w1.dim(0), pools = pools_of(args.pool);
  const float *w1 = args.w1.as<float>(), *w2 = args.w2.as<float>();
  const float* pooled = args.pooled.as<float>() + n * pools * channels;
  const float* hidden = args.hidden.as<float>() + n * pools * reduced;
  std::fill_n(to.dpooled, pools * channels, 0.0F);
  std::fill_n(to.dhidden, pools * reduced, 0.0F);
  axpy(static_cast<float>(pools), to.dgate, to.db2, channels);
  for (std::int64_t c = 0; c < channels; ++c)
    for (std::int64_t p = 0; p < pools; ++p) {
      axpy(to.dgate[c], w2 + c * reduced, to.dhidden + p * reduced, reduced);
      axpy(to.dgate[c], hidden + p * reduced, to.dw2 + c * reduced, reduced);
    }
  for (std::int64_t p = 0; p < pools; ++p)
    for (std::int64_t r = 0; r < reduced; ++r) {
      if (hidden[p * reduced + r] <= 0.0F) continue;
      const float dhidden = to.dhidden[p * reduced + r];
      to.db1[r] += dhidden;
      axpy(dhidden, pooled + p * channels, to.dw1 + r * channels, channels);
      axpy(dhidden, w1 + r * channels, to.dpooled + p * channels, channels);
    }
}

void backward_inputs(const SqueezeExciteBackwardArgs& args, std::int64_t n, const BackwardScratch& from) {
  const std::int64_t rows = args.x.dim(1), channels = args.x.dim(2), size = rows * channels;
  const bool shares = args.pool == SqueezePool::mean_and_max;
  const float *x = args.x.as<float>() + n * size, *gate = args.gate.as<float>() + n * channels,
              *most = args.pooled.as<float>() + (n * pools_of(args.pool) + 1) * channels;
  float* dx = args.dx ? args.dx.as<float>() + n * size : nullptr;
  float* dresidual = args.dresidual ? args.dresidual.as<float>() + n * size : nullptr;
  const float share = 1.0F / static_cast<float>(rows);
  for_vectors(channels, [&](auto d, std::int64_t c) {
    const auto g = hn::LoadU(d, gate + c),
               of_mean = hn::Mul(hn::LoadU(d, from.dpooled + c), hn::Set(d, share));
    auto of_most = hn::Zero(d), top = of_most;
    if (shares) {
      of_most = hn::Div(hn::LoadU(d, from.dpooled + channels + c), hn::LoadU(d, from.sharing + c));
      top = hn::LoadU(d, most + c);
    }
    for (std::int64_t at = c; at < size; at += channels) {
      const auto dz = hn::LoadU(d, from.dz + at);
      if (dx != nullptr) {
        auto out = hn::MulAdd(dz, g, of_mean);
        if (shares) out = hn::Add(out, hn::IfThenElseZero(hn::Eq(hn::LoadU(d, x + at), top), of_most));
        store_lanes(d, out, dx + at, args.accumulate_dx);
      }
      if (dresidual != nullptr) store_lanes(d, dz, dresidual + at, args.accumulate_dresidual);
    }
  });
}

void backward_samples(const SqueezeExciteBackwardArgs& args, std::int64_t begin, std::int64_t end,
                      float* own) {
  const BackwardScratch scratch(own, args.x.dim(1), args.x.dim(2), args.w1.dim(0), pools_of(args.pool));
  for (std::int64_t n = begin; n < end; ++n) {
    backward_gate(args, n, scratch);
    backward_layers(args, n, scratch);
    backward_inputs(args, n, scratch);
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
