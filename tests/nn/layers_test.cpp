// Modules equal the ops they stand for, with their own parameters, and give them gradients.
#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <string>

#include "tests/support/op_case.h"
#include <gtest/gtest.h>

#include "ingot/autograd/engine.h"
#include "ingot/autograd/grad_mode.h"
#include "ingot/base/error.h"
#include "ingot/core/contiguous_rows.h"
#include "ingot/kernels/instruction_set.h"
#include "ingot/nn/activation.h"
#include "ingot/nn/conv.h"
#include "ingot/nn/dropout.h"
#include "ingot/nn/embedding.h"
#include "ingot/nn/linear.h"
#include "ingot/nn/norm.h"
#include "ingot/nn/projection_group.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/matmul.h"
#include "ingot/ops/random.h"
#include "ingot/ops/reduce.h"
#include "ingot/ops/view.h"

namespace ingot {
namespace {

using testing::max_error;
using testing::randn;

void expect_gradients(ModuleRef module, const Tensor& y) {
  backward(y, {.grad = randn(y.shape(), 77)});
  for (Parameter* p : parameters(module)) {
    ASSERT_TRUE(p->grad().defined()) << p->name;
    EXPECT_EQ(p->grad().shape(), p->shape()) << p->name;
  }
}

std::vector<std::string> names(ModuleRef module) {
  std::vector<std::string> result;
  for (auto& [name, parameter] : named_parameters(module)) result.push_back(name);
  return result;
}

TEST(Linear, IsXTimesTheTransposedWeightPlusBias) {
  InitSource source(1);
  Linear linear(source, {.in = 6, .out = 4}),
      plain(ParamSource(source).scope("plain"), {.in = 6, .out = 4, .bias = false});
  const Tensor x = randn({2, 3, 6}, 1);
  const Tensor y = linear(x);
  ASSERT_EQ(y.shape(), (Shape{2, 3, 4}));
  double sum = linear.bias.value.data<float>()[1];
  for (int k = 0; k < 6; ++k) sum += x.data<float>()[6 + k] * linear.weight.dense.value.data<float>()[6 + k];
  EXPECT_NEAR(y.data<float>()[4 + 1], sum, 1e-5);
  expect_gradients(linear, y);
  expect_gradients(plain, plain(x));
  EXPECT_EQ(names(plain), std::vector<std::string>{"weight"});
}

Tensor concatenated(const ProjectionGroup& group) {
  std::vector<Tensor> weights;
  for (std::size_t i = 0; i < group.size(); ++i) weights.push_back(group[i].weight.dense.value);
  return contiguous_rows(weights);
}

ProjectionGroup group_of(const std::vector<std::int64_t>& outs, std::int64_t in, bool bias) {
  InitSource source(1);
  std::vector<ProjectionGroup::Layer> layers;
  for (const std::int64_t out : outs)
    layers.push_back({std::to_string(layers.size()), {.in = in, .out = out, .bias = bias}});
  return {source, std::move(layers)};
}

TEST(ProjectionGroup, ConcatenatedWeightsKeepTheirValuesAndTrainWithOneMatmul) {
  for (const bool bias : {false, true}) {
    ProjectionGroup group = group_of({32, 16, 16}, 8, bias);
    const Tensor before = clone(group[1].weight.dense.value.detach());
    const Tensor x = randn({3, 8}, 1);
    const std::vector<Tensor> apart = group.each(x);
    EXPECT_FALSE(group.is_fused());
    group.concatenate_weights();
    EXPECT_EQ(concatenated(group).shape(), (Shape{64, 8}));
    EXPECT_EQ(max_error(group[1].weight.dense.value, before), 0.0);
    const Tensor y = group(x).fused;
    ASSERT_TRUE(y.defined());
    EXPECT_LE(max_error(y, concat(apart, 1)), 1e-6);
    backward(y, {.grad = randn(y.shape(), 2)});
    for (std::size_t i = 0; i < group.size(); ++i) {
      ASSERT_TRUE(group[i].weight.dense.grad().defined());
      EXPECT_EQ(group[i].weight.dense.grad().shape(), group[i].weight.shape());
      EXPECT_EQ(group[i].bias.grad().defined(), bias);
    }
  }
}

TEST(ProjectionGroup, WeightsThatAreNotAlikeStayWhereTheyAre) {
  ProjectionGroup frozen = group_of({32, 16}, 8, false);
  frozen[1].weight.dense.set_trainable(false);
  ProjectionGroup unaligned = group_of({3, 16}, 8, true);  // a bias of 12 bytes: the next begins anywhere
  ProjectionGroup quantized = group_of({32, 16}, 8, false);
  quantized[1].weight.packed = quant::pack_f32(quantized[1].weight.dense.value.detach());
  for (ProjectionGroup* group : {&frozen, &unaligned, &quantized}) {
    const void* const before = (*group)[1].weight.dense.value.view().data;
    group->concatenate_weights();
    EXPECT_EQ((*group)[1].weight.dense.value.view().data, before);
    EXPECT_FALSE(concatenated(*group).defined());
  }
}

// A group of layers with weights of these formats; "" stands for a dense one.
ProjectionGroup quantized_group(const std::vector<std::string>& formats, std::int64_t in) {
  ProjectionGroup group = group_of(std::vector<std::int64_t>(formats.size(), 20), in, true);
  for (std::size_t i = 0; i < formats.size(); ++i) {
    if (!formats[i].empty())
      group[i].weight.packed = quant::quantize_and_pack(group[i].weight.dense.value.detach(), formats[i]);
  }
  return group;
}

TEST(ProjectionGroup, GivesWhatEachLayerGivesAlone) {
  const NoGrad no_grad;
  const Tensor x = randn({2, 30, 64}, 1);
  for (const char* other : {"", "q8_0", "w8a8"}) {
    const ProjectionGroup group = quantized_group({"q8_0", other}, 64);
    const std::vector<Tensor> y = group.each(x);
    for (std::size_t i = 0; i < 2; ++i)
      EXPECT_EQ(y[i].to_vector<float>(), group[i](x).to_vector<float>()) << other << i;
  }
}

quant::Rounding rounding_of(const ProjectionGroup& group, std::int64_t rows) {
  std::vector<const LinearWeight*> weights;
  for (std::size_t i = 0; i < group.size(); ++i) weights.push_back(&group[i].weight);
  return common_rounding(weights, rows);
}

TEST(ProjectionGroup, QuantizesItsInputOnlyAsAllLayersReadIt) {
  constexpr std::int64_t kFew = 1, kMany = quant::kManyRows;
  const ProjectionGroup blocks = quantized_group({"q8_0", "int8-g64"}, 64),
                        rows = quantized_group({"w8a8"}, 64);
  EXPECT_EQ(rounding_of(blocks, kFew), quant::Rounding::none);  // gradients are recorded
  const NoGrad no_grad;
  EXPECT_EQ(rounding_of(blocks, kFew), quant::Rounding::blocks);
  const bool vnni = kernels::instruction_set_limit() >= kernels::InstructionSet::avx512_vnni;
  EXPECT_EQ(rounding_of(blocks, kMany), vnni ? quant::Rounding::blocks : quant::Rounding::spans);
  EXPECT_EQ(rounding_of(rows, kFew), quant::Rounding::rows);
  EXPECT_EQ(rounding_of(quantized_group({"q4_0", "w8a8"}, 64), kMany), quant::Rounding::none);
  EXPECT_EQ(rounding_of(quantized_group({"q8_0", ""}, 64), kFew), quant::Rounding::none);
  ProjectionGroup adapted = quantized_group({"q8_0", "q4_0"}, 64);
  InitSource source(2);
  LowRankAdapter& adapter = adapted[0].weight.add_adapter(source, "default", 2, 1.0F);
  EXPECT_EQ(rounding_of(adapted, kFew), quant::Rounding::none);  // it reads the input as it is
  adapter.enabled = false;
  EXPECT_EQ(rounding_of(adapted, kFew), quant::Rounding::blocks);
}

TEST(LinearInput, MadeByRowsIsTheWholeOne) {
  const NoGrad no_grad;
  for (const std::int64_t count : {3, 700}) {
    const Tensor a = randn({2, count, 64}, 1), b = randn({2, count, 64}, 2);
    for (const char* format : {"", "nf4", "q8_0", "q4_0", "w8a8"}) {
      const ProjectionGroup group = quantized_group({format}, 64);
      const LinearInput made({a, b}, [](std::span<const Tensor> rows) { return silu_mul(rows[0], rows[1]); });
      EXPECT_EQ(group[0](made).to_vector<float>(), group[0](silu_mul(a, b)).to_vector<float>())
          << format << ' ' << count;
    }
  }
}

// The values that a weight stands for, adapters included.
Tensor merged(const LinearWeight& weight) { return weight.effective().detach(); }

void add_random_adapter(LinearWeight& weight, const std::string& name, float scale, std::uint64_t seed) {
  InitSource source(seed);
  LowRankAdapter& adapter = weight.add_adapter(source, name, 3, scale);
  copy_(adapter.b.value.detach(), randn(adapter.b.shape(), seed));
}

TEST(LinearWeight, AnAdapterDropsPartsOfItsInputOnlyWhileGradientsAreRecorded) {
  const Tensor x = randn({5, 40}, 1);
  InitSource source(2);
  Linear layer(source, {.in = 40, .out = 6, .bias = false});
  const Tensor plain = layer(x).detach();
  add_random_adapter(layer.weight, "one", 0.5F, 4);
  add_random_adapter(layer.weight, "two", -2.0F, 5);
  LowRankAdapter &one = *layer.weight.find_adapter("one"), &two = *layer.weight.find_adapter("two");
  one.dropout = 0.5;
  const auto update = [](const LowRankAdapter& adapter, const Tensor& of) {
    return linear(linear(of, adapter.a.value), adapter.b.value) * static_cast<double>(adapter.scale);
  };
  {
    const RandomScope same(7, 3);
    const Tensor dropped = dropout(x, 0.5);
    const RandomScope again(7, 3);
    EXPECT_LE(max_error(layer(x), plain + update(one, dropped) + update(two, x)), 1e-5);
  }
  const NoGrad no_grad;
  EXPECT_LE(max_error(layer(x), plain + update(one, x) + update(two, x)), 1e-5);
}

TEST(LinearWeight, AdaptersAddTheirUpdatesWhileTheyAreOn) {
  for (const char* format : {"", "nf4", "q4_0", "w8a8"}) {
    ProjectionGroup group = quantized_group({format}, 64);
    Linear& layer = group[0];
    const Tensor x = randn({2, 5, 64}, 3), plain = layer(x);
    add_random_adapter(layer.weight, "one", 0.5F, 4);
    add_random_adapter(layer.weight, "two", -2.0F, 5);
    const Tensor bias = layer.bias.value;
    EXPECT_LE(max_error(layer(x), linear(x, merged(layer.weight), bias)), 2e-5) << format;
    layer.weight.find_adapter("one")->enabled = false;
    EXPECT_LE(max_error(layer(x), linear(x, merged(layer.weight), bias)), 2e-5) << format;
    layer.weight.find_adapter("two")->enabled = false;
    EXPECT_EQ(max_error(layer(x), plain), 0.0) << format;
    EXPECT_EQ(layer.weight.find_adapter("three"), nullptr);
    EXPECT_THROW(add_random_adapter(layer.weight, "one", 1, 1), Error);
  }
}

TEST(LinearWeight, AFreshAdapterChangesNothing) {
  ProjectionGroup group = quantized_group({"q8_0"}, 64);
  Tensor x = randn({4, 64}, 1);
  x.set_requires_grad(true);
  const Tensor before = group[0](x);
  InitSource source(2);
  group[0].weight.add_adapter(source, "default", 4, 8.0F);
  EXPECT_EQ(max_error(group[0](x), before), 0.0);
  EXPECT_EQ(names(group[0]),
            (std::vector<std::string>{"weight", "default.lora_A", "default.lora_B", "bias"}));
  EXPECT_THROW(group[0].weight.add_adapter(source, "other", 0, 1.0F), InvalidConfig);
}

// With lengths of rows that are not those of the weight.
void add_random_dora(LinearWeight& weight, const std::string& name, float scale, std::uint64_t seed) {
  add_random_adapter(weight, name, scale, seed);
  weight.find_adapter(name)->decompose(weight, randn({weight.out()}, seed) + 2.0);
}

TEST(LinearWeight, DoraGivesEachRowItsLength) {
  const NoGrad no_grad;
  for (const char* format : {"", "nf4", "w8a8"}) {
    ProjectionGroup group = quantized_group({format}, 64);
    LinearWeight& weight = group[0].weight;
    add_random_dora(weight, "one", 0.5F, 4);
    const Tensor lengths = sqrt(sum(square(weight.effective()), {-1}));
    EXPECT_LE(max_error(lengths, abs(weight.adapters.front()->magnitude.value)), 1e-5) << format;
  }
}

TEST(LinearWeight, DoraStacksWithOtherAdaptersAndIsWeighted) {
  for (const char* format : {"", "q4_0"}) {
    ProjectionGroup group = quantized_group({format}, 64);
    Linear& layer = group[0];
    const Tensor x = randn({2, 5, 64}, 3), bias = layer.bias.value, plain = merged(layer.weight);
    add_random_adapter(layer.weight, "plain", 0.5F, 4);
    add_random_dora(layer.weight, "one", 0.5F, 5);
    add_random_dora(layer.weight, "two", -2.0F, 6);
    LowRankAdapter& two = *layer.weight.find_adapter("two");
    two.weight = 0.25F;
    EXPECT_LE(max_error(layer(x), linear(x, merged(layer.weight), bias)), 5e-5) << format;
    // Half the weight is half the change.
    for (const char* other : {"plain", "one"}) layer.weight.find_adapter(other)->enabled = false;
    const Tensor quarter = merged(layer.weight) - plain;
    two.weight = 1;
    EXPECT_LE(max_error(merged(layer.weight) - plain, quarter * 4.0), 1e-5) << format;
  }
}

TEST(LinearWeight, DoraSeesThatItsMatricesChanged) {
  const NoGrad no_grad;
  InitSource source(2);
  Linear layer(source, {.in = 40, .out = 6, .bias = false});
  add_random_dora(layer.weight, "one", 0.5F, 4);
  const Tensor x = randn({5, 40}, 1);
  layer(x);
  LowRankAdapter& adapter = *layer.weight.adapters.front();
  copy_(adapter.b.value.detach(), randn(adapter.b.shape(), 9));
  EXPECT_LE(max_error(layer(x), linear(x, layer.weight.effective())), 1e-5);
  layer.weight.dense.replace(randn({6, 40}, 10));
  const Tensor lengths = sqrt(sum(square(layer.weight.effective()), {-1}));
  EXPECT_LE(max_error(lengths, abs(adapter.magnitude.value)), 1e-5);
}

// As PEFT has it: what the adapter does not see of its input, its share of the base does not see either.
TEST(LinearWeight, DoraDropsItsInputForItsShareOfTheBaseToo) {
  InitSource source(2);
  Linear layer(source, {.in = 40, .out = 6});
  const Tensor x = randn({5, 40}, 1), plain = layer(x).detach();
  add_random_dora(layer.weight, "one", 0.5F, 4);
  LowRankAdapter& one = *layer.weight.adapters.front();
  const Tensor change = (merged(layer.weight) - layer.weight.dense.value).detach();
  one.dropout = 0.5;
  const RandomScope same(7, 3);
  const Tensor dropped = dropout(x, 0.5);
  const RandomScope again(7, 3);
  EXPECT_LE(max_error(layer(x), plain + linear(dropped, change)), 1e-5);
}

TEST(LinearWeight, GradientsOfAQuantizedLayerAreThoseOfItsValues) {
  for (const std::string& format : quant::quantized_formats()) {
    constexpr std::int64_t kIn = 256;
    ProjectionGroup group = quantized_group({format}, kIn);
    Linear& layer = group[0];
    add_random_adapter(layer.weight, "default", 0.5F, 4);
    const Tensor values = quant::values(*layer.weight.packed);
    InitSource source(1);
    Linear dense(source, {.in = kIn, .out = 20});
    dense.weight.dense.replace(values);
    dense.weight.dense.set_trainable(false);
    dense.bias.replace(layer.bias.value);
    add_random_adapter(dense.weight, "default", 0.5F, 4);
    const auto gradients = [](Linear& of) {
      Tensor x = randn({2, 3, kIn}, 6);
      x.set_requires_grad(true);
      const Tensor y = of(x);
      backward(y, {.grad = randn(y.shape(), 7)});
      const LowRankAdapter& adapter = *of.weight.adapters.front();
      return std::vector<Tensor>{y, x.grad(), of.bias.grad(), adapter.a.grad(), adapter.b.grad()};
    };
    const std::vector<Tensor> ours = gradients(layer), theirs = gradients(dense);
    for (std::size_t i = 0; i < ours.size(); ++i)
      EXPECT_EQ(ours[i].to_vector<float>(), theirs[i].to_vector<float>()) << format << ' ' << i;
    EXPECT_FALSE(layer.weight.dense.grad().defined());
  }
}

TEST(WeightObserver, SeesEveryApplicationOfAWeight) {
  ProjectionGroup group = group_of({16, 16}, 8, false);
  const Tensor x = randn({3, 8}, 1);
  std::vector<const LinearWeight*> seen;
  const WeightObserver observer([&](const WeightUse& use) { seen.push_back(use.linear); });
  group.each(x);
  group[1](x);
  group.concatenate_weights();
  group(x);
  const LinearWeight *first = &group[0].weight, *second = &group[1].weight;
  EXPECT_EQ(seen, (std::vector<const LinearWeight*>{first, second, second, first, second}));
}

TEST(Embedding, TakesRowsByIndex) {
  InitSource source(1);
  Embedding table(source, {.count = 5, .width = 3, .weight_init = init::Normal{.std = 0.02}});
  const Tensor y = table(Tensor::from(std::vector<std::int64_t>{4, 0, 4, 1}, {2, 2}));
  ASSERT_EQ(y.shape(), (Shape{2, 2, 3}));
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(y.data<float>()[6 + i], table.weight.dense.value.data<float>()[12 + i]);
  expect_gradients(table, y);
  EXPECT_THROW(table(Tensor::from(std::vector<std::int64_t>{5}, {1})), DimensionMismatch);
}

TEST(Dropout, DropsWhileTrainingAndRepeatsInARandomScope) {
  Dropout dropout(0.5);
  const Tensor x = randn({1000}, 1);
  const auto run = [&] {
    const RandomScope scope(3, 4);
    return dropout(x).to_vector<float>();
  };
  const auto y = run();
  EXPECT_EQ(run(), y);
  EXPECT_NEAR(static_cast<double>(std::count(y.begin(), y.end(), 0.0F)), 500, 60);
  dropout.training = false;
  EXPECT_EQ(run(), x.to_vector<float>());
  EXPECT_THROW(Dropout(1), InvalidConfig);
  EXPECT_THROW(Dropout(-0.1), InvalidConfig);
  EXPECT_THROW(Dropout(NAN), InvalidConfig);
}

TEST(Activation, EveryNameLeadsToItsFunction) {
  const Tensor x = Tensor::from(std::vector<float>{-1, 0.5F}, {2});
  const auto at = [&](const char* name) {
    const auto y = activate(parse_activation(name), x).to_vector<float>();
    return std::pair<double, double>(y[0], y[1]);
  };
  const auto expect = [&](const char* name, const std::function<double(double)>& f) {
    EXPECT_NEAR(at(name).first, f(-1), 1e-6) << name;
    EXPECT_NEAR(at(name).second, f(0.5), 1e-6) << name;
  };
  const auto sigmoid = [](double v) { return 1 / (1 + std::exp(-v)); };
  expect("linear", [](double v) { return v; });
  expect("relu", [](double v) { return std::max(v, 0.0); });
  expect("gelu", [](double v) { return v * 0.5 * std::erfc(-v / std::sqrt(2.0)); });
  expect("gelu_new", [](double v) {
    return 0.5 * v * (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * (v + 0.044715 * v * v * v)));
  });
  expect("swish", [&](double v) { return v * sigmoid(v); });
  expect("mish", [](double v) { return v * std::tanh(std::log1p(std::exp(v))); });
  expect("sigmoid", sigmoid);
  expect("tanh", [](double v) { return std::tanh(v); });
}

TEST(Activation, NamesAreReadBackAndWrongOnesExplained) {
  for (const Activation a : {Activation::identity, Activation::relu, Activation::gelu, Activation::gelu_tanh,
                             Activation::silu, Activation::mish, Activation::sigmoid, Activation::tanh}) {
    EXPECT_EQ(parse_activation(name(a)), a);
  }
  try {
    parse_activation("siluu", "model.hidden_act");
    FAIL();
  } catch (const InvalidConfig& error) {
    EXPECT_EQ(error.key, "model.hidden_act");
    EXPECT_NE(std::string(error.what()).find("silu"), std::string::npos);
  }
}

TEST(Conv1d, IsTheOpWithItsParameters) {
  InitSource source(1);
  const Conv1dOptions options{.stride = 2, .padding = 1, .groups = 2};
  Conv1d conv(source, {.in = 4, .out = 6, .kernel = 3, .conv = options});
  EXPECT_EQ(conv.weight.shape(), (Shape{6, 2, 3}));
  const Tensor x = randn({2, 4, 9}, 1);
  const Tensor y = conv(x);
  EXPECT_EQ(max_error(y, conv1d(x, conv.weight.value, conv.bias.value, options)), 0);
  expect_gradients(conv, y);
}

TEST(Conv2d, IsTheOpWithItsParameters) {
  InitSource source(1);
  const Conv2dOptions options{.stride = {1, 2}, .padding = {0, 1}};
  Conv2d conv(source, {.in = 3, .out = 5, .kernel = {3, 2}, .conv = options, .bias = false});
  EXPECT_EQ(conv.weight.shape(), (Shape{5, 3, 3, 2}));
  EXPECT_EQ(names(conv), std::vector<std::string>{"weight"});
  const Tensor x = randn({2, 3, 6, 7}, 1);
  const Tensor y = conv(x);
  EXPECT_EQ(max_error(y, conv2d(x, conv.weight.value, {}, options)), 0);
  expect_gradients(conv, y);
}

TEST(Conv2d, StartsAsPyTorchsDoes) {
  InitSource source(1);
  Conv2d conv(source, {.in = 20, .out = 50, .kernel = {5, 1}});  // fan_in 100
  double high = 0;
  for (const float v : conv.weight.value.to_vector<float>()) high = std::max<double>(high, std::abs(v));
  EXPECT_NEAR(high, 0.1, 1e-4);
}

TEST(GroupNorm, StartsAsTheIdentityOfItsOp) {
  InitSource source(1);
  const GroupNormOptions options{.groups = 2};
  GroupNorm norm(source, 6, options);
  const Tensor x = randn({2, 6, 5}, 1);
  const Tensor y = norm(x);
  double sum = 0, squares = 0;
  for (int i = 0; i < 15; ++i) {
    const double v = y.data<float>()[i];
    sum += v;
    squares += v * v;
  }
  EXPECT_NEAR(sum, 0, 1e-5);
  EXPECT_NEAR(squares / 15, 1, 1e-3);
  EXPECT_FALSE(norm.weight.decay);
  expect_gradients(norm, y);
}

TEST(LayerNorm, StartsWithMeanZeroAndVarianceOne) {
  InitSource source(1);
  LayerNorm norm(source, {.width = 64}),
      plain(ParamSource(source).scope("plain"), {.width = 64, .bias = false});
  const Tensor x = randn({3, 64}, 1);
  const Tensor y = norm(x);
  for (int row = 0; row < 3; ++row) {
    double sum = 0, squares = 0;
    for (int i = 0; i < 64; ++i) {
      const double v = y.data<float>()[row * 64 + i];
      sum += v;
      squares += v * v;
    }
    EXPECT_NEAR(sum, 0, 1e-4);
    EXPECT_NEAR(squares / 64, 1, 1e-3);
  }
  expect_gradients(norm, y);
  EXPECT_EQ(max_error(plain(x), y), 0);
  EXPECT_EQ(names(plain), std::vector<std::string>{"weight"});
}

TEST(Layers, RefuseImpossibleSizes) {
  InitSource source(1);
  EXPECT_THROW(Conv1d(source, {.in = 0, .out = 6, .kernel = 3}), InvalidConfig);
  EXPECT_THROW(Conv1d(source, {.in = 4, .out = 6, .kernel = 0}), InvalidConfig);
  EXPECT_THROW(Conv1d(source, {.in = 4, .out = 6, .kernel = 3, .conv = {.groups = 4}}), InvalidConfig);
  EXPECT_THROW(Conv1d(source, {.in = 4, .out = 6, .kernel = 3, .conv = {.stride = 0}}), InvalidConfig);
  EXPECT_THROW(Conv2d(source, {.in = 4, .out = 6, .kernel = {3, 3}, .conv = {.padding = {0, -1}}}),
               InvalidConfig);
  EXPECT_THROW(Conv2d(source, {.in = 4, .out = 6, .kernel = {3, 0}}), InvalidConfig);
  EXPECT_THROW(LayerNorm(source, {.width = 0}), InvalidConfig);
  EXPECT_THROW(LayerNorm(source, {.width = 4, .eps = 2}), InvalidConfig);
  EXPECT_THROW(GroupNorm(source, 6, {.groups = 4}), InvalidConfig);
  EXPECT_THROW(GroupNorm(source, 0, {.groups = 1}), InvalidConfig);
  EXPECT_THROW(GroupNorm(source, 6, {.groups = 0}), InvalidConfig);
  EXPECT_THROW(GroupNorm(source, 6, {.groups = 2, .eps = -1}), InvalidConfig);
}

}  // namespace
}  // namespace ingot
