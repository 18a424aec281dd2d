#pragma once

#include <memory>

#include "ingot/core/tensor.h"
#include "ingot/nn/recipe/operand_rounding.h"
#include "ingot/quant/packed_matrix.h"

namespace ingot {

/// x·Wᵀ + bias and its gradients in a recipe's number formats. x: f32, bf16 or f16 [..., in]; weight: [out,
/// in]; bias: [out] or undefined. Gradients reach x, the weight and the bias as those of the rounded
/// operands. The bias and its gradient are not rounded. Throws ShapeMismatch.
Tensor recipe_linear(const Tensor& x, const Tensor& weight, const Tensor& bias,
                     const std::shared_ptr<const WeightRecipe>& recipe);
/// The same with the values of a quantized weight, which has no gradient.
Tensor recipe_linear(const Tensor& x, const quant::PackedPtr& weight, const Tensor& bias,
                     const std::shared_ptr<const WeightRecipe>& recipe);

}  // namespace ingot
