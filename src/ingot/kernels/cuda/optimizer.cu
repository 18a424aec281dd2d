#include <algorithm>
#include <vector>

#include "ingot/kernels/cuda/launch.h"
#include "ingot/kernels/cuda/register.h"
#include "ingot/kernels/cuda/team.h"
#include "ingot/kernels/optimizer.h"

namespace ingot::kernels::cuda {
namespace {

// All tensors of a model in one launch, or a few: their descriptions travel as parameters of the kernel, so
// that nothing has to be copied to the device first. A block works on one chunk of one tensor.

constexpr int kBlock = 256;
constexpr std::int64_t kChunk = kNormBlock;  // elements of a block
constexpr std::size_t kParameterBytes = 32000;

/// Floating elements whose dtype is only known at run time.
struct Elements {
  void* data;
  DType dtype;

  Elements(const View& view) : data(view.data), dtype(view.dtype) {}  // NOLINT(google-explicit-constructor)
  Elements() = default;
  __device__ float load(std::int64_t i) const {
    if (dtype == DType::f32) return static_cast<const float*>(data)[i];
    return dtype == DType::f16 ? to_float(static_cast<const half_t*>(data)[i])
                               : to_float(static_cast<const bfloat_t*>(data)[i]);
  }
  __device__ void put(std::int64_t i, float value) const {
    if (dtype == DType::f32) {
      static_cast<float*>(data)[i] = value;
    } else if (dtype == DType::f16) {
      static_cast<half_t*>(data)[i] = from_float<half_t>(value);
    } else {
      static_cast<bfloat_t*>(data)[i] = from_float<bfloat_t>(value);
    }
  }
};

/// Tensors of one launch, and which block begins each.
template <class Item>
struct Batch {
  static constexpr int kMost = static_cast<int>(kParameterBytes / (sizeof(Item) + sizeof(int)));
  int count;
  int first_block[kMost];
  Item items[kMost];

  /// The tensor of this block; `begin` is where its chunk of the tensor begins.
  __device__ const Item& mine(std::int64_t& begin) const {
    int low = 0, high = count;
    while (high - low > 1) {
      const int middle = (low + high) / 2;
      (first_block[middle] <= static_cast<int>(blockIdx.x) ? low : high) = middle;
    }
    begin = (static_cast<std::int64_t>(blockIdx.x) - first_block[low]) * kChunk;
    return items[low];
  }
};

/// Launches kernel(batch, arguments...) for all items; size_of(item) is its number of elements.
template <class Item, class... Parameters, class... Arguments>
void for_batches(const LaunchSite& site, void (*kernel)(Batch<Item>, Parameters...),
                 const std::vector<Item>& items, const Arguments&... arguments) {
  for (std::size_t begin = 0; begin < items.size();) {
    Batch<Item> batch{};  // zeros in the places that are not used
    std::int64_t blocks = 0;
    for (batch.count = 0; begin < items.size() && batch.count < Batch<Item>::kMost; ++begin) {
      const std::int64_t chunks = (items[begin].n + kChunk - 1) / kChunk;
      if (chunks == 0) continue;
      if (blocks + chunks > 0x7fffffff) break;
      batch.items[batch.count] = items[begin];
      batch.first_block[batch.count++] = static_cast<int>(blocks);
      blocks += chunks;
    }
    if (blocks > 0)
      launch(site, kernel, Size3{static_cast<unsigned>(blocks)}, Size3{kBlock}, 0, batch, arguments...);
  }
}

template <class F>
__device__ __forceinline__ void over_chunk(std::int64_t begin, std::int64_t n, F f) {
  const std::int64_t end = begin + kChunk < n ? begin + kChunk : n;
  for (std::int64_t i = begin + threadIdx.x; i < end; i += blockDim.x) f(i);
}

__device__ __forceinline__ float scale_or_one(const float* scale) { return scale == nullptr ? 1.0F : *scale; }

bool is_float_or_half(const View& view) { return !view || is_device_float(view.dtype); }

// Scalars are combined in double on the host and rounded once: 1 - 0.999F is off by 1e-5 already.
struct AdamWItem {
  Elements param, grad;
  float *m, *v, *master;  // master may be null
  std::int64_t n;
  float decay, keep;  // weight_decay, 1 - lr · weight_decay
  float step, root;   // lr / bias_correction1, sqrt(bias_correction2)
};
struct AdamWOptions {
  float take1, beta2, take2, eps;  // take: 1 - beta
  bool decoupled;
};

__global__ void adamw_kernel(const __grid_constant__ Batch<AdamWItem> batch, AdamWOptions o,
                             const float* grad_scale) {
  std::int64_t begin = 0;
  const AdamWItem& item = batch.mine(begin);
  const float scale = scale_or_one(grad_scale);
  over_chunk(begin, item.n, [&](std::int64_t i) {
    float p = item.master != nullptr ? item.master[i] : item.param.load(i);
    float g = item.grad.load(i) * scale;
    if (o.decoupled) {
      p *= item.keep;
    } else {
      g += item.decay * p;
    }
    const float m = item.m[i] + o.take1 * (g - item.m[i]);
    const float v = o.beta2 * item.v[i] + o.take2 * g * g;
    item.m[i] = m;
    item.v[i] = v;
    p -= item.step * m / (sqrtf(v) / item.root + o.eps);
    if (item.master != nullptr) item.master[i] = p;
    item.param.put(i, p);
  });
}

void run_adamw(const AdamWArgs& args, Stream stream) {
  std::vector<AdamWItem> items;
  for (const AdamWTensor& tensor : args.tensors) {
    items.push_back({.param = tensor.param,
                     .grad = tensor.grad,
                     .m = tensor.m.as<float>(),
                     .v = tensor.v.as<float>(),
                     .master = tensor.master.as<float>(),
                     .n = tensor.param.numel(),
                     .decay = static_cast<float>(tensor.weight_decay),
                     .keep = static_cast<float>(1 - tensor.lr * tensor.weight_decay),
                     .step = static_cast<float>(tensor.lr / tensor.bias_correction1),
                     .root = static_cast<float>(std::sqrt(tensor.bias_correction2))});
  }
  const AdamWOptions options{static_cast<float>(1 - args.beta1), static_cast<float>(args.beta2),
                             static_cast<float>(1 - args.beta2), static_cast<float>(args.eps),
                             args.decoupled};
  for_batches({"adamw", stream, args.tensors.empty() ? View{} : args.tensors[0].param}, adamw_kernel, items,
              options, args.grad_scale.as<float>());
}

bool takes_adamw(const AdamWArgs& args) {
  return std::ranges::all_of(args.tensors, [](const AdamWTensor& t) {
    return is_float_or_half(t.param) && is_float_or_half(t.grad) && t.m.dtype == DType::f32;
  });
}

struct SgdItem {
  Elements param, grad;
  float *momentum, *master;  // either may be null
  std::int64_t n;
  float lr, weight_decay;
  bool first;
};
struct SgdOptions {
  float momentum, take;  // take: 1 - dampening
  bool nesterov;
};

__global__ void sgd_kernel(const __grid_constant__ Batch<SgdItem> batch, SgdOptions o,
                           const float* grad_scale) {
  std::int64_t begin = 0;
  const SgdItem& item = batch.mine(begin);
  const float scale = scale_or_one(grad_scale);
  over_chunk(begin, item.n, [&](std::int64_t i) {
    float p = item.master != nullptr ? item.master[i] : item.param.load(i);
    float g = item.grad.load(i) * scale + item.weight_decay * p;
    if (item.momentum != nullptr) {
      const float b = item.first ? g : o.momentum * item.momentum[i] + o.take * g;
      item.momentum[i] = b;
      g = o.nesterov ? g + o.momentum * b : b;
    }
    p -= item.lr * g;
    if (item.master != nullptr) item.master[i] = p;
    item.param.put(i, p);
  });
}

void run_sgd(const SgdArgs& args, Stream stream) {
  std::vector<SgdItem> items;
  for (const SgdTensor& tensor : args.tensors) {
    items.push_back({.param = tensor.param,
                     .grad = tensor.grad,
                     .momentum = tensor.momentum.as<float>(),
                     .master = tensor.master.as<float>(),
                     .n = tensor.param.numel(),
                     .lr = static_cast<float>(tensor.lr),
                     .weight_decay = static_cast<float>(tensor.weight_decay),
                     .first = tensor.first});
  }
  const SgdOptions options{static_cast<float>(args.momentum), static_cast<float>(1 - args.dampening),
                           args.nesterov};
  for_batches({"sgd", stream, args.tensors.empty() ? View{} : args.tensors[0].param}, sgd_kernel, items,
              options, args.grad_scale.as<float>());
}

bool takes_sgd(const SgdArgs& args) {
  return std::ranges::all_of(
      args.tensors, [](const SgdTensor& t) { return is_float_or_half(t.param) && is_float_or_half(t.grad); });
}

struct NormItem {
  Elements x;
  std::int64_t n;
  double* partials;  // one for each block of this tensor
};

__global__ void norm_parts_kernel(const __grid_constant__ Batch<NormItem> batch) {
  std::int64_t begin = 0;
  const NormItem& item = batch.mine(begin);
  double sum = 0;
  over_chunk(begin, item.n, [&](std::int64_t i) {
    const auto x = static_cast<double>(item.x.load(i));
    sum += x * x;
  });
  sum = Team<kBlock>::sum(sum);
  if (threadIdx.x == 0) item.partials[begin / kChunk] = sum;
}

__global__ void norm_kernel(const double* partials, std::int64_t n, float max_norm, float* norm,
                            float* clip) {
  double sum = 0;
  for (std::int64_t i = threadIdx.x; i < n; i += kBlock) sum += partials[i];
  sum = Team<kBlock>::sum(sum);
  if (threadIdx.x != 0) return;
  const double total = sqrt(sum);
  *norm = static_cast<float>(total);
  if (clip == nullptr) return;
  const double factor = static_cast<double>(max_norm) / (total + 1e-6);
  *clip = factor > 1.0 ? 1.0F : static_cast<float>(factor);  // a NaN stays one
}

void run_global_norm(const GlobalNormArgs& args, Stream stream) {
  const LaunchSite site{"global_norm", stream, args.tensors.empty() ? View{} : args.tensors[0]};
  std::vector<NormItem> items;
  auto* partials = args.partials.as<double>();
  for (const View& tensor : args.tensors) {
    items.push_back({.x = tensor, .n = tensor.numel(), .partials = partials});
    partials += (tensor.numel() + kNormBlock - 1) / kNormBlock;
  }
  for_batches(site, norm_parts_kernel, items);
  launch(site, norm_kernel, Size3{1}, Size3{kBlock}, 0, args.partials.as<double>(),
         norm_partials(args.tensors), static_cast<float>(args.max_norm), args.norm.as<float>(),
         args.clip.as<float>());
}

struct ScaleItem {
  Elements x;
  std::int64_t n;
};

__global__ void scale_all_kernel(const __grid_constant__ Batch<ScaleItem> batch, const float* factor,
                                 float limit) {
  std::int64_t begin = 0;
  const ScaleItem& item = batch.mine(begin);
  const float by = scale_or_one(factor);
  if (by == 1.0F && limit <= 0.0F) return;
  over_chunk(begin, item.n, [&](std::int64_t i) {
    float x = item.x.load(i) * by;
    if (limit > 0.0F) x = x > limit ? limit : x < -limit ? -limit : x;
    item.x.put(i, x);
  });
}

void run_scale_all(const ScaleAllArgs& args, Stream stream) {
  std::vector<ScaleItem> items;
  for (const View& tensor : args.tensors) items.push_back({.x = tensor, .n = tensor.numel()});
  for_batches({"scale_all", stream, args.tensors.empty() ? View{} : args.tensors[0]}, scale_all_kernel, items,
              args.factor.as<float>(), static_cast<float>(args.limit));
}

struct LerpItem {
  Elements from;
  float* to;
  std::int64_t n;
};

__global__ void lerp_all_kernel(const __grid_constant__ Batch<LerpItem> batch, float weight) {
  std::int64_t begin = 0;
  const LerpItem& item = batch.mine(begin);
  over_chunk(begin, item.n, [&](std::int64_t i) { item.to[i] += weight * (item.from.load(i) - item.to[i]); });
}

void run_lerp_all(const LerpAllArgs& args, Stream stream) {
  std::vector<LerpItem> items;
  for (const LerpTensor& tensor : args.tensors)
    items.push_back({.from = tensor.from, .to = tensor.to.as<float>(), .n = tensor.to.numel()});
  for_batches({"lerp_all", stream, args.tensors.empty() ? View{} : args.tensors[0].to}, lerp_all_kernel,
              items, static_cast<float>(args.weight));
}

bool takes_views(std::span<const View> tensors) { return std::ranges::all_of(tensors, is_float_or_half); }

}  // namespace

void register_optimizer() {
  adamw.add(DeviceType::cuda, {"cuda", ImplKind::cuda, takes_adamw, run_adamw});
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
