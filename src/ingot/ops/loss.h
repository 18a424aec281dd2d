#pragma once

#include <cstdint>

#include "ingot/core/tensor.h"

namespace ingot {

enum class Reduction : std::uint8_t { mean, sum, none };

struct CrossEntropyLoss {
  /// Targets with this value count for nothing.
  std::int64_t ignore_index = -100;
  float label_smoothing = 0.0F;
  /// Adds z_loss·lse² (PaLM, Chowdhery et al. 2022): keeps the logits from drifting.
  float z_loss = 0.0F;
  /// Logits become softcap·tanh(logits / softcap); 0: off.
  float softcap = 0.0F;
  Reduction reduction = Reduction::mean;
  /// With `mean`: what the sum is divided by, one f32 on the targets' device; undefined: the number of
  /// targets here that are not ignored. A step of several micro-batches or ranks gives the count of all of
  /// them.
  Tensor denominator = {};
};

/// −log softmax(logits)[target], fused: no probabilities are kept. logits: [..., V]; targets: [...], i64 or
/// i32. Returns a scalar, or [...] without reduction; f32 (f64 for f64). Where every target is ignored the
/// mean is 0. Throws ShapeMismatch, and KernelError for a target outside the vocabulary.
Tensor cross_entropy(const Tensor& logits, const Tensor& targets, const CrossEntropyLoss& options = {});

struct LinearCrossEntropyLoss : CrossEntropyLoss {
  /// Tokens whose logits exist at one time; 0: linear_cross_entropy_chunk of them.
  std::int64_t chunk = 0;
};

/// The bytes of logits that linear_cross_entropy holds at one time: 96 MiB, or, on a GPU that has more, a
/// 64th of its memory up to 2 GiB.
std::int64_t logits_budget(Device device);

/// How many classes its matmuls have: some of zeros behind the others, up to a multiple of the device's
/// matmul_alignment. For 50257 of GPT-2 cuBLASLt takes kernels several times as slow as for 50304 (on an
/// H200).
std::int64_t linear_cross_entropy_classes(std::int64_t classes, std::int64_t alignment);
/// How many tokens' logits linear_cross_entropy holds at one time: what `budget` bytes hold, or those of 64
/// tokens; in multiples of 64, and as even as that allows. Every chunk reads and writes the gradient of the
/// weight, and rounds it, so few are fast and exact.
std::int64_t linear_cross_entropy_chunk(std::int64_t tokens, std::int64_t classes, DType dtype,
                                        std::int64_t budget);

/// cross_entropy(linear(x, weight), targets) in chunks of tokens that turn logits into gradients in place, so
/// all logits never exist at once (as Liger Kernel does, Hsu et al. 2024). The gradients of x and weight are
/// made during the forward pass, where they are needed; backward scales them. x: [..., in]; weight: [V, in];
/// targets: [...]. No Reduction::none.
Tensor linear_cross_entropy(const Tensor& x, const Tensor& weight, const Tensor& targets,
                            const LinearCrossEntropyLoss& options = {});

/// Losses of pairs: input and target of one shape. With `none` the result has that shape; gradients reach
/// both.
Tensor mse_loss(const Tensor& input, const Tensor& target, Reduction reduction = Reduction::mean);
Tensor l1_loss(const Tensor& input, const Tensor& target, Reduction reduction = Reduction::mean);
/// ½d² up to |d| = delta, then delta·(|d| − ½delta).
Tensor huber_loss(const Tensor& input, const Tensor& target, float delta = 1.0F,
                  Reduction reduction = Reduction::mean);
/// Binary cross-entropy of probabilities.
Tensor bce_loss(const Tensor& input, const Tensor& target, Reduction reduction = Reduction::mean);
/// Binary cross-entropy of sigmoid(input), without overflow.
Tensor bce_with_logits_loss(const Tensor& input, const Tensor& target, Reduction reduction = Reduction::mean);

}  // namespace ingot
