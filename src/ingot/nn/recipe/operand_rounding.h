#pragma once

#include "ingot/base/rng.h"
#include "ingot/nn/recipe/operand.h"
#include "ingot/nn/recipe/recipe.h"

namespace ingot {

/// The recipe of one weight, and what of it changes from step to step.
struct WeightRecipe {
  Recipe recipe;
  /// fp8_hybrid with delayed scaling, else undefined: what the input is multiplied with, f32 [1], and the
  /// largest magnitude that it has had in this step, f32 [1].
  Tensor input_scale, input_amax;
};

/// What is kept of a layer's input for the backward pass.
struct KeptInput {
  Tensor codes, scale;
};

/// How a recipe rounds the operands of a linear layer's three matmuls: y = x·Wᵀ, dx = dy·W, dW = dyᵀ·x.
/// x: [rows, in], W: [out, in], dy: [rows, out].
class OperandRounding {
 public:
  virtual ~OperandRounding() = default;

  virtual KeptInput keep(const Tensor& x, const WeightRecipe& of) const = 0;
  /// x of what was kept of it. `of` is the same as then.
  virtual Operand input(const KeptInput& kept, std::int64_t in, const Recipe& of) const;
  virtual Operand weight(const Tensor& w) const = 0;
  /// `key`: of the random numbers that rounding takes.
  virtual Operand gradient(const Tensor& dy, const Recipe& of, RngKey key) const = 0;
  /// The operands of dW, transposed: their depth are the rows.
  virtual Operand input_by_rows(const KeptInput& kept, std::int64_t in, const Recipe& of) const;
  virtual Operand gradient_by_rows(const Tensor& dy, const Operand& gradient, const Recipe& of,
                                   RngKey key) const;
};

/// Throws where the kind is none.
const OperandRounding& operand_rounding(RecipeKind kind);

}  // namespace ingot
