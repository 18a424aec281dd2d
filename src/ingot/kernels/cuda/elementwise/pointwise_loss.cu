#include <algorithm>

#include "ingot/kernels/cuda/device/functions.h"
#include "ingot/kernels/cuda/device/thread_group.h"
#include "ingot/kernels/cuda/elementwise/map.h"
#include "ingot/kernels/cuda/register.h"
#include "ingot/kernels/loss.h"

namespace ingot::kernels::cuda {
namespace {

constexpr int kBlock = 256;
using Block = ThreadGroup<kBlock>;

__device__ __forceinline__ float bounded_log(float x) {
  const float l = logf(x);
  return l < -100.0F ? -100.0F : l;  // PyTorch's bound; a NaN stays
}

struct LossOf {
  PointwiseLoss kind;
  float delta;

  __device__ float at(float x, float t) const {
    const float d = x - t, size = fabsf(d);
    switch (kind) {
      case PointwiseLoss::mse:
        return d * d;
      case PointwiseLoss::l1:
        return size;
      case PointwiseLoss::huber:
        return size <= delta ? 0.5F * d * d : delta * (size - 0.5F * delta);
      case PointwiseLoss::bce:
        return -t * bounded_log(x) - (1.0F - t) * bounded_log(1.0F - x);
      case PointwiseLoss::bce_with_logits:
        return softplus(x) - x * t;
    }
    return 0.0F;
  }

  template <int vec>
  __device__ void operator()(const float (&in)[2][vec], float (&out)[1][vec]) const {
    INGOT_UNROLL
    for (int v = 0; v < vec; ++v) out[0][v] = at(in[0][v], in[1][v]);
  }
};

// Each block sums its share; the shares are added in their order.
template <class T, int vec>
__global__ void loss_parts_kernel(const T* x, const T* target, std::int64_t n, LossOf loss, float* partials) {
  double sum = 0;
  const std::int64_t step = std::int64_t{gridDim.x} * kBlock;
  const std::int64_t me = std::int64_t{blockIdx.x} * kBlock + Block::lane(), vectors = n / vec;
  for (std::int64_t i = me; i < vectors; i += step) {
    const Vector<T, vec> a = load_vector<vec>(x + i * vec), b = load_vector<vec>(target + i * vec);
    float group = 0;
    INGOT_UNROLL
    for (int v = 0; v < vec; ++v) group += loss.at(to_float(a.values[v]), to_float(b.values[v]));
    sum += static_cast<double>(group);
  }
  for (std::int64_t i = vectors * vec + me; i < n; i += step)
    sum += static_cast<double>(loss.at(to_float(x[i]), to_float(target[i])));
  sum = Block::sum(sum);
  if (Block::lane() == 0) partials[blockIdx.x] = static_cast<float>(sum);
}

__global__ void loss_total_kernel(const float* partials, int parts, double scale, float* loss) {
  double sum = 0;
  for (int i = Block::lane(); i < parts; i += kBlock) sum += static_cast<double>(partials[i]);
  sum = Block::sum(sum);
  if (Block::lane() == 0) *loss = static_cast<float>(sum * scale);
}

template <class T>
void reduced(const PointwiseLossArgs& args, const LossOf& loss, Stream stream) {
  const std::int64_t n = args.x.numel();
  const LaunchSite site{"pointwise_loss", stream, args.x};
  const auto parts =
      static_cast<unsigned>(std::clamp<std::int64_t>((n + kBlock - 1) / kBlock, 1, args.partials.numel()));
  const auto address =
      reinterpret_cast<std::uintptr_t>(args.x.data) | reinterpret_cast<std::uintptr_t>(args.target.data);
  const auto sum = [&]<int vec>() {
    launch(site, loss_parts_kernel<T, vec>, Size3{parts}, Size3{kBlock}, 0, args.x.as<T>(),
           args.target.as<T>(), n, loss, args.partials.as<float>());
  };
  if (address % 16 == 0) {
    sum.template operator()<kVector<T>>();
  } else {
    sum.template operator()<1>();
  }
  launch(site, loss_total_kernel, Size3{1}, Size3{kBlock}, 0, args.partials.as<float>(),
         static_cast<int>(parts), args.scale, args.loss.as<float>());
}

void run_pointwise_loss(const PointwiseLossArgs& args, Stream stream) {
  const LossOf loss{args.kind, args.delta};
  dispatch_device_float(args.x.dtype, "pointwise_loss", [&]<class T>() {
    if (args.partials) return reduced<T>(args, loss, stream);
    if (args.x.numel() == 0) return;
    map<T, T, 2, 1>({"pointwise_loss", stream, args.x}, {args.x, args.target}, {args.loss}, {false}, loss);
  });
}

/// Gradients with respect to x and target; inputs: x, target and dloss, which is zeros where it is one
/// number.
struct LossSlopes {
  PointwiseLoss kind;
  float delta, scale;
  const float* one_dloss;  // null: dloss is an input

  __device__ void at(float x, float t, float& dx, float& dt) const {
    const float d = x - t;
    switch (kind) {
      case PointwiseLoss::mse:
        dx = 2.0F * d;
        break;
      case PointwiseLoss::l1:
        dx = sign(d);
        break;
      case PointwiseLoss::huber:
        dx = fabsf(d) <= delta ? d : sign(d) * delta;
        break;
      case PointwiseLoss::bce: {
        const float product = x * (1.0F - x);
        dx = d / (product < 1e-12F ? 1e-12F : product);  // the bound of PyTorch's gradient
        dt = bounded_log(1.0F - x) - bounded_log(x);
        return;
      }
      case PointwiseLoss::bce_with_logits:
        dx = sigmoid(x) - t;
        dt = -x;
        return;
    }
    dt = -dx;
  }

  template <int vec>
  __device__ void operator()(const float (&in)[3][vec], float (&out)[2][vec]) const {
    const float one = one_dloss == nullptr ? 0.0F : *one_dloss;
    INGOT_UNROLL
    for (int v = 0; v < vec; ++v) {
      const float dloss = scale * (one_dloss == nullptr ? in[2][v] : one);
      float dx = 0, dt = 0;
      at(in[0][v], in[1][v], dx, dt);
      out[0][v] = dx * dloss;
      out[1][v] = dt * dloss;
    }
  }
};

void run_pointwise_loss_backward(const PointwiseLossBackwardArgs& args, Stream stream) {
  if (args.x.numel() == 0) return;
  const bool one = args.dloss.rank == 0;
  const LossSlopes slopes{args.kind, args.delta, static_cast<float>(args.scale),
                          one ? args.dloss.as<float>() : nullptr};
  dispatch_device_float(args.x.dtype, "pointwise_loss_backward", [&]<class T>() {
    map<T, T, 3, 2>({"pointwise_loss_backward", stream, args.x},
                    {args.x, args.target, one ? View{} : args.dloss}, {args.dx, args.dtarget},
                    {args.accumulate_dx, args.accumulate_dtarget}, slopes);
  });
}

}  // namespace

void register_pointwise_loss() {
  pointwise_loss.add(
      DeviceType::cuda,
      {"cuda", ImplKind::cuda, [](const PointwiseLossArgs& args) { return is_device_float(args.x.dtype); },
       run_pointwise_loss});
  pointwise_loss_backward.add(
      DeviceType::cuda, {"cuda", ImplKind::cuda,
                         [](const PointwiseLossBackwardArgs& args) { return is_device_float(args.x.dtype); },
                         run_pointwise_loss_backward});
}

}  // namespace ingot::kernels::cuda
