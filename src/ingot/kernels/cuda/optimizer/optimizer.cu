#include <algorithm>

#include "ingot/kernels/cuda/device/thread_group.h"
#include "ingot/kernels/cuda/optimizer/optimizer_weights.h"
#include "ingot/kernels/cuda/register.h"
#include "ingot/kernels/optimizer.h"

namespace ingot::kernels::cuda {
namespace {

bool is_float_or_half(const View& view) { return !view || is_device_float(view.dtype); }

template <class P, class G>
struct SgdItem {
  Weights<P> weights;
  const G* grad;
  float* momentum;  // may be null
  std::int64_t n;
  float lr, weight_decay;
  bool first, packed;
};
struct SgdOptions {
  float momentum, take;  // take: 1 - dampening
  bool nesterov;
};

template <class P, class G>
__global__ void sgd_kernel(const __grid_constant__ Batch<SgdItem<P, G>> batch, SgdOptions o,
                           const float* grad_scale) {
  std::int64_t begin = 0;
  const SgdItem<P, G> item = batch.mine(begin);
  const float scale = scale_or_one(grad_scale);
  over_chunk(begin, item.n, item.packed, [&]<int vec>(std::int64_t i) {
    float p[vec], g[vec], b[vec] = {};
    load_floats(item.grad + i, g);
    if (item.momentum != nullptr && !item.first) load_floats(item.momentum + i, b);
    load_weights(item.weights, item.weights.master != nullptr, i, p);
    INGOT_UNROLL
    for (int k = 0; k < vec; ++k) {
      g[k] = g[k] * scale + item.weight_decay * p[k];
      if (item.momentum != nullptr) {
        b[k] = item.first ? g[k] : o.momentum * b[k] + o.take * g[k];
        g[k] = o.nesterov ? g[k] + o.momentum * b[k] : b[k];
      }
      p[k] -= item.lr * g[k];
    }
    if (item.momentum != nullptr) store_floats(item.momentum + i, b);
    store_weights(item.weights, item.weights.master != nullptr, i, p);
  });
}

template <class P, class G>
void sgd_of(const std::vector<SgdTensor>& tensors, const SgdOptions& options, const float* grad_scale,
            Stream stream) {
  std::vector<SgdItem<P, G>> items;
  for (const SgdTensor& tensor : tensors) {
    items.push_back({.weights = weights_of<P>(tensor),
                     .grad = tensor.grad.as<G>(),
                     .momentum = tensor.momentum.as<float>(),
                     .n = tensor.param.numel(),
                     .lr = static_cast<float>(tensor.lr),
                     .weight_decay = static_cast<float>(tensor.weight_decay),
                     .first = tensor.first,
                     .packed = aligned({tensor.param, tensor.grad, tensor.momentum, tensor.master})});
  }
  for_batches({"sgd", stream, tensors[0].param}, sgd_kernel<P, G>, items, options, grad_scale);
}

void run_sgd(const SgdArgs& args, Stream stream) {
  const SgdOptions options{static_cast<float>(args.momentum), static_cast<float>(1 - args.dampening),
                           args.nesterov};
  const auto kind = [](const SgdTensor& t) { return std::pair{t.param.dtype, t.grad.dtype}; };
  for_kinds(args.tensors, kind, [&](const std::vector<SgdTensor>& tensors) {
    dispatch_device_float(tensors[0].param.dtype, "sgd", [&]<class P>() {
      dispatch_device_float(tensors[0].grad.dtype, "sgd", [&]<class G>() {
        sgd_of<P, G>(tensors, options, args.grad_scale.as<float>(), stream);
      });
    });
  });
}

bool takes_sgd(const SgdArgs& args) {
  return std::ranges::all_of(args.tensors, [](const SgdTensor& t) {
    return takes_weights(t.param, t.master) && is_device_float(t.grad.dtype);
  });
}

template <class T>
struct NormItem {
  const T* x;
  std::int64_t n;
  double* partials;  // one for each block of this tensor
  bool packed;
};

template <class T>
__global__ void __launch_bounds__(kBatchThreads, 4)
    norm_parts_kernel(const __grid_constant__ Batch<NormItem<T>, kNormBlock> batch) {
  constexpr int kWide = kVector<T>, kUnroll = 4;
  std::int64_t begin = 0;
  const NormItem<T> item = batch.mine(begin);
  const std::int64_t end = begin + kNormBlock < item.n ? begin + kNormBlock : item.n;
  const std::int64_t whole = item.packed ? end / kWide * kWide : begin;
  double sum = 0;
  const auto add = [&](T value) {
    const auto x = static_cast<double>(to_float(value));
    sum += x * x;
  };
  constexpr std::int64_t kStep = std::int64_t{kBatchThreads} * kWide;
  for (std::int64_t i = begin + threadIdx.x * kWide; i < whole; i += kStep * kUnroll) {
    Vector<T, kWide> read[kUnroll];
    INGOT_UNROLL
    for (int u = 0; u < kUnroll; ++u)
      if (i + u * kStep < whole) read[u] = load_vector<kWide>(item.x + i + u * kStep);
    INGOT_UNROLL
    for (int u = 0; u < kUnroll; ++u) {
      if (i + u * kStep >= whole) continue;
      INGOT_UNROLL
      for (int v = 0; v < kWide; ++v) add(read[u].values[v]);
    }
  }
  for (std::int64_t i = whole + threadIdx.x; i < end; i += kBatchThreads) add(item.x[i]);
  sum = ThreadGroup<kBatchThreads>::sum(sum);
  if (threadIdx.x == 0) item.partials[begin / kNormBlock] = sum;
}

__global__ void norm_kernel(const double* partials, std::int64_t n, float max_norm, float* norm,
                            float* clip) {
  double sum = 0;
  for (std::int64_t i = threadIdx.x; i < n; i += kBatchThreads) sum += partials[i];
  sum = ThreadGroup<kBatchThreads>::sum(sum);
  if (threadIdx.x != 0) return;
  const double total = sqrt(sum);
  *norm = static_cast<float>(total);
  if (clip == nullptr) return;
  const double factor = static_cast<double>(max_norm) / (total + 1e-6);
  *clip = factor > 1.0 ? 1.0F : static_cast<float>(factor);  // a NaN stays one
}

void run_global_norm(const GlobalNormArgs& args, Stream stream) {
  const LaunchSite site{"global_norm", stream, args.tensors.empty() ? args.partials : args.tensors[0]};
  struct Part {
    View x;
    double* partials;
  };
  std::vector<Part> parts;
  auto* partials = args.partials.as<double>();
  for (const View& tensor : args.tensors) {
    parts.push_back({tensor, partials});
    partials += (tensor.numel() + kNormBlock - 1) / kNormBlock;
  }
  const auto kind = [](const Part& part) { return part.x.dtype; };
  for_kinds(std::span<const Part>(parts), kind, [&](const std::vector<Part>& same) {
    dispatch_device_float(same[0].x.dtype, "global_norm", [&]<class T>() {
      std::vector<NormItem<T>> items;
      for (const Part& part : same) {
        const bool packed = reinterpret_cast<std::uintptr_t>(part.x.data) % 16 == 0;
        items.push_back({part.x.as<T>(), part.x.numel(), part.partials, packed});
      }
      for_batches(site, norm_parts_kernel<T>, items);
    });
  });
  launch(site, norm_kernel, Size3{1}, Size3{kBatchThreads}, 0, args.partials.as<double>(),
         norm_blocks(args.tensors, args.partials), static_cast<float>(args.max_norm), args.norm.as<float>(),
         args.clip.as<float>());
}

template <class T>
struct ScaleItem {
  T* x;
  std::int64_t n;
  bool packed;
};

template <class T>
__global__ void scale_all_kernel(const __grid_constant__ Batch<ScaleItem<T>> batch, const float* factor,
                                 float limit) {
  const float by = scale_or_one(factor);
  if (by == 1.0F && limit <= 0.0F) return;
  std::int64_t begin = 0;
  const ScaleItem<T> item = batch.mine(begin);
  over_chunk(begin, item.n, item.packed, [&]<int vec>(std::int64_t i) {
    float x[vec];
    load_floats(item.x + i, x);
    INGOT_UNROLL
    for (int k = 0; k < vec; ++k) {
      x[k] *= by;
      if (limit > 0.0F) x[k] = x[k] > limit ? limit : x[k] < -limit ? -limit : x[k];
    }
    store_floats(item.x + i, x);
  });
}

void run_scale_all(const ScaleAllArgs& args, Stream stream) {
  const auto kind = [](const View& x) { return x.dtype; };
  for_kinds(args.tensors, kind, [&](const std::vector<View>& same) {
    dispatch_device_float(same[0].dtype, "scale_all", [&]<class T>() {
      std::vector<ScaleItem<T>> items;
      for (const View& x : same) items.push_back({x.as<T>(), x.numel(), aligned({x})});
      for_batches({"scale_all", stream, same[0]}, scale_all_kernel<T>, items, args.factor.as<float>(),
                  static_cast<float>(args.limit));
    });
  });
}

template <class T>
struct LerpItem {
  const T* from;
  float* to;
  std::int64_t n;
  bool packed;
};

template <class T>
__global__ void lerp_all_kernel(const __grid_constant__ Batch<LerpItem<T>> batch, float weight) {
  std::int64_t begin = 0;
  const LerpItem<T> item = batch.mine(begin);
  over_chunk(begin, item.n, item.packed, [&]<int vec>(std::int64_t i) {
    float from[vec], to[vec];
    load_floats(item.from + i, from);
    load_floats(item.to + i, to);
    INGOT_UNROLL
    for (int k = 0; k < vec; ++k) to[k] += weight * (from[k] - to[k]);
    store_floats(item.to + i, to);
  });
}

void run_lerp_all(const LerpAllArgs& args, Stream stream) {
  const auto kind = [](const LerpTensor& t) { return t.from.dtype; };
  for_kinds(args.tensors, kind, [&](const std::vector<LerpTensor>& same) {
    dispatch_device_float(same[0].from.dtype, "lerp_all", [&]<class T>() {
      std::vector<LerpItem<T>> items;
      for (const LerpTensor& t : same)
        items.push_back({t.from.as<T>(), t.to.as<float>(), t.to.numel(), aligned({t.from, t.to})});
      for_batches({"lerp_all", stream, same[0].to}, lerp_all_kernel<T>, items,
                  static_cast<float>(args.weight));
    });
  });
}

bool takes_views(std::span<const View> tensors) { return std::ranges::all_of(tensors, is_float_or_half); }

}  // namespace

void register_optimizer() {
  sgd.add(DeviceType::cuda, {"cuda", ImplKind::cuda, takes_sgd, run_sgd});
  global_norm.add(DeviceType::cuda,
                  {"cuda", ImplKind::cuda,
                   [](const GlobalNormArgs& args) { return takes_views(args.tensors); }, run_global_norm});
  scale_all.add(DeviceType::cuda,
                {"cuda", ImplKind::cuda, [](const ScaleAllArgs& args) { return takes_views(args.tensors); },
                 run_scale_all});
  lerp_all.add(DeviceType::cuda, {"cuda", ImplKind::cuda,
                                  [](const LerpAllArgs& args) {
                                    return std::ranges::all_of(args.tensors, [](const LerpTensor& t) {
                                      return is_float_or_half(t.from) && t.to.dtype == DType::f32;
                                    });
                                  },
                                  run_lerp_all});
}

}  // namespace ingot::kernels::cuda
