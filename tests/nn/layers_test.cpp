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
#include "ingot/core/joined_rows.h"
#include "ingot/nn/activation.h"
#include "ingot/nn/conv.h"
#include "ingot/nn/dropout.h"
#include "ingot/nn/embedding.h"
#include "ingot/nn/linear.h"
#include "ingot/nn/norm.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/random.h"
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
  for (int k = 0; k < 6; ++k) sum += x.data<float>()[6 + k] * linear.weight.value.data<float>()[6 + k];
  EXPECT_NEAR(y.data<float>()[4 + 1], sum, 1e-5);
  expect_gradients(linear, y);
  expect_gradients(plain, plain(x));
  EXPECT_EQ(names(plain), std::vector<std::string>{"weight"});
}

Tensor joined_weights(const std::vector<std::unique_ptr<Linear>>& layers) {
  std::vector<Tensor> weights;
  for (const auto& layer : layers) weights.push_back(layer->weight.value);
  return joined_rows(weights);
}

std::vector<std::unique_ptr<Linear>> dense_layers(const std::vector<std::int64_t>& outs, std::int64_t in,
                                                  bool bias) {
  InitSource source(1);
  std::vector<std::unique_ptr<Linear>> layers;
  for (const std::int64_t out : outs) {
    layers.push_back(std::make_unique<Linear>(ParamSource(source).scope(std::to_string(layers.size())),
                                              LinearOptions{.in = in, .out = out, .bias = bias}));
  }
  return layers;
}

TEST(Linear, LayersLaidSideBySideKeepTheirValuesAndTrain) {
  for (const bool bias : {false, true}) {
    const auto layers = dense_layers({32, 16, 16}, 8, bias);
    const Tensor before = clone(layers[1]->weight.value.detach());
    const Tensor x = randn({3, 8}, 1);
    const std::vector<Tensor> apart =
        linear_each(quant::Activations(x), {layers[0].get(), layers[1].get(), layers[2].get()});
    EXPECT_FALSE(joined_weights(layers).defined());
    lay_side_by_side({layers[0].get(), layers[1].get(), layers[2].get()});
    EXPECT_EQ(joined_weights(layers).shape(), (Shape{64, 8}));
    EXPECT_EQ(max_error(layers[1]->weight.value, before), 0.0);
    const Tensor y = linear_side_by_side(x, {layers[0].get(), layers[1].get(), layers[2].get()});
    EXPECT_LE(max_error(y, concat(apart, 1)), 1e-6);
    backward(y, {.grad = randn(y.shape(), 2)});
    for (const auto& layer : layers) {
      ASSERT_TRUE(layer->weight.grad().defined());
      EXPECT_EQ(layer->weight.grad().shape(), layer->weight.shape());
      EXPECT_EQ(layer->bias.grad().defined(), bias);
    }
  }
}

TEST(Linear, LayersThatAreNotAlikeStayWhereTheyAre) {
  using Layers = std::vector<std::unique_ptr<Linear>>;
  const Layers frozen = dense_layers({32, 16}, 8, false);
  frozen[1]->weight.set_trainable(false);
  const Layers between_places =
      dense_layers({3, 16}, 8, true);  // a bias of 12 bytes: the next begins anywhere
  Layers one_bias = dense_layers({16, 16}, 8, true);
  one_bias[0] = std::move(dense_layers({16}, 8, false).front());
  for (const auto* layers : std::initializer_list<const Layers*>{&frozen, &between_places, &one_bias}) {
    const void* const before = (*layers)[1]->weight.value.view().data;
    lay_side_by_side({(*layers)[0].get(), (*layers)[1].get()});
    EXPECT_EQ((*layers)[1]->weight.value.view().data, before);
    EXPECT_FALSE(joined_weights(*layers).defined());
  }
}

// Layers with packed weights of these formats; "" stands for a dense one.
std::vector<std::unique_ptr<Linear>> layers_of(const std::vector<std::string>& formats, std::int64_t in) {
  InitSource source(1);
  std::vector<std::unique_ptr<Linear>> layers;
  for (const std::string& format : formats) {
    auto& layer = layers.emplace_back(std::make_unique<Linear>(
        ParamSource(source).scope(std::to_string(layers.size())), LinearOptions{.in = in, .out = 20}));
    if (!format.empty()) layer->packed = quant::quantize_and_pack(layer->weight.value.detach(), format);
  }
  return layers;
}

TEST(Linear, LayersOfOneInputGiveWhatEachGivesAlone) {
  const NoGrad no_grad;
  const Tensor x = randn({2, 30, 64}, 1);
  for (const char* other : {"", "q8_0", "w8a8"}) {
    const auto layers = layers_of({"q8_0", other}, 64);
    const std::vector<Tensor> y = linear_each(quant::Activations(x), {layers[0].get(), layers[1].get()});
    for (std::size_t i = 0; i < 2; ++i)
      EXPECT_EQ(y[i].to_vector<float>(), (*layers[i])(x).to_vector<float>()) << other << i;
  }
}

TEST(Linear, LayersAgreeOnARoundingOfTheirInputsRowsOrHaveNone) {
  constexpr std::int64_t kFew = 1, kMany = quant::kManyRows;
  const auto layers = layers_of({"q8_0", "q4_0", "w8a8", ""}, 64);
  const Linear &a = *layers[0], &b = *layers[1], &rows = *layers[2], &dense = *layers[3];
  EXPECT_EQ(common_rounding({&a, &b}, kFew), quant::Rounding::none);  // gradients are recorded
  const NoGrad no_grad;
  EXPECT_EQ(common_rounding({&a, &b}, kFew), quant::Rounding::blocks);
  EXPECT_EQ(common_rounding({&a, &b}, kMany), quant::Rounding::spans);
  EXPECT_EQ(common_rounding({&b, &rows}, kMany), quant::Rounding::none);
  EXPECT_EQ(common_rounding({&rows}, kFew), quant::Rounding::rows);
  EXPECT_EQ(common_rounding({&a, &rows}, kFew), quant::Rounding::none);
  EXPECT_EQ(common_rounding({&a, &dense}, kFew), quant::Rounding::none);
}

TEST(Linear, AnInputMadeByRowsIsTheWholeOne) {
  const NoGrad no_grad;
  for (const std::int64_t count : {3, 700}) {
    const Tensor a = randn({2, count, 64}, 1), b = randn({2, count, 64}, 2);
    for (const char* format : {"", "nf4", "q8_0", "q4_0", "w8a8"}) {
      const auto layer = std::move(layers_of({format}, 64).front());
      const quant::Activations made =
          apply_by_rows({a, b}, common_rounding({layer.get()}, a.view().rows()), [](auto rows) {
            EXPECT_FALSE(grad_enabled());
            return silu_mul(rows[0], rows[1]);
          });
      EXPECT_EQ((*layer)(made).to_vector<float>(), (*layer)(silu_mul(a, b)).to_vector<float>())
          << format << count;
    }
  }
}

TEST(Embedding, TakesRowsByIndex) {
  InitSource source(1);
  Embedding table(source, {.count = 5, .width = 3, .weight_init = init::Normal{.std = 0.02}});
  const Tensor y = table(Tensor::from(std::vector<std::int64_t>{4, 0, 4, 1}, {2, 2}));
  ASSERT_EQ(y.shape(), (Shape{2, 2, 3}));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(y.data<float>()[6 + i], table.weight.value.data<float>()[12 + i]);
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
