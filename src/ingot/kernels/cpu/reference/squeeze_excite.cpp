#include "ingot/kernels/squeeze_excite.h"

#include <algorithm>
#include <cmath>

#include "ingot/kernels/cpu/numeric.h"
#include "ingot/kernels/cpu/reference/mish.h"
#include "ingot/kernels/cpu/register.h"

namespace ingot::kernels::cpu {
namespace {

void forward(const SqueezeExciteArgs& args, Stream) {
  dispatch_float(args.x.dtype, "squeeze_excite", [&]<class T>() {
    using Acc = Accumulator<T>;
    const std::int64_t rows = args.x.dim(1), channels = args.x.dim(2), reduced = args.w1.dim(0);
    for (std::int64_t n = 0; n < args.x.dim(0); ++n) {
      const T* x = args.x.as<T>() + n * rows * channels;
      Acc* pooled = args.pooled.as<Acc>() + n * channels;
      Acc* hidden = args.hidden.as<Acc>() + n * reduced;
      Acc* gate = args.gate.as<Acc>() + n * channels;
      for (std::int64_t c = 0; c < channels; ++c) {
        Acc sum = 0;
        for (std::int64_t s = 0; s < rows; ++s) sum += load(x + s * channels + c);
        pooled[c] = sum / static_cast<Acc>(rows);
      }
      for (std::int64_t r = 0; r < reduced; ++r) {
        Acc sum = load(args.b1.as<T>() + r);
        for (std::int64_t c = 0; c < channels; ++c)
          sum += load(args.w1.as<T>() + r * channels + c) * pooled[c];
        hidden[r] = std::max(sum, Acc{0});
      }
      for (std::int64_t c = 0; c < channels; ++c) {
        Acc sum = load(args.b2.as<T>() + c);
        for (std::int64_t r = 0; r < reduced; ++r) sum += load(args.w2.as<T>() + c * reduced + r) * hidden[r];
        gate[c] = 1 / (1 + std::exp(-sum));
      }
      for (std::int64_t i = 0; i < rows * channels; ++i) {
        const std::int64_t at = n * rows * channels + i;
        store(args.y.as<T>() + at, mish(load(x + i) * gate[i % channels] + load(args.residual.as<T>() + at)));
      }
    }
  });
}

void backward(const SqueezeExciteBackwardArgs& args, Stream) {
  dispatch_float(args.x.dtype, "squeeze_excite_backward", [&]<class T>() {
    using Acc = Accumulator<T>;
    const std::int64_t rows = args.x.dim(1), channels = args.x.dim(2), reduced = args.w1.dim(0);
    Acc* dw1 = args.scratch.as<Acc>();
    Acc* db1 = dw1 + reduced * channels;
    Acc* dw2 = db1 + reduced;
    Acc* db2 = dw2 + reduced * channels;
    Acc* dz = db2 + channels;
    Acc* dgate = dz + rows * channels;
    Acc* dpooled = dgate + channels;
    Acc* dhidden = dpooled + channels;
    std::fill(dw1, dz, Acc{0});
    for (std::int64_t n = 0; n < args.x.dim(0); ++n) {
      const std::int64_t base = n * rows * channels;
      const Acc* gate = args.gate.as<Acc>() + n * channels;
      const Acc* hidden = args.hidden.as<Acc>() + n * reduced;
      std::fill_n(dgate, 2 * channels + reduced, Acc{0});
      for (std::int64_t i = 0; i < rows * channels; ++i) {
        const Acc x = load(args.x.as<T>() + base + i);
        const Acc z = x * gate[i % channels] + load(args.residual.as<T>() + base + i);
        dz[i] = load(args.dy.as<T>() + base + i) * mish_derivative(z);
        dgate[i % channels] += dz[i] * x;
      }
      for (std::int64_t c = 0; c < channels; ++c) {
        dgate[c] *= gate[c] * (1 - gate[c]);
        db2[c] += dgate[c];
        for (std::int64_t r = 0; r < reduced; ++r) {
          dhidden[r] += dgate[c] * load(args.w2.as<T>() + c * reduced + r);
          dw2[c * reduced + r] += dgate[c] * hidden[r];
        }
      }
      for (std::int64_t r = 0; r < reduced; ++r) {
        if (hidden[r] <= 0) continue;
        db1[r] += dhidden[r];
        for (std::int64_t c = 0; c < channels; ++c) {
          dw1[r * channels + c] += dhidden[r] * args.pooled.as<Acc>()[n * channels + c];
          dpooled[c] += dhidden[r] * load(args.w1.as<T>() + r * channels + c);
        }
      }
      for (std::int64_t i = 0; i < rows * channels; ++i) {
        const std::int64_t c = i % channels;
        if (args.dx) {
          store(args.dx.as<T>() + base + i, dz[i] * gate[c] + dpooled[c] / static_cast<Acc>(rows),
                args.accumulate_dx);
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
