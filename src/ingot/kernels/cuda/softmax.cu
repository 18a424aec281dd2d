#include "ingot/kernels/cuda/register.h"
#include "ingot/kernels/cuda/team.h"
#include "ingot/kernels/softmax.h"

namespace ingot::kernels::cuda {
namespace {

// A row is read two or three times, but comes from memory once: later reads find it in the caches.

template <int size, class T>
__device__ __forceinline__ float row_max(const T* x, std::int64_t n) {
  float top = -INFINITY;
  for (std::int64_t i = Team<size>::lane(); i < n; i += size) top = fmaxf(top, to_float(x[i]));
  return Team<size>::max(top);
}

template <int size, class T>
__device__ __forceinline__ float exp_sum(const T* x, std::int64_t n, float top) {
  float sum = 0;
  for (std::int64_t i = Team<size>::lane(); i < n; i += size) sum += expf(to_float(x[i]) - top);
  return Team<size>::sum(sum);
}

template <class T, int size>
__global__ void softmax_kernel(const T* x, T* y, std::int64_t rows, std::int64_t n, bool log) {
  for (std::int64_t row = Team<size>::first_row(); row < rows; row += Team<size>::row_step()) {
    const T* from = x + row * n;
    T* to = y + row * n;
    const float top = row_max<size>(from, n), sum = exp_sum<size>(from, n, top);
    const float log_sum = logf(sum), inverse = 1.0F / sum;
    for (std::int64_t i = Team<size>::lane(); i < n; i += size) {
      const float shifted = to_float(from[i]) - top;
      to[i] = from_float<T>(log ? shifted - log_sum : expf(shifted) * inverse);
    }
  }
}

template <class T, int size>
__global__ void softmax_backward_kernel(const T* y, const T* dy, T* dx, std::int64_t rows, std::int64_t n,
                                        bool log, bool accumulate) {
  for (std::int64_t row = Team<size>::first_row(); row < rows; row += Team<size>::row_step()) {
    const std::int64_t begin = row * n;
    float sum = 0;
    for (std::int64_t i = Team<size>::lane(); i < n; i += size)
      sum += to_float(dy[begin + i]) * (log ? 1.0F : to_float(y[begin + i]));
    sum = Team<size>::sum(sum);
    for (std::int64_t i = begin + Team<size>::lane(); i < begin + n; i += size) {
      const float out = to_float(y[i]), grad = to_float(dy[i]);
      store(dx + i, log ? grad - expf(out) * sum : out * (grad - sum), accumulate);
    }
  }
}

template <class T, int size>
__global__ void logsumexp_kernel(const T* x, T* y, std::int64_t rows, std::int64_t n) {
  for (std::int64_t row = Team<size>::first_row(); row < rows; row += Team<size>::row_step()) {
    float top = row_max<size>(x + row * n, n);
    if (fabsf(top) == INFINITY) top = 0;  // infinity minus infinity is NaN
    const float sum = exp_sum<size>(x + row * n, n, top);
    if (Team<size>::lane() == 0) y[row] = from_float<T>(top + logf(sum));
  }
}

template <class T, int size>
__global__ void logsumexp_backward_kernel(const T* x, const T* y, const T* dy, T* dx, std::int64_t rows,
                                          std::int64_t n, bool accumulate) {
  for (std::int64_t row = Team<size>::first_row(); row < rows; row += Team<size>::row_step()) {
    const float lse = to_float(y[row]), grad = to_float(dy[row]);
    for (std::int64_t i = row * n + Team<size>::lane(); i < (row + 1) * n; i += size)
      store(dx + i, grad * expf(to_float(x[i]) - lse), accumulate);
  }
}

void run_softmax(const SoftmaxArgs& args, Stream stream) {
  for_rows("softmax", stream, args.x, [&]<class T, int size>(Size3 grid, Size3 block) {
    launch({"softmax", stream, args.x}, softmax_kernel<T, size>, grid, block, 0, args.x.as<T>(),
           args.y.as<T>(), args.x.rows(), args.x.dim(-1), args.log);
  });
}

void run_softmax_backward(const SoftmaxBackwardArgs& args, Stream stream) {
  for_rows("softmax_backward", stream, args.y, [&]<class T, int size>(Size3 grid, Size3 block) {
    launch({"softmax_backward", stream, args.y}, softmax_backward_kernel<T, size>, grid, block, 0,
           args.y.as<T>(), args.dy.as<T>(), args.dx.as<T>(), args.y.rows(), args.y.dim(-1), args.log,
           args.accumulate);
  });
}

void run_logsumexp(const LogSumExpArgs& args, Stream stream) {
  for_rows("logsumexp", stream, args.x, [&]<class T, int size>(Size3 grid, Size3 block) {
    launch({"logsumexp", stream, args.x}, logsumexp_kernel<T, size>, grid, block, 0, args.x.as<T>(),
           args.y.as<T>(), args.x.rows(), args.x.dim(-1));
  });
}

void run_logsumexp_backward(const LogSumExpBackwardArgs& args, Stream stream) {
  for_rows("logsumexp_backward", stream, args.x, [&]<class T, int size>(Size3 grid, Size3 block) {
    launch({"logsumexp_backward", stream, args.x}, logsumexp_backward_kernel<T, size>, grid, block, 0,
           args.x.as<T>(), args.y.as<T>(), args.dy.as<T>(), args.dx.as<T>(), args.x.rows(), args.x.dim(-1),
           args.accumulate);
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
