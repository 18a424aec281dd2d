#pragma once

#include <cstdint>
#include <span>

#include "ingot/nn/linear.h"
#include "ingot/nn/projection_group.h"

namespace ingot {

/// down(silu(gate)·up), down(gelu(up)), down(gelu(gate)·up), down(relu(up)²), down(gelu_erf(up)),
/// down(relu(up)), down(xielu(up)); gelu is the tanh approximation. xielu has parameters (nn/xielu.h): who
/// has them applies it, and neither function below.
enum class MlpKind : std::uint8_t { swiglu, gelu, geglu, relu2, gelu_erf, relu, xielu };
/// Whether there is a gate beside up.
constexpr bool is_gated(MlpKind kind) { return kind == MlpKind::swiglu || kind == MlpKind::geglu; }

/// What lies between the layers; `projected`: what gate and up give, or up alone.
Tensor activate(MlpKind kind, std::span<const Tensor> projected);

/// The feed-forward block of a transformer: [..., hidden] -> [..., hidden]. `in` holds gate and up, or up
/// alone (not is_gated). What lies between the layers is fused with their matmuls where their weights, the
/// device and the backward pass allow; with quantized weights, rows of the activation are quantized as they
/// are made.
Tensor feed_forward(const LinearInput& x, const ProjectionGroup& in, MlpKind kind, const Linear& down);

}  // namespace ingot
