#include "ingot/kernels/cuda/device/row_vectors.h"
#include "ingot/kernels/cuda/register.h"
#include "ingot/kernels/norm.h"

namespace ingot::kernels::cuda {
namespace {

// What is normalized: x, or where there is a residual their sum, rounded and written to `sum`.
template <class T>
struct NormInput {
  const T *x, *residual;
  T* sum;
};

/// A row of it, which the kernel goes through two or three times.
template <class Config, bool residual>
struct NormRow {
  using T = typename Config::T;
  using Index = typename Config::Index;
  RowVectors<Config> vectors;

  __device__ __forceinline__ void take(const NormInput<T>& from, std::int64_t begin, Index n, int batch) {
    vectors.fetch(from.x + begin, n, batch);
    if constexpr (residual) {
      RowVectors<Config> other;
      other.fetch(from.residual + begin, n, batch);
      vectors.fill([&](int p, int v) { return vectors.get(p, v) + other.get(p, v); });
      vectors.write(from.sum + begin, n, batch);
    }
  }
  __device__ __forceinline__ void take_again(const NormInput<T>& from, std::int64_t begin, Index n,
                                             int batch) {
    vectors.fetch_again((residual ? from.sum : from.x) + begin, n, batch);
  }
};

template <class Config, bool residual, class T = typename Config::T>
__global__ __launch_bounds__(Config::ThreadGroup::kThreads,
                             Config::kBlocks) void rms_norm_kernel(const __grid_constant__ NormInput<T> x,
                                                                   const T* weight, T* y, float* rstd,
                                                                   std::int64_t rows, std::int64_t d,
                                                                   float eps, float offset) {
  using ThreadGroup = typename Config::ThreadGroup;
  ThreadGroupExchange<ThreadGroup> exchange;
  for (std::int64_t row = ThreadGroup::first_row(); row - ThreadGroup::number() < rows;
       row += ThreadGroup::row_step()) {
    const auto n = static_cast<typename Config::Index>(row < rows ? d : 0);
    NormRow<Config, residual> in;
    float squares = 0;
    for (int batch = 0; batch < Config::batches(d); ++batch) {
      in.take(x, row * d, n, batch);
      Config::each([&](int p, int v) { squares += in.vectors.get(p, v) * in.vectors.get(p, v); });
    }
    const float r = 1.0F / sqrtf(exchange.sum(squares) / static_cast<float>(d) + eps);
    if (ThreadGroup::lane() == 0 && n > 0) rstd[row] = r;
    for (int batch = 0; batch < Config::batches(d); ++batch) {
      RowVectors<Config> w;
      w.fetch(weight, n, batch);
      in.take_again(x, row * d, n, batch);
      w.fill([&](int p, int v) { return in.vectors.get(p, v) * r * (offset + w.get(p, v)); });
      w.write(y + row * d, n, batch);
    }
  }
}

template <class Config, bool residual, class T = typename Config::T>
__global__ __launch_bounds__(Config::ThreadGroup::kThreads, Config::kBlocks) void layer_norm_kernel(
    const __grid_constant__ NormInput<T> x, const T* weight, const T* bias, T* y, float* mean, float* rstd,
    std::int64_t rows, std::int64_t d, float eps) {
  using ThreadGroup = typename Config::ThreadGroup;
  ThreadGroupExchange<ThreadGroup> exchange;
  for (std::int64_t row = ThreadGroup::first_row(); row - ThreadGroup::number() < rows;
       row += ThreadGroup::row_step()) {
    const auto n = static_cast<typename Config::Index>(row < rows ? d : 0);
    NormRow<Config, residual> in;
    float sum = 0, squares = 0;
    for (int batch = 0; batch < Config::batches(d); ++batch) {
      in.take(x, row * d, n, batch);
      Config::each([&](int p, int v) { sum += in.vectors.get(p, v); });
    }
    const float m = exchange.sum(sum) / static_cast<float>(d);
    for (int batch = 0; batch < Config::batches(d); ++batch) {
      in.take_again(x, row * d, n, batch);
      Config::each([&](int p, int v) {
        const float apart = Config::position(batch, p) < n ? in.vectors.get(p, v) - m : 0.0F;
        squares += apart * apart;
      });
    }
    const float r = 1.0F / sqrtf(exchange.sum(squares) / static_cast<float>(d) + eps);
    if (ThreadGroup::lane() == 0 && n > 0) {
      mean[row] = m;
      rstd[row] = r;
    }
    for (int batch = 0; batch < Config::batches(d); ++batch) {
      RowVectors<Config> w, b;
      w.fetch(weight, weight == nullptr ? 0 : n, batch, 1.0F);
      b.fetch(bias, bias == nullptr ? 0 : n, batch);
      in.take_again(x, row * d, n, batch);
      w.fill([&](int p, int v) { return (in.vectors.get(p, v) - m) * r * w.get(p, v) + b.get(p, v); });
      w.write(y + row * d, n, batch);
    }
  }
}

/// Calls f.template operator()<T, Config, residual>() for the rows of x.
template <class Args, class F>
void dispatch_norm(const char* kernel, const Args& args, bool in_vectors, F&& f) {
  if (args.x.rows() == 0) return;
  dispatch_device_float(args.x.dtype, kernel, [&]<class T>() {
    dispatch_row_config<T>(row_width(args.x), in_vectors, [&]<class Config>() {
      if (args.residual) return f.template operator()<T, Config, true>();
      f.template operator()<T, Config, false>();
    });
  });
}

void run_rms_norm(const RmsNormArgs& args, Stream stream) {
  const std::int64_t rows = args.x.rows(), d = row_width(args.x);
  const bool in_vectors = rows_in_vectors(d, {args.x, args.weight, args.y, args.residual, args.sum});
  dispatch_norm("rms_norm", args, in_vectors, [&]<class T, class Config, bool residual>() {
    launch({"rms_norm", stream, args.x}, rms_norm_kernel<Config, residual>,
           row_grid<Config>(stream.device, rows), kRowBlock<Config>, 0,
           NormInput<T>{args.x.as<T>(), args.residual.as<T>(), args.sum.as<T>()}, args.weight.as<T>(),
           args.y.as<T>(), args.rstd.as<float>(), rows, d, args.eps, args.weight_offset);
  });
}

void run_layer_norm(const LayerNormArgs& args, Stream stream) {
  const std::int64_t rows = args.x.rows(), d = row_width(args.x);
  const bool in_vectors =
      rows_in_vectors(d, {args.x, args.weight, args.bias, args.y, args.residual, args.sum});
  dispatch_norm("layer_norm", args, in_vectors, [&]<class T, class Config, bool residual>() {
    launch({"layer_norm", stream, args.x}, layer_norm_kernel<Config, residual>,
           row_grid<Config>(stream.device, rows), kRowBlock<Config>, 0,
           NormInput<T>{args.x.as<T>(), args.residual.as<T>(), args.sum.as<T>()}, args.weight.as<T>(),
           args.bias.as<T>(), args.y.as<T>(), args.mean.as<float>(), args.rstd.as<float>(), rows, d,
           args.eps);
  });
}

}  // namespace

void register_norm() {
  layer_norm.add(DeviceType::cuda,
                 {"cuda", ImplKind::cuda,
                  [](const LayerNormArgs& args) { return is_device_float(args.x.dtype); }, run_layer_norm});
  rms_norm.add(DeviceType::cuda,
               {"cuda", ImplKind::cuda, [](const RmsNormArgs& args) { return is_device_float(args.x.dtype); },
                run_rms_norm});
}

}  // namespace ingot::kernels::cuda
