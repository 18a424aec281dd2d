#include "ingot/kernels/squeeze_excite.h"

#include <algorithm>
#include <cmath>

#include "ingot/kernels/cpu/numeric.h"
#include "ingot/kernels/cpu/reference/mish.h"
#include "ingot/kernels/cpu/register.h"

namespace ingot::kernels::cpu {
namespace {

template <class Acc>
Acc activate(NormActivation activation, Acc z) {
  return activation == NormActivation::mish ? mish(z) : z;
}
template <class Acc>
Acc slope(NormActivation activation, Acc z) {
  return activation == NormActivation::mish ? mish_derivative(z) : Acc{1};
}

// The mean of each channel over the positions, and behind it the maximum where that is asked for.
template <class T, class Acc>
void pool_positions(const T* x, std::int64_t rows, std::int64_t channels, SqueezePool pool, Acc* pooled) {
  for (std::int64_t c = 0; c < channels; ++c) {
    Acc sum = 0, most = load(x + c);
    for (std::int64_t s = 0; s < rows; ++s) {
      const Acc value = load(x + s * channels + c);
      sum += value;
      if (value > most || std::isnan(value)) most = value;  // a NaN stays
    }
    pooled[c] = sum / static_cast<Acc>(rows);
    if (pool == SqueezePool::mean_and_max) pooled[channels + c] = most;
  }
}

void forward(const SqueezeExciteArgs& args, Stream) {
  dispatch_float(args.x.dtype, "squeeze_excite", [&]<class T>() {
    using Acc = Accumulator<T>;
    const std::int64_t rows = args.x.dim(1), channels = args.x.dim(2), reduced = args.w1.dim(0),
                       pools = pools_of(args.pool);
    for (std::int64_t n = 0; n < args.x.dim(0); ++n) {
      const T* x = args.x.as<T>() + n * rows * channels;
      Acc* pooled = args.pooled.as<Acc>() + n * pools * channels;
      Acc* hidden = args.hidden.as<Acc>() + n * pools * reduced;
      Acc* gate = args.gate.as<Acc>() + n * channels;
      pool_positions(x, rows, channels, args.pool, pooled);
      for (std::int64_t p = 0; p < pools; ++p)
        for (std::int64_t r = 0; r < reduced; ++r) {
          Acc sum = load(args.b1.as<T>() + r);
          for (std::int64_t c = 0; c < channels; ++c)
            sum += load(args.w1.as<T>() + r * channels + c) * pooled[p * channels + c];
          hidden[p * reduced + r] = std::max(sum, Acc{0});
        }
      for (std::int64_t c = 0; c < channels; ++c) {
        Acc sum = static_cast<Acc>(pools) * load(args.b2.as<T>() + c);
        for (std::int64_t i = 0; i < pools * reduced; ++i)
          sum += load(args.w2.as<T>() + c * reduced + i % reduced) * hidden[i];
        gate[c] = 1 / (1 + std::exp(-sum));
      }
      for (std::int64_t i = 0; i < rows * channels; ++i) {
        const std::int64_t at = n * rows * channels + i;
        const Acc z = load(x + i) * gate[i % channels] + load(args.residual.as<T>() + at);
        store(args.y.as<T>() + at, activate(args.activation, z));
      }
    }
  });
}

void backward(const SqueezeExciteBackwardArgs& args, Stream) {
  dispatch_float(args.x.dtype, "squeeze_excite_backward", [&]<class T>() {
    using Acc = Accumulator<T>;
    const std::int64_t rows = args.x.dim(1), channels = args.x.dim(2), reduced = args.w1.dim(0),
                       pools = pools_of(args.pool);
    Acc* dw1 = args.scratch.as<Acc>();
    Acc* db1 = dw1 + reduced * channels;
    Acc* dw2 = db1 + reduced;
    Acc* db2 = dw2 + reduced * channels;
    Acc* dz = db2 + channels;
    Acc* dgate = dz + rows * channels;
    Acc* dpooled = dgate + channels;
    Acc* sharing = dpooled + pools * channels;
    Acc* dhidden = sharing + channels;
    std::fill(dw1, dz, Acc{0});
    for (std::int64_t n = 0; n < args.x.dim(0); ++n) {
      const std::int64_t base = n * rows * channels;
      const Acc* gate = args.gate.as<Acc>() + n * channels;
      const Acc* pooled = args.pooled.as<Acc>() + n * pools * channels;
      const Acc* hidden = args.hidden.as<Acc>() + n * pools * reduced;
      const auto is_most = [&](Acc x, std::int64_t c) {
        return args.pool == SqueezePool::mean_and_max && x == pooled[channels + c];
      };
      std::fill_n(dgate, (2 + pools) * channels + pools * reduced, Acc{0});
      for (std::int64_t i = 0; i < rows * channels; ++i) {
        const Acc x = load(args.x.as<T>() + base + i);
        const Acc z = x * gate[i % channels] + load(args.residual.as<T>() + base + i);
        dz[i] = load(args.dy.as<T>() + base + i) * slope(args.activation, z);
        dgate[i % channels] += dz[i] * x;
        if (is_most(x, i % channels)) sharing[i % channels] += 1;
      }
      for (std::int64_t c = 0; c < channels; ++c) {
        dgate[c] *= gate[c] * (1 - gate[c]);
        db2[c] += static_cast<Acc>(pools) * dgate[c];
        for (std::int64_t i = 0; i < pools * reduced; ++i) {
          dhidden[i] += dgate[c] * load(args.w2.as<T>() + c * reduced + i % reduced);
          dw2[c * reduced + i % reduced] += dgate[c] * hidden[i];
        }
      }
      for (std::int64_t i = 0; i < pools * reduced; ++i) {
        if (hidden[i] <= 0) continue;
        const std::int64_t r = i % reduced, p = i / reduced;
        db1[r] += dhidden[i];
        for (std::int64_t c = 0; c < channels; ++c) {
          dw1[r * channels + c] += dhidden[i] * pooled[p * channels + c];
          dpooled[p * channels + c] += dhidden[i] * load(args.w1.as<T>() + r * channels + c);
        }
      }
      for (std::int64_t i = 0; i < rows * channels; ++i) {
        const std::int64_t c = i % channels;
        if (args.dx) {
          Acc dx = dz[i] * gate[c] + dpooled[c] / static_cast<Acc>(rows);
          if (is_most(load(args.x.as<T>() + base + i), c)) dx += dpooled[channels + c] / sharing[c];
          store(args.dx.as<T>() + base + i, dx, args.accumulate_dx);
        }
        if (args.dresidual) store(args.dresidual.as<T>() + base + i, dz[i], args.accumulate_dresidual);
      }
    }
    const auto write = [](const View& to, const Acc* sums, bool accumulate) {
      for (std::int64_t i = 0; to && i < to.numel(); ++i) store(to.as<T>() + i, sums[i], accumulate);
    };
    write(args.dw1, dw1, args.accumulate_dw1);
    write(args.db1, db1, args.accumulate_db1);
    write(args.dw2, dw2, args.accumulate_dw2);
    write(args.db2, db2, args.accumulate_db2);
  });
}

}  // namespace

void register_squeeze_excite_reference() {
  squeeze_excite.add(DeviceType::cpu, {"reference", ImplKind::reference, nullptr, forward});
  squeeze_excite_backward.add(DeviceType::cpu, {"reference", ImplKind::reference, nullptr, backward});
}

}  // namespace ingot::kernels::cpu
