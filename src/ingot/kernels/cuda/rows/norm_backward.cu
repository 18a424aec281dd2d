#include <algorithm>

#include "ingot/kernels/cuda/device/row_vectors.h"
#include "ingot/kernels/cuda/register.h"
#include "ingot/kernels/cuda/rows/column_sums.h"
#include "ingot/kernels/norm.h"

namespace ingot::kernels::cuda {
namespace {

template <class T>
struct NormBackward {
  const T *x, *weight, *dy;
  const float *mean, *rstd;  // mean: for layer_norm
  T* dx;                     // may be null
  float* parts;              // [gridDim.x, 2 for layer_norm, d], or null
  std::int64_t rows, d;
  float offset;  // of the weight
};

/// How many blocks a multiprocessor holds: 512 threads with 128 registers each, or 384 with 168 where a
/// thread sums twice for each of its 32 columns.
template <class Config, bool layer>
inline constexpr int kBackwardBlocks = std::max(1, (layer && Config::kHeld && Config::kVec == 8 ? 384 : 512) /
                                                       Config::ThreadGroup::kThreads);

// With x̂ = (x − mean)·rstd and g = w·dy: dx = rstd · (g − mean(g) − x̂ · mean(g·x̂)); for rms_norm, without a
// mean, its term falls away. dw = Σ dy·x̂ and db = Σ dy are summed apart by every block. `full`: a thread
// group's threads all have as many vectors of a row as the config allows, weight and dx are there; nothing is
// asked of each vector then, which leaves 716 of 920 instructions for a row in bf16.
template <class Config, bool layer, bool accumulate, bool full>
__global__
__launch_bounds__(Config::ThreadGroup::kThreads, kBackwardBlocks<Config, layer>) void norm_backward_kernel(
    const __grid_constant__ NormBackward<typename Config::T> args) {
  using ThreadGroup = typename Config::ThreadGroup;
  constexpr int kSums = layer ? 2 : 1;
  const std::int64_t d = args.d;
  float* const part = args.parts == nullptr ? nullptr : args.parts + blockIdx.x * kSums * d;
  ColumnSums<Config, kSums> columns;
  ThreadGroupExchange<ThreadGroup> exchange;
  for (std::int64_t row = ThreadGroup::first_row(); row - ThreadGroup::number() < args.rows;
       row += ThreadGroup::row_step()) {
    const bool live = row < args.rows, first = row == ThreadGroup::first_row();
    const auto n = static_cast<typename Config::Index>(live ? d : 0);
    const auto n_weight = args.weight == nullptr ? 0 : n, n_dx = accumulate && args.dx != nullptr ? n : 0;
    const typename Config::T *x_row = args.x + row * d, *dy_row = args.dy + row * d;
    typename Config::T* const dx_row = args.dx + row * d;
    const float mean = layer && live ? args.mean[row] : 0.0F, rstd = live ? args.rstd[row] : 0.0F;
    RowVectors<Config> x, dy, w, dx;
    float sums[kSums] = {};  // of g·x̂, and of g
    const auto read = [](RowVectors<Config>& to, const typename Config::T* from, typename Config::Index width,
                         int batch, float absent = 0.0F) {
      if constexpr (full) {
        to.load(from, batch);
      } else {
        to.fetch(from, width, batch, absent);
      }
    };
    for (int batch = 0; batch < Config::batches(d); ++batch) {
      read(x, x_row, n, batch);
      read(dy, dy_row, n, batch);
      if constexpr (Config::kHeld && accumulate) read(dx, dx_row, n_dx, batch);
      read(w, args.weight, n_weight, batch, 1.0F);
      Config::each([&](int p, int v) {
        const float g = (args.offset + w.get(p, v)) * dy.get(p, v);
        sums[0] += g * ((x.get(p, v) - mean) * rstd);
        if constexpr (layer) sums[1] += g;
      });
    }
    exchange.sum(sums);
    const float dot = sums[0] / static_cast<float>(d),
                sum = layer ? sums[kSums - 1] / static_cast<float>(d) : 0;
    for (int batch = 0; batch < Config::batches(d); ++batch) {
      x.fetch_again(x_row, n, batch);
      dy.fetch_again(dy_row, n, batch);
      read(w, args.weight, n_weight, batch, 1.0F);
      if constexpr (!Config::kHeld && accumulate) dx.fetch(dx_row, n_dx, batch);
      if constexpr (Config::kHeld && accumulate) dx.fetch_again(dx_row, n_dx, batch);
      dx.fill([&](int p, int v) {
        const float normalized = (x.get(p, v) - mean) * rstd, grad = dy.get(p, v);
        if constexpr (layer) {
          columns.add(part, d, first, batch, p, v, {grad * normalized, grad});
        } else {
          columns.add(part, d, first, batch, p, v, {grad * normalized});
        }
        const float weight = args.offset + w.get(p, v);
        const float gradient = layer ? rstd * (weight * grad - sum - normalized * dot)
                                     : rms_gradient(rstd, weight, grad, normalized, dot);
        return accumulate ? dx.get(p, v) + gradient : gradient;
      });
      if constexpr (full) {
        dx.store(dx_row, batch);
      } else if (args.dx != nullptr) {
        dx.write(dx_row, n, batch);
      }
    }
  }
  if (part != nullptr) columns.finish(part, static_cast<int>(d));
}

/// One thread group in a block where rows are not held: each has a part of the scratch.
template <class Config>
using BackwardConfig = std::conditional_t<
    !Config::kHeld && (Config::ThreadGroup::kThreadGroups > 1),
    RowConfig<typename Config::T, Config::ThreadGroup::kThreads, Config::kVectors, Config::kVec, false>,
    Config>;

/// Returns how many parts there are to sum.
template <class Config, bool layer, bool accumulate>
int launch_backward(const LaunchSite& site, const NormBackward<typename Config::T>& args,
                    std::int64_t parts) {
  constexpr int kThreadGroups = Config::ThreadGroup::kThreadGroups;
  Size3 grid = row_grid<Config>(site.stream.device, args.rows);
  if (args.parts != nullptr) {
    const unsigned held =
        grid_for(site.stream.device, args.rows, kThreadGroups, kBackwardBlocks<Config, layer>);
    grid.x = static_cast<unsigned>(std::min<std::int64_t>(parts, held));
  }
  const bool shared = Config::kHeld && kThreadGroups > 1 && args.parts != nullptr;
  auto kernel = norm_backward_kernel<Config, layer, accumulate, false>;
  // What training has of most widths: more configs would be more to compile.
  if constexpr (Config::kHeld && Config::kVec > 1 && kThreadGroups == 1 && accumulate && !layer) {
    if (args.d == Config::kStep && args.weight != nullptr && args.dx != nullptr)
      kernel = norm_backward_kernel<Config, layer, accumulate, true>;
  }
  launch(site, kernel, grid, kRowBlock<Config>,
         shared ? static_cast<std::size_t>((layer ? 2 : 1) * args.d) * sizeof(float) : 0, args);
  return static_cast<int>(grid.x);
}

template <bool layer, class T, class Args>
void backward(const LaunchSite& site, const Args& args, const View& mean, float offset, const View& dbias,
              bool accumulate_dbias) {
  const std::int64_t rows = args.x.rows(), d = row_width(args.x);
  const NormBackward<T> kernel_args{
      .x = args.x.template as<T>(),
      .weight = args.weight.template as<T>(),
      .dy = args.dy.template as<T>(),
      .mean = mean.as<float>(),
      .rstd = args.rstd.template as<float>(),
      .dx = args.dx.template as<T>(),
      .parts = args.dweight || dbias ? args.partials.template as<float>() : nullptr,
      .rows = rows,
      .d = d,
      .offset = offset};
  int parts = 0;
  if (rows > 0) {
    const bool in_vectors = rows_in_vectors(d, {args.x, args.weight, args.dy, args.dx, args.partials});
    const auto run = [&]<class Rows>() {
      using Config = BackwardConfig<Rows>;
      const std::int64_t most = args.partials ? args.partials.dim(0) : 0;
      parts = args.accumulate_dx ? launch_backward<Config, layer, true>(site, kernel_args, most)
                                 : launch_backward<Config, layer, false>(site, kernel_args, most);
    };
    // The half of 128 threads would have nothing to do, and few threads are there at once.
    if (in_vectors && d > 128 * kVector<T> && d <= 256 * kVector<T>) {
      run.template operator()<RowConfig<T, 64, 4, kVector<T>, true>>();
    } else {
      dispatch_row_config<T>(d, in_vectors, run);
    }
  }
  const std::int64_t stride = layer ? 2 * d : d;
  if (args.dweight)
    sum_parts(site, kernel_args.parts, parts, d, stride, args.dweight.template as<T>(),
              args.accumulate_dweight);
  if (dbias) sum_parts(site, kernel_args.parts + d, parts, d, stride, dbias.as<T>(), accumulate_dbias);
}

void run_rms_norm_backward(const RmsNormBackwardArgs& args, Stream stream) {
  dispatch_device_float(args.x.dtype, "rms_norm_backward", [&]<class T>() {
    backward<false, T>({"rms_norm_backward", stream, args.x}, args, {}, args.weight_offset, {}, false);
  });
}

void run_layer_norm_backward(const LayerNormBackwardArgs& args, Stream stream) {
  dispatch_device_float(args.x.dtype, "layer_norm_backward", [&]<class T>() {
    backward<true, T>({"layer_norm_backward", stream, args.x}, args, args.mean, 0.0F, args.dbias,
                      args.accumulate_dbias);
  });
}

}  // namespace

void register_norm_backward() {
  layer_norm_backward.add(DeviceType::cuda,
                          {"cuda", ImplKind::cuda,
                           [](const LayerNormBackwardArgs& args) { return is_device_float(args.x.dtype); },
                           run_layer_norm_backward});
  rms_norm_backward.add(
      DeviceType::cuda,
      {"cuda", ImplKind::cuda, [](const RmsNormBackwardArgs& args) { return is_device_float(args.x.dtype); },
       run_rms_norm_backward});
}

}  // namespace ingot::kernels::cuda
