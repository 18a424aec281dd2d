// Training recipes: formats and matmuls against numbers that ml_dtypes, torch and NumPy made
// (tools/goldens/recipe_goldens.py), and what holds of a recipe wherever a weight is applied.
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/op_case.h"
#include "tests/support/source_dir.h"
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "ingot/autograd/engine.h"
#include "ingot/autograd/grad_mode.h"
#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/nn/feed_forward.h"
#include "ingot/nn/linear.h"
#include "ingot/nn/projection_group.h"
#include "ingot/nn/recipe/operand.h"
#include "ingot/nn/recipe/operand_rounding.h"
#include "ingot/nn/recipe/recipe_linear.h"
#include "ingot/nn/recipe/recipe_state.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/checkpoint.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/matmul.h"
#include "ingot/ops/random.h"
#include "ingot/ops/reduce.h"
#include "ingot/ops/view.h"
#include "ingot/quant/linear.h"
#include "ingot/quant/packed_matrix.h"

namespace ingot {
namespace {

using testing::max_error;
using testing::randn;

const nlohmann::json& goldens() {
  static const auto json =
      nlohmann::json::parse(read_file(test::source_dir() + "/tests/nn/recipe_goldens.json"));
  return json;
}

Tensor golden(const nlohmann::json& values, const Shape& shape) {
  return Tensor::from(values.get<std::vector<float>>(), shape);
}

// numbers() of the script.
Tensor numbers(const Shape& shape, std::int64_t seed) {
  std::vector<float> x(static_cast<std::size_t>(shape.numel()));
  for (std::int64_t i = 0; i < shape.numel(); ++i) {
    const auto whole = static_cast<float>((i * 7919 + seed * 104729) % 2003 - 1001);
    x[static_cast<std::size_t>(i)] = whole / 256.0F * (i % 37 == 5 ? 16.0F : 1.0F);
  }
  return Tensor::from(x, shape);
}

struct Layer {
  std::int64_t rows = goldens()["rows"], in = goldens()["in"], out = goldens()["out"];
  Tensor x = numbers({rows, in}, 1), w = numbers({out, in}, 2), dy = numbers({rows, out}, 3);
};

std::shared_ptr<const WeightRecipe> recipe_of(Recipe recipe) {
  return std::make_shared<const WeightRecipe>(
      WeightRecipe{.recipe = recipe, .input_scale = {}, .input_amax = {}});
}

Recipe current(RecipeKind kind) { return {.kind = kind, .fp8_scaling = Fp8Scaling::current}; }

constexpr RecipeKind kAll[] = {RecipeKind::bf16, RecipeKind::fp8_hybrid, RecipeKind::nvfp4,
                               RecipeKind::bitnet};

std::vector<std::uint8_t> bytes_of(const Tensor& x) {
  const auto* data = x.view().as<std::uint8_t>();
  return {data, data + x.nbytes()};
}

bool same_bits(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && bytes_of(contiguous(a)) == bytes_of(contiguous(b));
}

TEST(RecipeFormats, Fp8CodesAreThoseOfTorchAndMlDtypes) {
  const Layer l;
  for (const DType format : {DType::f8e4m3, DType::f8e5m2}) {
    const Tensor amax = largest_magnitude(l.x);
    const Operand rounded = round_to_fp8(l.x, fp8_scale(amax, format, amax), format);
    EXPECT_EQ(bytes_of(rounded.codes),
              goldens()[format == DType::f8e4m3 ? "e4m3" : "e5m2"].get<std::vector<std::uint8_t>>());
  }
}

TEST(RecipeFormats, Nvfp4IsTransformerEnginesInBlocksOfARowAndOfASquare) {
  const Layer l;
  for (const bool square : {false, true}) {
    const Tensor wanted = golden(goldens()[square ? "nvfp4_square" : "nvfp4_rows"], l.x.shape());
    EXPECT_EQ(max_error(round_to_nvfp4(l.x, {.square = square}).codes, wanted), 0) << square;
  }
}

TEST(RecipeFormats, StochasticRoundingHasTheNumberAsItsMean) {
  const Tensor one_row = randn({1, 16}, 3);
  const Tensor x = contiguous(broadcast_to(one_row, {4096, 16}));
  const Tensor drawn = values(round_to_nvfp4(x, {.stochastic = true, .key = {.seed = 5, .stream = 1}}));
  const Tensor nearest = values(round_to_nvfp4(x, {}));
  EXPECT_LT(max_error(mean(drawn, {0}, true), one_row), 0.02);
  EXPECT_GT(max_error(mean(nearest, {0}, true), one_row), 0.05);  // what is lost without it
  const Tensor again = values(round_to_nvfp4(x, {.stochastic = true, .key = {.seed = 5, .stream = 1}}));
  EXPECT_TRUE(same_bits(drawn, again));
}

TEST(RecipeFormats, TheHadamardTransformIsThatOfTheScriptAndKeepsProducts) {
  const Layer l;
  const Tensor x = hadamard_by_rows(l.x), dy = hadamard_by_rows(l.dy);
  EXPECT_LT(max_error(x, golden(goldens()["hadamard"], {l.in, 32})), 1e-6);
  const Tensor kept = matmul(dy, transpose(x, 0, 1)), plain = matmul(transpose(l.dy, 0, 1), l.x);
  const double largest = largest_magnitude(plain).item();
  EXPECT_LT(max_error(kept * (1 / largest), plain * (1 / largest)), 1e-6);
}

TEST(RecipeFormats, ZerosStayZerosAndNumbersThatAreNoneShow) {
  const Tensor zeros = Tensor::zeros({3, 40}), one = Tensor::zeros({1}) + 1.0;
  Tensor broken = randn({3, 40}, 1);
  broken.data<float>()[50] = NAN;
  const auto fp8 = [&](const Tensor& x) {
    return round_to_fp8(x, fp8_scale(largest_magnitude(x), DType::f8e4m3, one), DType::f8e4m3);
  };
  const auto is_nan_at_50 = [](const Tensor& x) { return std::isnan(contiguous(x).data<float>()[50]); };
  EXPECT_EQ(max_error(values(fp8(zeros)), zeros), 0);
  EXPECT_EQ(max_error(values(round_to_nvfp4(zeros, {})), zeros), 0);
  EXPECT_EQ(max_error(values(round_to_ternary(zeros)), zeros), 0);
  EXPECT_EQ(max_error(values(int8_operand(round_to_int8(zeros, 0), 40, 0)), zeros), 0);
  EXPECT_TRUE(is_nan_at_50(values(fp8(broken))));
  EXPECT_TRUE(is_nan_at_50(values(round_to_nvfp4(broken, {}))));
  EXPECT_TRUE(is_nan_at_50(values(int8_operand(round_to_int8(broken, 0), 40, 0))));
}

TEST(RecipeLinear, MatmulsAndGradientsAreThoseOfTheRoundedOperands) {
  for (const RecipeKind kind : kAll) {
    SCOPED_TRACE(name(kind));
    Layer l;
    Tensor bias = randn({l.out}, 4);
    for (Tensor* leaf : {&l.x, &l.w, &bias}) leaf->set_requires_grad(true);
    Recipe recipe = current(kind);
    recipe.stochastic_rounding = false;
    const Tensor y = recipe_linear(l.x, l.w, bias, recipe_of(recipe));
    backward(y, {.grad = l.dy});
    const nlohmann::json& wanted = goldens()["recipes"][std::string(name(kind))];
    EXPECT_LT(max_error(y - bias, golden(wanted["y"], y.shape())), 1e-5);
    EXPECT_LT(max_error(l.x.grad(), golden(wanted["dx"], l.x.shape())), 1e-5);
    EXPECT_LT(max_error(l.w.grad(), golden(wanted["dw"], l.w.shape())), 1e-5);
    EXPECT_LT(max_error(bias.grad(), sum(l.dy, {0})), 1e-5);
  }
}

TEST(RecipeLinear, GradientsAddToThoseThatAreThereInEveryDtype) {
  for (const RecipeKind kind : kAll) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      SCOPED_TRACE(std::string(name(kind)) + " " + std::string(name(dtype)));
      Recipe recipe = current(kind);
      recipe.stochastic_rounding = false;
      Tensor x = randn({2, 9, 24}, 1, dtype), w = randn({16, 24}, 2, dtype);
      for (Tensor* leaf : {&x, &w}) leaf->set_requires_grad(true);
      const Tensor dy = randn({2, 9, 16}, 3, dtype);
      backward(recipe_linear(x, w, {}, recipe_of(recipe)), {.grad = dy});
      const Tensor dx = clone(x.grad()), dw = clone(w.grad());
      backward(recipe_linear(x, w, {}, recipe_of(recipe)), {.grad = dy});
      EXPECT_LT(max_error(x.grad(), dx + dx), dtype == DType::f32 ? 1e-6 : 1e-2);
      EXPECT_LT(max_error(w.grad(), dw + dw), dtype == DType::f32 ? 1e-6 : 1e-2);
    }
  }
}

TEST(RecipeLinear, AQuantizedBaseGivesTheInputTheGradientOfItsValues) {
  const Tensor w = randn({32, 64}, 2), dy = randn({5, 32}, 3);
  const quant::PackedPtr packed = quant::quantize_and_pack(w, "q8_0");
  for (const RecipeKind kind : kAll) {
    SCOPED_TRACE(name(kind));
    Recipe recipe = current(kind);
    recipe.stochastic_rounding = false;
    Tensor x = randn({5, 64}, 1), same = randn({5, 64}, 1);
    for (Tensor* leaf : {&x, &same}) leaf->set_requires_grad(true);
    const Tensor y = recipe_linear(x, packed, {}, recipe_of(recipe));
    const Tensor dense = recipe_linear(same, quant::values(*packed), {}, recipe_of(recipe));
    EXPECT_TRUE(same_bits(y, dense));
    backward(y, {.grad = dy});
    backward(dense, {.grad = dy});
    EXPECT_TRUE(same_bits(x.grad(), same.grad()));
  }
}

struct Block {
  explicit Block(const ParamSource& source)
      : in(source,
           {{"gate", {.in = 32, .out = 48, .bias = false}}, {"up", {.in = 32, .out = 48, .bias = false}}}),
        down(source.scope("down"), {.in = 48, .out = 32, .bias = false}) {}
  void visit(ParamVisitor& v) {
    v("", in);
    v("down", down);
  }
  Tensor operator()(const Tensor& x) const { return feed_forward(x, in, MlpKind::swiglu, down); }
  ProjectionGroup in;
  Linear down;
};

std::vector<Tensor> gradients_of(Block& block, const Tensor& x, bool recomputed, std::uint64_t step) {
  zero_grad(block);
  const RandomScope random(7, step);
  const auto run = [&block](const Tensor& input) { return block(input); };
  const Tensor y = recomputed ? checkpoint(run, x) : run(x);
  backward(y, {.grad = randn(y.shape(), 5)});
  std::vector<Tensor> results{y};
  for (const Parameter* parameter : parameters(block)) results.push_back(clone(parameter->grad()));
  return results;
}

TEST(RecipeState, EveryPathOfAFeedForwardNetworkTakesIt) {
  InitSource source(1);
  Block block(source);
  const Tensor x = randn({6, 32}, 2);
  const NoGrad no_grad;
  const Tensor plain = block(x);
  const RecipeState state(Recipe::from_name("bitnet"), named_weights(block));
  const auto apply = [](const Linear& layer, const Tensor& input) {
    return recipe_linear(input, layer.weight.dense.value, {}, recipe_of(Recipe::from_name("bitnet")));
  };
  const Tensor wanted = apply(block.down, silu_mul(apply(block.in[0], x), apply(block.in[1], x)));
  EXPECT_TRUE(same_bits(block(x), wanted));
  EXPECT_GT(max_error(plain, wanted), 1e-3);
}

TEST(RecipeState, RecomputationHasTheSameBits) {
  for (const char* recipe : {"bf16", "fp8_hybrid", "nvfp4", "bitnet"}) {
    SCOPED_TRACE(recipe);
    InitSource source(1);
    Block block(source);
    RecipeState state(Recipe::from_name(recipe), named_weights(block));
    Tensor x = randn({20, 32}, 2);
    x.set_requires_grad(true);
    static_cast<void>(gradients_of(block, x, false, 0));
    state.end_step();
    const std::vector<Tensor> kept = gradients_of(block, x, false, 1),
                              again = gradients_of(block, x, true, 1);
    for (std::size_t i = 0; i < kept.size(); ++i) EXPECT_TRUE(same_bits(kept[i], again[i])) << i;
  }
}

TEST(RecipeState, DelayedScalesFollowTheLargestMagnitudeOfTheLastSteps) {
  InitSource source(1);
  Linear layer(source, {.in = 8, .out = 4, .bias = false});
  Recipe recipe = Recipe::from_name("fp8_hybrid");
  recipe.fp8_amax_history = 2;
  RecipeState state(recipe, named_weights(layer));
  const auto scale = [&] { return state.state().at("input_scale").data<float>()[0]; };
  const auto step = [&](float magnitude) {
    Tensor x = Tensor::zeros({3, 8});
    x.data<float>()[3] = -magnitude;
    static_cast<void>(layer(x));
    {
      const NoGrad evaluation;  // which leaves no trace
      static_cast<void>(layer(x * 100.0));
    }
    state.end_step();
    return scale();
  };
  EXPECT_EQ(scale(), 1);
  EXPECT_EQ(step(7), 64);
  EXPECT_EQ(step(14), 32);
  EXPECT_EQ(step(7), 32);
  EXPECT_EQ(step(7), 64);
  EXPECT_EQ(step(0), 64);
  EXPECT_EQ(step(0), 64) << "nothing but zeros: the old one stays";
  EXPECT_EQ(step(INFINITY), 64);
}

TEST(RecipeState, GoesOnBitForBitFromWhatItSavedAndRefusesAnother) {
  InitSource source(1), same(1);
  Block block(source), other(same);
  RecipeState state(Recipe::from_name("fp8_hybrid"), named_weights(block));
  Tensor x = randn({20, 32}, 2);
  x.set_requires_grad(true);
  for (std::uint64_t step = 0; step < 3; ++step) {
    static_cast<void>(gradients_of(block, x * static_cast<double>(step + 1), false, step));
    state.end_step();
  }
  RecipeState resumed(Recipe::from_name("fp8_hybrid"), named_weights(other));
  resumed.load(state.state());
  const std::vector<Tensor> wanted = gradients_of(block, x, false, 9), got = gradients_of(other, x, false, 9);
  for (std::size_t i = 0; i < wanted.size(); ++i) EXPECT_TRUE(same_bits(got[i], wanted[i])) << i;
  Recipe longer = Recipe::from_name("fp8_hybrid");
  longer.fp8_amax_history = 4;
  RecipeState refusing(longer, named_weights(other));
  EXPECT_THROW(refusing.load(state.state()), InvalidConfig);
  EXPECT_THROW(refusing.load({}), InvalidConfig);
}

TEST(RecipeState, ABitnetLayerRunsInTheTernaryFormatWithTheSameResults) {
  InitSource source(1);
  Linear layer(source, {.in = 96, .out = 40, .bias = false});
  const Tensor& w = layer.weight.dense.value;
  const quant::PackedPtr ternary = quant::quantize_and_pack(w, "ternary");
  EXPECT_EQ(max_error(quant::values(*ternary), values(round_to_ternary(w))), 0);
  const Tensor x = randn({7, 96}, 2);
  const NoGrad no_grad;
  const Tensor run = quant::linear(x, *ternary);
  for (const std::int64_t block : {0, 32}) {
    Recipe recipe = Recipe::from_name("bitnet");
    recipe.int8_block = block;
    const RecipeState state(recipe, named_weights(layer));
    EXPECT_LT(max_error(layer(x), run), block == 32 ? 1e-6 : 1e-2) << block;
  }
}

TEST(Recipe, NamesAndSettingsThatThereAreNotAreRefusedByKey) {
  EXPECT_EQ(Recipe::from_name("fp8-hybrid").kind, RecipeKind::fp8_hybrid);
  EXPECT_THROW(static_cast<void>(Recipe::from_name("fp16")), InvalidConfig);
  Recipe recipe = Recipe::from_name("bitnet");
  recipe.skip_first_layers = 1;
  EXPECT_THROW(recipe.validate(), InvalidConfig);
  recipe = Recipe::from_name("bitnet");
  recipe.int8_block = 64;
  EXPECT_THROW(recipe.validate(), InvalidConfig);
}

}  // namespace
}  // namespace ingot
