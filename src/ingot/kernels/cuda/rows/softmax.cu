#include "ingot/kernels/cuda/device/online_softmax.h"
#include "ingot/kernels/cuda/register.h"
#include "ingot/kernels/softmax.h"

namespace ingot::kernels::cuda {
namespace {

template <class Config, bool log, class T = typename Config::T>
__global__ __launch_bounds__(Config::ThreadGroup::kThreads,
                             Config::kBlocks) void softmax_kernel(const T* x, T* y, std::int64_t rows,
                                                                  std::int64_t d) {
  using ThreadGroup = typename Config::ThreadGroup;
  ThreadGroupExchange<ThreadGroup> exchange;
  for (std::int64_t row = ThreadGroup::first_row(); row - ThreadGroup::number() < rows;
       row += ThreadGroup::row_step()) {
    const auto n = static_cast<typename Config::Index>(row < rows ? d : 0);
    RowVectors<Config> in;
    OnlineSoftmax mine;
    float exps[Config::kVectors][Config::kVec];  // held rows need not compute them again
    for (int batch = 0; batch < Config::batches(d); ++batch) {
      in.fetch(x + row * d, n, batch, -INFINITY);
      mine.add<Config>([&](int p, int v) { return in.get(p, v); },
                       [&](int p, int v, float exp) { exps[p][v] = exp; });
    }
    const OnlineSoftmax all = mine.over_group(exchange);
    const float sum = all.plain_sum(), inverse = 1.0F / sum, log_sum = logf(sum);
    const float scale = mine.factor(all.top) * inverse;
    for (int batch = 0; batch < Config::batches(d); ++batch) {
      in.fetch_again(x + row * d, n, batch);
      in.fill([&](int p, int v) {
        if constexpr (Config::kHeld && !log) return exps[p][v] * scale;
        const float shifted = in.get(p, v) - all.top;
        return log ? shifted - log_sum : fast_exp(shifted) * inverse;
      });
      in.write(y + row * d, n, batch);
    }
  }
}

template <class Config, bool log, bool accumulate, class T = typename Config::T>
__global__ __launch_bounds__(Config::ThreadGroup::kThreads,
                             Config::kBlocksOfTwo) void softmax_backward_kernel(const T* y, const T* dy,
                                                                                T* dx, std::int64_t rows,
                                                                                std::int64_t d) {
  using ThreadGroup = typename Config::ThreadGroup;
  ThreadGroupExchange<ThreadGroup> exchange;
  for (std::int64_t row = ThreadGroup::first_row(); row - ThreadGroup::number() < rows;
       row += ThreadGroup::row_step()) {
    const auto n = static_cast<typename Config::Index>(row < rows ? d : 0);
    const std::int64_t begin = row * d;
    RowVectors<Config> out, grad, old;
    float sum = 0;
    for (int batch = 0; batch < Config::batches(d); ++batch) {
      if constexpr (Config::kHeld || !log) out.fetch(y + begin, n, batch);
      grad.fetch(dy + begin, n, batch);
      Config::each([&](int p, int v) { sum += log ? grad.get(p, v) : grad.get(p, v) * out.get(p, v); });
    }
    sum = exchange.sum(sum);
    for (int batch = 0; batch < Config::batches(d); ++batch) {
      if constexpr (accumulate) old.fetch(dx + begin, n, batch);
      out.fetch_again(y + begin, n, batch);
      grad.fetch_again(dy + begin, n, batch);
      grad.fill([&](int p, int v) {
        const float gradient =
            log ? grad.get(p, v) - fast_exp(out.get(p, v)) * sum : out.get(p, v) * (grad.get(p, v) - sum);
        return accumulate ? old.get(p, v) + gradient : gradient;
      });
      grad.write(dx + begin, n, batch);
    }
  }
}

template <class Config, class T = typename Config::T>
__global__ __launch_bounds__(Config::ThreadGroup::kThreads,
                             Config::kBlocks) void logsumexp_kernel(const T* x, T* y, std::int64_t rows,
                                                                    std::int64_t d) {
  using ThreadGroup = typename Config::ThreadGroup;
  ThreadGroupExchange<ThreadGroup> exchange;
  for (std::int64_t row = ThreadGroup::first_row(); row - ThreadGroup::number() < rows;
       row += ThreadGroup::row_step()) {
    const auto n = static_cast<typename Config::Index>(row < rows ? d : 0);
    OnlineSoftmax exps;
    for (int batch = 0; batch < Config::batches(d); ++batch) {
      RowVectors<Config> in;
      in.fetch(x + row * d, n, batch, -INFINITY);
      exps.add<Config>([&](int p, int v) { return in.get(p, v); });
    }
    exps = exps.over_group(exchange);
    if (ThreadGroup::lane() == 0 && row < rows) y[row] = from_float<T>(exps.log());
  }
}

template <class Config, bool accumulate, class T = typename Config::T>
__global__ __launch_bounds__(Config::ThreadGroup::kThreads, Config::kBlocks) void logsumexp_backward_kernel(
    const T* x, const T* y, const T* dy, T* dx, std::int64_t rows, std::int64_t d) {
  using ThreadGroup = typename Config::ThreadGroup;
  for (std::int64_t row = ThreadGroup::first_row(); row < rows; row += ThreadGroup::row_step()) {
    const float lse = to_float(y[row]), grad = to_float(dy[row]);
    for (int batch = 0; batch < Config::batches(d); ++batch) {
      RowVectors<Config> in, out;
      in.fetch(x + row * d, d, batch);
      if constexpr (accumulate) out.fetch(dx + row * d, d, batch);
      out.fill([&](int p, int v) {
        const float gradient = grad * fast_exp(in.get(p, v) - lse);
        return accumulate ? out.get(p, v) + gradient : gradient;
      });
      out.write(dx + row * d, d, batch);
    }
  }
}

void run_softmax(const SoftmaxArgs& args, Stream stream) {
  const std::int64_t rows = args.x.rows(), d = row_width(args.x);
  if (rows == 0) return;
  dispatch_device_float(args.x.dtype, "softmax", [&]<class T>() {
    dispatch_row_config<T>(d, rows_in_vectors(d, {args.x, args.y}), [&]<class Config>() {
      launch({"softmax", stream, args.x},
             args.log ? softmax_kernel<Config, true> : softmax_kernel<Config, false>,
             row_grid<Config>(stream.device, rows), kRowBlock<Config>, 0, args.x.as<T>(), args.y.as<T>(),
             rows, d);
    });
  });
}

void run_softmax_backward(const SoftmaxBackwardArgs& args, Stream stream) {
  const std::int64_t rows = args.y.rows(), d = row_width(args.y);
  if (rows == 0) return;
  dispatch_device_float(args.y.dtype, "softmax_backward", [&]<class T>() {
    const auto run = [&]<class Config, bool log>() {
      launch({"softmax_backward", stream, args.y},
             args.accumulate ? softmax_backward_kernel<Config, log, true>
                             : softmax_backward_kernel<Config, log, false>,
             row_grid<Config>(stream.device, rows), kRowBlock<Config>, 0, args.y.as<T>(), args.dy.as<T>(),
             args.dx.as<T>(), rows, d);
    };
    dispatch_row_config<T>(d, rows_in_vectors(d, {args.y, args.dy, args.dx}), [&]<class Config>() {
      if (args.log) return run.template operator()<Config, true>();
      run.template operator()<Config, false>();
    });
  });
}

void run_logsumexp(const LogSumExpArgs& args, Stream stream) {
  const std::int64_t rows = args.x.rows(), d = row_width(args.x);
  if (rows == 0) return;
  dispatch_device_float(args.x.dtype, "logsumexp", [&]<class T>() {
    dispatch_row_config<T>(d, rows_in_vectors(d, {args.x}), [&]<class Config>() {
      launch({"logsumexp", stream, args.x}, logsumexp_kernel<Config>, row_grid<Config>(stream.device, rows),
             kRowBlock<Config>, 0, args.x.as<T>(), args.y.as<T>(), rows, d);
    });
  });
}

void run_logsumexp_backward(const LogSumExpBackwardArgs& args, Stream stream) {
  const std::int64_t rows = args.x.rows(), d = row_width(args.x);
  if (rows == 0) return;
  dispatch_device_float(args.x.dtype, "logsumexp_backward", [&]<class T>() {
    dispatch_passing_config<T>(d, rows_in_vectors(d, {args.x, args.dx}), [&]<class Config>() {
      launch({"logsumexp_backward", stream, args.x},
             args.accumulate ? logsumexp_backward_kernel<Config, true>
                             : logsumexp_backward_kernel<Config, false>,
             row_grid<Config>(stream.device, rows), kRowBlock<Config>, 0, args.x.as<T>(), args.y.as<T>(),
             args.dy.as<T>(), args.dx.as<T>(), rows, d);
    });
  });
}

}  // namespace

void register_softmax() {
  softmax.add(DeviceType::cuda,
              {"cuda", ImplKind::cuda, [](const SoftmaxArgs& args) { return is_device_float(args.x.dtype); },
               run_softmax});
  softmax_backward.add(
      DeviceType::cuda,
      {"cuda", ImplKind::cuda, [](const SoftmaxBackwardArgs& args) { return is_device_float(args.y.dtype); },
       run_softmax_backward});
  logsumexp.add(DeviceType::cuda,
                {"cuda", ImplKind::cuda,
                 [](const LogSumExpArgs& args) { return is_device_float(args.x.dtype); }, run_logsumexp});
  logsumexp_backward.add(DeviceType::cuda,
                         {"cuda", ImplKind::cuda,
                          [](const LogSumExpBackwardArgs& args) { return is_device_float(args.x.dtype); },
                          run_logsumexp_backward});
}

}  // namespace ingot::kernels::cuda
