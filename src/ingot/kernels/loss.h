#pragma once

#include "ingot/kernels/kernel.h"

namespace ingot::kernels {

/// count[0] = how many targets are not ignore_index. targets: [N], i64 or i32; count: [1], f32. On the CPU a
/// target outside [0, classes) that is not ignore_index throws KernelError naming its position.
struct CountTargetsArgs {
  View targets, count;
  std::int64_t classes = 0;
  std::int64_t ignore_index = -100;
};
inline Kernel<CountTargetsArgs> count_targets("count_targets");

/// The parts of a cross-entropy that its forward and backward kernels share. With x the logits of a row
/// (softcap·tanh(x / softcap) where softcap > 0), t its target and lse = log Σ exp(x):
///   loss = lse − (1 − ε)·x[t] − ε·mean(x) + z·lse²
struct CrossEntropyOptions {
  std::int64_t ignore_index = -100;
  float label_smoothing = 0.0F;  ///< ε
  float z_loss = 0.0F;           ///< z (PaLM, Chowdhery et al. 2022)
  float softcap = 0.0F;
};

/// logits: [N, V], adjacent last axis; targets: [N]; loss: [N] f32 (f64 for f64), 0 where ignored; lse: [N],
/// like loss, or absent. dlogits: [N, V], absent or the gradient of Σ loss / denominator[0]; may be logits.
struct CrossEntropyArgs {
  View logits, targets, loss;
  View lse{}, dlogits{}, denominator{};
  CrossEntropyOptions options{};
};
inline Kernel<CrossEntropyArgs> cross_entropy("cross_entropy");

/// dlogits (+)= the gradient of Σ loss·dloss / denominator[0]. dloss: [N], or [1] for all rows; denominator:
/// [1], or absent for 1.
struct CrossEntropyBackwardArgs {
  View logits, targets, lse, dloss, dlogits;
  View denominator{};
  CrossEntropyOptions options{};
  bool accumulate = false;
};
inline Kernel<CrossEntropyBackwardArgs> cross_entropy_backward("cross_entropy_backward");

/// y[0] = Σ x / denominator[0] (1 where absent; 0 where that is 0: no valid target, no loss). x: [N], y: [1],
/// f32 or f64; denominator: f32.
struct TotalArgs {
  View x, y;
  View denominator{};
};
inline Kernel<TotalArgs> total("total");

/// y = x·factor[0], or += with `accumulate`; contiguous, y may be x. factor: [1], any floating dtype.
struct ScaleByArgs {
  View x, factor, y;
  bool accumulate = false;
};
inline Kernel<ScaleByArgs> scale_by("scale_by");

enum class PointwiseLoss : std::uint8_t { mse, l1, huber, bce, bce_with_logits };

/// loss of each pair; mse: (x − t)²; l1: |x − t|; huber: ½d² up to |d| = δ, then δ·(|d| − ½δ); bce:
/// −t·log x − (1 − t)·log(1 − x), logs at least −100; bce_with_logits: bce of sigmoid(x).
/// x, target: contiguous, one dtype. loss: like x, or [1] for Σ loss·scale (f32; f64 for f64), with partials:
/// scratch of [scratch_parts(device)] like it.
struct PointwiseLossArgs {
  View x, target, loss;
  View partials{};
  PointwiseLoss kind = PointwiseLoss::mse;
  float delta = 1.0F;
  double scale = 1.0;
};
inline Kernel<PointwiseLossArgs> pointwise_loss("pointwise_loss");

/// Gradients; dloss like loss above. dx and dtarget may be absent.
struct PointwiseLossBackwardArgs {
  View x, target, dloss;
  View dx{}, dtarget{};
  PointwiseLoss kind = PointwiseLoss::mse;
  float delta = 1.0F;
  double scale = 1.0;
  bool accumulate_dx = false;
  bool accumulate_dtarget = false;
};
inline Kernel<PointwiseLossBackwardArgs> pointwise_loss_backward("pointwise_loss_backward");

}  // namespace ingot::kernels
