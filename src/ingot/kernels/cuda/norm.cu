#include <algorithm>

#include "ingot/kernels/cuda/register.h"
#include "ingot/kernels/cuda/team.h"
#include "ingot/kernels/gemm.h"
#include "ingot/kernels/norm.h"

namespace ingot::kernels::cuda {
namespace {

// What is normalised: x, or where there is a residual their sum, rounded and written to `sum`.
template <class T>
struct NormInput {
  const T *x, *residual;  // residual: may be null
  T* sum;

  __device__ float take(std::int64_t at) const {
    if (residual == nullptr) return to_float(x[at]);
    sum[at] = from_float<T>(to_float(x[at]) + to_float(residual[at]));
    return to_float(sum[at]);
  }
  /// Again, for the thread that took it.
  __device__ float again(std::int64_t at) const { return to_float(residual == nullptr ? x[at] : sum[at]); }
};

template <class T, int size>
__global__ void rms_norm_kernel(const __grid_constant__ NormInput<T> x, const T* weight, T* y, float* rstd,
                                std::int64_t rows, std::int64_t d, float eps, float offset) {
  for (std::int64_t row = Team<size>::first_row(); row < rows; row += Team<size>::row_step()) {
    float sum = 0;
    for (std::int64_t i = Team<size>::lane(); i < d; i += size) {
      const float v = x.take(row * d + i);
      sum += v * v;
    }
    const float r = 1.0F / sqrtf(Team<size>::sum(sum) / static_cast<float>(d) + eps);
    if (Team<size>::lane() == 0) rstd[row] = r;
    for (std::int64_t i = Team<size>::lane(); i < d; i += size)
      y[row * d + i] = from_float<T>(x.again(row * d + i) * r * (offset + to_float(weight[i])));
  }
}

template <class T>
struct NormBackward {
  const T *x, *weight, *dy;
  const float *mean, *rstd;  // mean: null for rms_norm
  T* dx;                     // may be null
  float* parts;              // [gridDim.x, 2 with bias, d], or null
  std::int64_t rows, d;
  float offset;
  bool accumulate_dx, bias;
};

// With x̂ = (x − mean)·rstd and g = w·dy: dx = rstd · (g − mean(g) − x̂ · mean(g·x̂)); without a mean its term
// falls away. A team sums dw = Σ dy·x̂ and db = Σ dy of its rows in a part of its own: each thread reads and
// writes only the columns that are its, so nothing has to be synchronised.
template <class T, int size>
__global__ void norm_backward_kernel(const __grid_constant__ NormBackward<T> args) {
  const std::int64_t d = args.d, stride = args.bias ? 2 * d : d;
  float* part = args.parts == nullptr ? nullptr : args.parts + Team<size>::first_row() * stride;
  bool first = true;
  for (std::int64_t row = Team<size>::first_row(); row < args.rows; row += Team<size>::row_step()) {
    const std::int64_t begin = row * d;
    const float mean = args.mean == nullptr ? 0.0F : args.mean[row], rstd = args.rstd[row];
    const auto weight = [&](std::int64_t i) {
      return args.weight == nullptr ? 1.0F : args.offset + to_float(args.weight[i]);
    };
    float sum = 0, dot = 0;
    for (std::int64_t i = Team<size>::lane(); i < d; i += size) {
      const float g = weight(i) * to_float(args.dy[begin + i]);
      sum += g;
      dot += g * (to_float(args.x[begin + i]) - mean) * rstd;
    }
    sum = args.mean == nullptr ? 0.0F : Team<size>::sum(sum) / static_cast<float>(d);
    dot = Team<size>::sum(dot) / static_cast<float>(d);
    for (std::int64_t i = Team<size>::lane(); i < d; i += size) {
      const float dy = to_float(args.dy[begin + i]);
      const float normalized = (to_float(args.x[begin + i]) - mean) * rstd;
      if (args.dx != nullptr)
        store(args.dx + begin + i, rstd * (weight(i) * dy - sum - normalized * dot), args.accumulate_dx);
      if (part == nullptr) continue;
      part[i] = first ? dy * normalized : part[i] + dy * normalized;
      if (args.bias) part[d + i] = first ? dy : part[d + i] + dy;
    }
    first = false;
  }
}

template <class T, int size>
__global__ void layer_norm_kernel(const __grid_constant__ NormInput<T> x, const T* weight, const T* bias,
                                  T* y, float* mean, float* rstd, std::int64_t rows, std::int64_t d,
                                  float eps) {
  for (std::int64_t row = Team<size>::first_row(); row < rows; row += Team<size>::row_step()) {
    const std::int64_t begin = row * d;
    float sum = 0, squares = 0;
    for (std::int64_t i = Team<size>::lane(); i < d; i += size) sum += x.take(begin + i);
    const float m = Team<size>::sum(sum) / static_cast<float>(d);
    for (std::int64_t i = Team<size>::lane(); i < d; i += size) {
      const float apart = x.again(begin + i) - m;
      squares += apart * apart;
    }
    const float r = 1.0F / sqrtf(Team<size>::sum(squares) / static_cast<float>(d) + eps);
    if (Team<size>::lane() == 0) {
      mean[row] = m;
      rstd[row] = r;
    }
    for (std::int64_t i = Team<size>::lane(); i < d; i += size) {
      const float w = weight == nullptr ? 1.0F : to_float(weight[i]);
      const float b = bias == nullptr ? 0.0F : to_float(bias[i]);
      y[begin + i] = from_float<T>((x.again(begin + i) - m) * r * w + b);
    }
  }
}

void run_rms_norm(const RmsNormArgs& args, Stream stream) {
  for_rows("rms_norm", stream, args.x, [&]<class T, int size>(Size3 grid, Size3 block) {
    launch({"rms_norm", stream, args.x}, rms_norm_kernel<T, size>, grid, block, 0,
           NormInput<T>{args.x.as<T>(), args.residual.as<T>(), args.sum.as<T>()}, args.weight.as<T>(),
           args.y.as<T>(), args.rstd.as<float>(), args.x.rows(), args.x.dim(-1), args.eps,
           args.weight_offset);
  });
}

void run_layer_norm(const LayerNormArgs& args, Stream stream) {
  for_rows("layer_norm", stream, args.x, [&]<class T, int size>(Size3 grid, Size3 block) {
    launch({"layer_norm", stream, args.x}, layer_norm_kernel<T, size>, grid, block, 0,
           NormInput<T>{args.x.as<T>(), args.residual.as<T>(), args.sum.as<T>()}, args.weight.as<T>(),
           args.bias.as<T>(), args.y.as<T>(), args.mean.as<float>(), args.rstd.as<float>(), args.x.rows(),
           args.x.dim(-1), args.eps);
  });
}

template <class T>
void backward(const LaunchSite& site, NormBackward<T> args, const View& partials, const View& dweight,
              const View& dbias, bool accumulate_dweight, bool accumulate_dbias) {
  // As many blocks as there are parts to sum in, where sums are wanted.
  const std::int64_t most = partials ? partials.dim(0) : grid_for(site.stream.device, args.rows, 1, 32);
  const auto blocks = static_cast<int>(std::min(most, args.rows));
  const auto run = [&]<int size>() {
    static_assert(Team<size>::kTeams == 1);
    launch(site, norm_backward_kernel<T, size>, Size3{static_cast<unsigned>(blocks)}, Size3{size}, 0, args);
  };
  if (blocks > 0 && args.d <= 1024) run.template operator()<128>();
  if (blocks > 0 && args.d > 1024) run.template operator()<512>();
  const std::int64_t stride = args.bias ? 2 * args.d : args.d;
  if (dweight) sum_parts(site, args.parts, blocks, args.d, stride, dweight.as<T>(), accumulate_dweight);
  if (dbias) sum_parts(site, args.parts + args.d, blocks, args.d, stride, dbias.as<T>(), accumulate_dbias);
}

void run_rms_norm_backward(const RmsNormBackwardArgs& args, Stream stream) {
  dispatch_device_float(args.x.dtype, "rms_norm_backward", [&]<class T>() {
    const NormBackward<T> kernel_args{.x = args.x.as<T>(),
                                      .weight = args.weight.as<T>(),
                                      .dy = args.dy.as<T>(),
                                      .mean = nullptr,
                                      .rstd = args.rstd.as<float>(),
                                      .dx = args.dx.as<T>(),
                                      .parts = args.dweight ? args.partials.as<float>() : nullptr,
                                      .rows = args.x.rows(),
                                      .d = args.x.dim(-1),
                                      .offset = args.weight_offset,
                                      .accumulate_dx = args.accumulate_dx,
                                      .bias = false};
    backward<T>({"rms_norm_backward", stream, args.x}, kernel_args, args.partials, args.dweight, {},
                args.accumulate_dweight, false);
  });
}

void run_layer_norm_backward(const LayerNormBackwardArgs& args, Stream stream) {
  dispatch_device_float(args.x.dtype, "layer_norm_backward", [&]<class T>() {
    const NormBackward<T> kernel_args{
        .x = args.x.as<T>(),
        .weight = args.weight.as<T>(),
        .dy = args.dy.as<T>(),
        .mean = args.mean.as<float>(),
        .rstd = args.rstd.as<float>(),
        .dx = args.dx.as<T>(),
        .parts = args.dweight || args.dbias ? args.partials.as<float>() : nullptr,
        .rows = args.x.rows(),
        .d = args.x.dim(-1),
        .offset = 0.0F,
        .accumulate_dx = args.accumulate_dx,
        .bias = true};
    backward<T>({"layer_norm_backward", stream, args.x}, kernel_args, args.partials, args.dweight, args.dbias,
                args.accumulate_dweight, args.accumulate_dbias);
  });
}

// partials[p, j] = Σ x[i, j] over the rows i of part p.
template <class T>
__global__ void column_parts_kernel(const T* x, float* partials, std::int64_t m, std::int64_t n) {
  for (std::int64_t j = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; j < n;
       j += std::int64_t{gridDim.x} * blockDim.x) {
    float sum = 0;
    for (std::int64_t i = blockIdx.y; i < m; i += gridDim.y) sum += to_float(x[i * n + j]);
    partials[std::int64_t{blockIdx.y} * n + j] = sum;
  }
}

void run_column_sum(const ColumnSumArgs& args, Stream stream) {
  const std::int64_t m = args.x.dim(0), n = args.x.dim(1);
  if (n == 0) return;
  const auto parts = static_cast<int>(std::clamp<std::int64_t>(m, 1, args.partials.dim(0)));
  const LaunchSite site{"column_sum", stream, args.x};
  dispatch_device_float(args.x.dtype, "column_sum", [&]<class T>() {
    const Size3 grid{grid_for(stream.device, n, 128), static_cast<unsigned>(parts)};
    launch(site, column_parts_kernel<T>, grid, Size3{128}, 0, args.x.as<T>(), args.partials.as<float>(), m,
           n);
    sum_parts(site, args.partials.as<float>(), parts, n, n, args.y.as<T>(), args.accumulate);
  });
}

}  // namespace

void register_norm() {
  column_sum.add(DeviceType::cuda,
                 {"cuda", ImplKind::cuda,
                  [](const ColumnSumArgs& args) { return is_device_float(args.x.dtype); }, run_column_sum});
  layer_norm.add(DeviceType::cuda,
                 {"cuda", ImplKind::cuda,
                  [](const LayerNormArgs& args) { return is_device_float(args.x.dtype); }, run_layer_norm});
  layer_norm_backward.add(DeviceType::cuda,
                          {"cuda", ImplKind::cuda,
                           [](const LayerNormBackwardArgs& args) { return is_device_float(args.x.dtype); },
                           run_layer_norm_backward});
  rms_norm.add(DeviceType::cuda,
               {"cuda", ImplKind::cuda, [](const RmsNormArgs& args) { return is_device_float(args.x.dtype); },
                run_rms_norm});
  rms_norm_backward.add(
      DeviceType::cuda,
      {"cuda", ImplKind::cuda, [](const RmsNormBackwardArgs& args) { return is_device_float(args.x.dtype); },
       run_rms_norm_backward});
}

}  // namespace ingot::kernels::cuda
