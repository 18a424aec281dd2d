#pragma once

#include <span>

#include "ingot/kernels/kernel.h"
#include "ingot/kernels/master_weight.h"
#include "ingot/kernels/quant_map_8bit.h"

namespace ingot::kernels {

// Optimizer steps work on all tensors of a model in one launch. All views are contiguous; the views of one
// tensor have one size. Arithmetic is in f32 (f64 for f64 parameters).

/// One parameter of an AdamW step. m, v: f32, or f64 for an f64 parameter; or u8, codes of kSignedMap and
/// kUnsignedMap (kernels/quant_map_8bit.h) with m_scale, v_scale [moment_blocks(n)] of f32, for a parameter
/// that is not f64. With `master`, of master_dtype(param.dtype), the step changes the master weight and
/// rounds it to the parameter, which is then of a half type.
struct AdamWTensor {
  View param, grad, m, v;
  View m_scale = {}, v_scale = {};
  View master = {};
  double lr = 0;
  double weight_decay = 0;
  double bias_correction1 = 1;  ///< 1 - beta1^t
  double bias_correction2 = 1;  ///< 1 - beta2^t
};

/// For every tensor, with g = grad * grad_scale and p the parameter (Loshchilov and Hutter 2019, as in
/// PyTorch):
///   decoupled: p -= lr * weight_decay * p;    coupled (Adam with L2): g += weight_decay * p
///   m += (1 - beta1) * (g - m);    v = beta2 * v + (1 - beta2) * g²
///   p -= lr / bias_correction1 * m / (sqrt(v) / sqrt(bias_correction2) + eps)
/// The parameter moves by the new m and v in full; these are rounded to codes afterwards.
/// grad_scale: one f32 on the device, or absent for 1.
struct AdamWArgs {
  std::span<const AdamWTensor> tensors;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  bool decoupled = true;
  View grad_scale = {};
};
inline Kernel<AdamWArgs> adamw("adamw");

/// Whether the moments are of dtypes that fit together and the parameter: both f32, or both u8 with scales.
inline bool has_moments(const AdamWTensor& t) {
  if (t.m.dtype != DType::u8) return t.m.dtype == accumulator_dtype(t.param.dtype) && t.v.dtype == t.m.dtype;
  const auto is_scale = [blocks = moment_blocks(t.m.numel())](const View& scale) {
    return scale.dtype == DType::f32 && scale.rank == 1 && scale.dim(0) == blocks;
  };
  return t.v.dtype == DType::u8 && is_scale(t.m_scale) && is_scale(t.v_scale) && t.param.dtype != DType::f64;
}

/// Whether `master` is absent, or what such a parameter's master weight is kept as.
inline bool is_master_of(const View& master, const View& param) {
  return !master || (is_half_precision(param.dtype) && master.dtype == master_dtype(param.dtype));
}

/// One parameter of an SGD step. `momentum`: the buffer, f32 (f64 for f64), absent without momentum; `first`
/// says that it holds nothing yet.
struct SgdTensor {
  View param, grad;
  View momentum = {};
  View master = {};
  double lr = 0;
  double weight_decay = 0;
  bool first = false;
};

/// For every tensor, with g = grad * grad_scale + weight_decay * p (as in PyTorch):
///   without momentum: p -= lr * g
///   else: b = first ? g : momentum * b + (1 - dampening) * g;    p -= lr * (nesterov ? g + momentum * b : b)
struct SgdArgs {
  std::span<const SgdTensor> tensors;
  double momentum = 0;
  double dampening = 0;
  bool nesterov = false;
  View grad_scale = {};
};
inline Kernel<SgdArgs> sgd("sgd");

/// Elements that share one partial sum of global_norm: the order of summation does not depend on threads.
inline constexpr std::int64_t kNormBlock = 16384;

/// How many partial sums global_norm needs.
inline std::int64_t norm_partials(std::span<const View> tensors) {
  std::int64_t blocks = 0;
  for (const View& tensor : tensors) blocks += (tensor.numel() + kNormBlock - 1) / kNormBlock;
  return blocks;
}

/// How many sums of blocks a launch of global_norm adds up.
inline std::int64_t norm_blocks(std::span<const View> tensors, const View& partials) {
  return tensors.empty() ? partials.numel() : norm_partials(tensors);
}

/// norm[0] = sqrt(sum of squares over all tensors), sums of blocks in f64.
/// clip[0] = min(1, max_norm / (norm + 1e-6)), if `clip` is present (PyTorch's clip_grad_norm_).
/// tensors: contiguous, floating; partials: [norm_partials(tensors)] of f64, which gets the sum of squares of
/// each block; norm, clip: one f32. Without tensors the partials are such sums already.
struct GlobalNormArgs {
  std::span<const View> tensors;
  View partials, norm;
  View clip = {};
  double max_norm = 0;
};
inline Kernel<GlobalNormArgs> global_norm("global_norm");

/// Every element is multiplied by `factor`, one f32 on the device (nothing is written where that is 1), and
/// then, if `limit` is positive, clamped to [-limit, limit]. factor absent: 1.
struct ScaleAllArgs {
  std::span<const View> tensors;
  View factor = {};
  double limit = 0;
};
inline Kernel<ScaleAllArgs> scale_all("scale_all");

struct LerpTensor {
  View from, to;
};

/// to += weight * (from - to), for every tensor. to: f32, or f64 where `from` is; from: floating.
struct LerpAllArgs {
  std::span<const LerpTensor> tensors;
  double weight = 0;
};
inline Kernel<LerpAllArgs> lerp_all("lerp_all");

}  // namespace ingot::kernels
