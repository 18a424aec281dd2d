#include "ingot/nn/recipe/recipe_linear.h"

#include <utility>
#include <vector>

#include "ingot/autograd/node.h"
#include "ingot/base/scope.h"
#include "ingot/nn/saved_packed.h"
#include "ingot/ops/linear_operands.h"
#include "ingot/ops/random.h"
#include "ingot/ops/view.h"

namespace ingot {
namespace {

using RecipePtr = std::shared_ptr<const WeightRecipe>;

struct RecipeLinearNode final : Node {
  static constexpr const char* kName = "recipe_linear";
  RecipePtr of;
  SavedTensor codes, scale, weight;
  SavedPacked packed;  // or `weight`
  std::int64_t in;
  RngKey key;
  RecipeLinearNode(RecipePtr of_, const KeptInput& kept, const Tensor& weight_,
                   const quant::PackedPtr& packed_, RngKey key_)
      : of(std::move(of_)),
        codes(kept.codes),
        scale(kept.scale),
        weight(packed_ == nullptr ? SavedTensor(weight_) : SavedTensor()),
        packed(packed_),
        in(weight_.dim(1)),
        key(key_) {}
  std::string_view name() const override { return kName; }
  std::vector<SavedTensor*> saved() override {
    std::vector<SavedTensor*> all{&codes, &scale, &weight};
    for (SavedTensor* tensor : packed.tensors()) all.push_back(tensor);
    return all;
  }

  // Inputs: x, weight, bias.
  void backward(BackwardContext& ctx) override {
    const Tensor dy = reshape(ctx.grad(), {-1, ctx.grad().dim(-1)});
    if (ctx.needs(0) || ctx.needs(1)) matmul_gradients(ctx, dy);
    parameters_backward(ctx.stream(), dy.view(), {}, {}, ctx.slot(2));
  }

 private:
  void matmul_gradients(BackwardContext& ctx, const Tensor& dy) {
    const Recipe& recipe = of->recipe;
    const OperandRounding& rounding = operand_rounding(recipe.kind);
    const Operand gradient = rounding.gradient(dy, recipe, key);
    if (ctx.needs(0)) {
      const Operand w = rounding.weight(packed ? packed.values() : weight.get());
      const GradSlot dx = ctx.slot(0);
      multiply(gradient, w.transpose(), flattened(dx.view), dx.accumulate);
    }
    if (!ctx.needs(1)) return;
    const KeptInput kept{.codes = codes.get(), .scale = scale.defined() ? scale.get() : Tensor{}};
    const Operand dys = rounding.gradient_by_rows(dy, gradient, recipe, key),
                  xs = rounding.input_by_rows(kept, in, recipe);
    const GradSlot dweight = ctx.slot(1);
    multiply(dys, xs, dweight.view, dweight.accumulate);
  }
};

bool draws(const Recipe& recipe) {
  return recipe.kind == RecipeKind::nvfp4 && recipe.stochastic_rounding &&
         (grad_enabled() || recorded_later());
}

Tensor apply(const Tensor& x, const Tensor& weight, const quant::PackedPtr& packed, const Tensor& bias,
             const RecipePtr& of) {
  const Scope scope(ScopeKind::op, "recipe_linear");
  const LinearOperands o = linear_operands("recipe_linear", x, weight, bias);
  const OperandRounding& rounding = operand_rounding(of->recipe.kind);
  const RngKey key = draws(of->recipe) ? next_random_key() : RngKey{};
  const Tensor rows = reshape(o.x.detach(), {-1, o.weight.dim(1)});
  const KeptInput kept = rounding.keep(rows, *of);
  multiply(rounding.input(kept, o.weight.dim(1), of->recipe), rounding.weight(o.weight.detach()), o.flat_y(),
           false, o.bias.view());
  const Tensor none;
  return record<RecipeLinearNode>(o.y, {&o.x, packed == nullptr ? &o.weight : &none, &o.bias}, of, kept,
                                  o.weight, packed, key);
}

}  // namespace

Tensor recipe_linear(const Tensor& x, const Tensor& weight, const Tensor& bias,
                     const std::shared_ptr<const WeightRecipe>& recipe) {
  return apply(x, weight, nullptr, bias, recipe);
}

Tensor recipe_linear(const Tensor& x, const quant::PackedPtr& weight, const Tensor& bias,
                     const std::shared_ptr<const WeightRecipe>& recipe) {
  return apply(x, quant::values(*weight, x.dtype()), weight, bias, recipe);
}

}  // namespace ingot
