#pragma once

#include "ingot/core/tensor.h"

namespace ingot {

/// A minibatch of decisions, on the model's device.
struct PpoBatch {
  Tensor legal;            ///< f32, 1 or 0, [batch, actions]
  Tensor action;           ///< i64, [batch]
  Tensor log_probability;  ///< of the action when it was taken, [batch]
  Tensor advantage;        ///< [batch]
  Tensor target;           ///< of the critic, [batch]
  Tensor anchor = {};      ///< masked log-probabilities of the anchor, [batch, actions]; undefined: none
};

struct PpoCoefficients {
  double clip = 0.2;   ///< probability ratios count within 1 ± clip
  double value = 0.5;  ///< times ½(value − target)²
  double entropy = 0.01;
  double anchor = 0;  ///< times KL(policy ‖ anchor)
  /// Both policies of that KL are softened by it: logits / τ, and the KL counts τ² times, so that its
  /// gradients stay as large (Hinton et al. 2015).
  double anchor_temperature = 1;
};

/// Scalars, means over the batch.
struct PpoLoss {
  Tensor total;    ///< policy + value·½(V − target)² − entropy·H + anchor·KL
  Tensor policy;   ///< −min(r·A, clip(r)·A)
  Tensor value;    ///< ½(V − target)², not clipped
  Tensor entropy;  ///< of the policy over legal actions, nats
  Tensor kl;       ///< of the policy that acted and this one, estimated: (r − 1) − log r (Schulman 2020)
  Tensor clipped;  ///< share of ratios outside 1 ± clip
  Tensor anchor;   ///< τ²·KL(policy ‖ anchor) at the anchor's temperature τ; 0 without one
};

/// Proximal policy optimization (Schulman et al. 2017) over masked actions. logits: [batch, actions];
/// value: [batch].
PpoLoss ppo_loss(const Tensor& logits, const Tensor& value, const PpoBatch& batch,
                 const PpoCoefficients& coefficients);

}  // namespace ingot
