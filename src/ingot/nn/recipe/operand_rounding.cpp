#include "ingot/nn/recipe/operand_rounding.h"

#include "ingot/autograd/grad_mode.h"
#include "ingot/base/error.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/view.h"

namespace ingot {
namespace {

class Bf16Rounding final : public OperandRounding {
 public:
  KeptInput keep(const Tensor& x, const WeightRecipe&) const override {
    return {.codes = round_to_bf16(x).codes, .scale = {}};
  }
  Operand weight(const Tensor& w) const override { return round_to_bf16(w); }
  Operand gradient(const Tensor& dy, const Recipe&, RngKey) const override { return round_to_bf16(dy); }
};

// Rounded with the scale that its own largest magnitude asks for.
Operand round_just_in_time(const Tensor& x, DType format) {
  const Tensor amax = largest_magnitude(x);
  const Tensor one = Tensor::zeros({1}, DType::f32, x.device()) + 1.0;
  return round_to_fp8(x, fp8_scale(amax, format, one), format);
}

class Fp8Rounding final : public OperandRounding {
 public:
  KeptInput keep(const Tensor& x, const WeightRecipe& of) const override {
    const Operand rounded = of.input_scale.defined() ? delayed(x, of) : round_just_in_time(x, DType::f8e4m3);
    return {.codes = rounded.codes, .scale = rounded.scale};
  }
  Operand weight(const Tensor& w) const override { return round_just_in_time(w, DType::f8e4m3); }
  // Gradients change too much from step to step for the scale of the last ones.
  Operand gradient(const Tensor& dy, const Recipe&, RngKey) const override {
    return round_just_in_time(dy, DType::f8e5m2);
  }

 private:
  // The step's largest magnitude is the same however often an input is seen, as recomputation does.
  static Operand delayed(const Tensor& x, const WeightRecipe& of) {
    if (grad_enabled() || recorded_later()) {
      const NoGrad no_grad;
      copy_(of.input_amax, maximum(of.input_amax, largest_magnitude(x)));
    }
    return round_to_fp8(x, of.input_scale, DType::f8e4m3);
  }
};

class BitnetRounding final : public OperandRounding {
 public:
  KeptInput keep(const Tensor& x, const WeightRecipe& of) const override {
    return {.codes = round_to_int8(x, of.recipe.int8_block), .scale = {}};
  }
  Operand input(const KeptInput& kept, std::int64_t in, const Recipe& of) const override {
    return int8_operand(kept.codes, in, of.int8_block);
  }
  Operand weight(const Tensor& w) const override { return round_to_ternary(w); }
  Operand gradient(const Tensor& dy, const Recipe&, RngKey) const override { return unrounded(dy); }
  // Scales of rows are within the sum over rows.
  Operand input_by_rows(const KeptInput& kept, std::int64_t in, const Recipe& of) const override {
    return unrounded(values(input(kept, in, of))).transpose();
  }
};

class Nvfp4Operands final : public OperandRounding {
 public:
  // Blocks run along another axis in the weight's gradient, so the input itself is kept and rounded twice.
  KeptInput keep(const Tensor& x, const WeightRecipe&) const override { return {.codes = x, .scale = {}}; }
  Operand input(const KeptInput& kept, std::int64_t, const Recipe&) const override {
    return round_to_nvfp4(kept.codes, {});
  }
  // Square blocks: the same numbers by rows and by columns.
  Operand weight(const Tensor& w) const override { return round_to_nvfp4(w, {.square = true}); }
  Operand gradient(const Tensor& dy, const Recipe& of, RngKey key) const override {
    return round_to_nvfp4(dy, {.stochastic = of.stochastic_rounding, .key = key});
  }
  Operand input_by_rows(const KeptInput& kept, std::int64_t, const Recipe& of) const override {
    return round_to_nvfp4(by_rows(kept.codes, of), {});
  }
  Operand gradient_by_rows(const Tensor& dy, const Operand&, const Recipe& of, RngKey key) const override {
    const RngKey own{.seed = key.seed, .stream = mix_stream(key.stream, 1)};
    return round_to_nvfp4(by_rows(dy, of), {.stochastic = of.stochastic_rounding, .key = own});
  }

 private:
  static Tensor by_rows(const Tensor& x, const Recipe& of) {
    return of.hadamard ? hadamard_by_rows(x) : contiguous(transpose(x.detach(), 0, 1));
  }
};

}  // namespace

Operand OperandRounding::input(const KeptInput& kept, std::int64_t, const Recipe&) const {
  return {.codes = kept.codes, .scale = kept.scale};
}

Operand OperandRounding::input_by_rows(const KeptInput& kept, std::int64_t in, const Recipe& of) const {
  return input(kept, in, of).transpose();
}

Operand OperandRounding::gradient_by_rows(const Tensor&, const Operand& gradient, const Recipe&,
                                          RngKey) const {
  return gradient.transpose();
}

const OperandRounding& operand_rounding(RecipeKind kind) {
  static const Bf16Rounding bf16;
  static const Fp8Rounding fp8;
  static const BitnetRounding bitnet;
  static const Nvfp4Operands nvfp4;
  switch (kind) {
    case RecipeKind::bf16:
      return bf16;
    case RecipeKind::fp8_hybrid:
      return fp8;
    case RecipeKind::bitnet:
      return bitnet;
    case RecipeKind::nvfp4:
      return nvfp4;
    case RecipeKind::none:
      break;
  }
  throw Error("a weight has a recipe that rounds nothing");
}

}  // namespace ingot
