#include "ingot/kernels/norm.h"

#include <algorithm>
#include <cmath>

#include "ingot/kernels/cpu/numeric.h"
#include "ingot/kernels/cpu/reference/rows.h"
#include "ingot/kernels/cpu/register.h"

namespace ingot::kernels::cpu {
namespace {

// The row to normalize: x's, or x + residual, which is then also in `sum`.
template <class T, class Args>
const T* summed_row(const Args& args, std::int64_t row) {
  const std::int64_t d = args.x.dim(-1);
  const T* x = args.x.template as<T>() + row * d;
  if (!args.residual) return x;
  const T* residual = args.residual.template as<T>() + row * d;
  T* sum = args.sum.template as<T>() + row * d;
  for (std::int64_t i = 0; i < d; ++i) store(sum + i, load(x + i) + load(residual + i));
  return sum;
}

void rms_norm_reference(const RmsNormArgs& args, Stream) {
  dispatch_float(args.x.dtype, "rms_norm", [&]<class T>() {
    const std::int64_t d = args.x.dim(-1);
    for (std::int64_t row = 0; row < args.x.rows(); ++row) {
      args.rstd.as<Accumulator<T>>()[row] =
          rms_norm_row(summed_row<T>(args, row), args.weight.as<T>(), args.y.as<T>() + row * d, d, args.eps,
                       args.weight_offset);
    }
  });
}

void rms_norm_backward_reference(const RmsNormBackwardArgs& args, Stream) {
  dispatch_float(args.x.dtype, "rms_norm_backward", [&]<class T>() {
    using Acc = Accumulator<T>;
    const std::int64_t d = args.x.dim(-1);
    Acc* dw = args.dweight ? args.partials.as<Acc>() : nullptr;
    if (dw != nullptr) std::fill_n(dw, d, Acc{0});
    for (std::int64_t row = 0; row < args.x.rows(); ++row) {
      rms_norm_row_backward(RmsNormRow<T>{.x = args.x.as<T>() + row * d,
                                          .weight = args.weight.as<T>(),
                                          .dy = args.dy.as<T>() + row * d,
                                          .dx = args.dx ? args.dx.as<T>() + row * d : nullptr,
                                          .d = d,
                                          .rstd = args.rstd.as<Acc>()[row],
                                          .weight_offset = args.weight_offset,
                                          .accumulate = args.accumulate_dx},
                            dw);
    }
    for (std::int64_t i = 0; dw != nullptr && i < d; ++i) {
      store(args.dweight.as<T>() + i, dw[i], args.accumulate_dweight);
    }
  });
}

template <class T>
Accumulator<T> weight_at(const View& weight, std::int64_t i) {
  return weight ? load(weight.as<T>() + i) : Accumulator<T>{1};
}

void layer_norm_reference(const LayerNormArgs& args, Stream) {
  dispatch_float(args.x.dtype, "layer_norm", [&]<class T>() {
    using Acc = Accumulator<T>;
    const std::int64_t d = args.x.dim(-1);
    for (std::int64_t row = 0; row < args.x.rows(); ++row) {
      const T* x = summed_row<T>(args, row);
      Acc sum = 0, squares = 0;
      for (std::int64_t i = 0; i < d; ++i) sum += load(x + i);
      const Acc mean = sum / static_cast<Acc>(d);
      for (std::int64_t i = 0; i < d; ++i) squares += (load(x + i) - mean) * (load(x + i) - mean);
      const Acc rstd = 1 / std::sqrt(squares / static_cast<Acc>(d) + static_cast<Acc>(args.eps));
      args.mean.as<Acc>()[row] = mean;
      args.rstd.as<Acc>()[row] = rstd;
      for (std::int64_t i = 0; i < d; ++i) {
        const Acc bias = args.bias ? load(args.bias.as<T>() + i) : Acc{0};
        store(args.y.as<T>() + row * d + i,
              (load(x + i) - mean) * rstd * weight_at<T>(args.weight, i) + bias);
      }
    }
  });
}

// With x̂ = (x − mean)·rstd and g = w·dy: dx = rstd · (g − mean(g) − x̂ · mean(g·x̂)), dw = Σ_rows dy·x̂, db =
// Σ_rows dy.
void layer_norm_backward_reference(const LayerNormBackwardArgs& args, Stream) {
  dispatch_float(args.x.dtype, "layer_norm_backward", [&]<class T>() {
    using Acc = Accumulator<T>;
    const std::int64_t d = args.x.dim(-1);
    const bool sums = args.dweight || args.dbias;
    Acc* dw = sums ? args.partials.as<Acc>() : nullptr;
    Acc* db = sums ? dw + d : nullptr;
    if (sums) std::fill_n(dw, 2 * d, Acc{0});
    for (std::int64_t row = 0; row < args.x.rows(); ++row) {
      const T* x = args.x.as<T>() + row * d;
      const T* dy = args.dy.as<T>() + row * d;
      const Acc mean = args.mean.as<Acc>()[row], rstd = args.rstd.as<Acc>()[row];
      Acc sum = 0, dot = 0;
      for (std::int64_t i = 0; i < d; ++i) {
        const Acc g = weight_at<T>(args.weight, i) * load(dy + i);
        sum += g;
        dot += g * (load(x + i) - mean) * rstd;
      }
      for (std::int64_t i = 0; i < d; ++i) {
        const Acc normalized = (load(x + i) - mean) * rstd;
        const Acc g = weight_at<T>(args.weight, i) * load(dy + i);
        if (args.dx) {
          store(args.dx.as<T>() + row * d + i,
                rstd * (g - sum / static_cast<Acc>(d) - normalized * dot / static_cast<Acc>(d)),
                args.accumulate_dx);
        }
        if (sums) {
          dw[i] += load(dy + i) * normalized;
          db[i] += load(dy + i);
        }
      }
    }
    for (std::int64_t i = 0; i < d; ++i) {
      if (args.dweight) store(args.dweight.as<T>() + i, dw[i], args.accumulate_dweight);
      if (args.dbias) store(args.dbias.as<T>() + i, db[i], args.accumulate_dbias);
    }
  });
}

}  // namespace

void register_norm_reference() {
  layer_norm.add(DeviceType::cpu, {"reference", ImplKind::reference, nullptr, layer_norm_reference});
  layer_norm_backward.add(DeviceType::cpu,
                          {"reference", ImplKind::reference, nullptr, layer_norm_backward_reference});
  rms_norm.add(DeviceType::cpu, {"reference", ImplKind::reference, nullptr, rms_norm_reference});
  rms_norm_backward.add(DeviceType::cpu,
                        {"reference", ImplKind::reference, nullptr, rms_norm_backward_reference});
}

}  // namespace ingot::kernels::cpu
