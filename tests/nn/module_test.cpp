#include <deque>
#include <memory>

#include "tests/support/op_case.h"
#include <gtest/gtest.h>

#include "ingot/autograd/engine.h"
#include "ingot/base/error.h"
#include "ingot/nn/embedding.h"
#include "ingot/nn/linear.h"
#include "ingot/nn/norm.h"

namespace ingot {
namespace {

struct Block {
  Block(const ParamSource& source, std::int64_t width)
      : norm(source.scope("norm"), {.width = width}),
        up(source.scope("up_proj"), {.in = width, .out = 2 * width, .bias = false}) {}
  void visit(ParamVisitor& v) {
    v("norm", norm);
    v("up_proj", up);
  }
  RmsNorm norm;
  Linear up;
};

struct Net {
  Net(const ParamSource& source, std::int64_t width, int layers)
      : embed(source.scope("embed"), {.count = 7, .width = width}),
        head(std::make_unique<Linear>(source.scope("head"), LinearOptions{.in = width, .out = 7})),
        scale(source.take("scale", {1}, init::kOnes)) {
    for (int i = 0; i < layers; ++i) blocks.emplace_back(source.scope("layers", i), width);
  }
  void visit(ParamVisitor& v) {
    v("embed", embed);
    v("layers", blocks);
    v("head", head);
    v("scale", scale);
  }
  Embedding embed;
  std::unique_ptr<Linear> head;
  Parameter scale;
  std::deque<Block> blocks;
};

std::map<std::string, Tensor> tensors_of(Net& net) {
  std::map<std::string, Tensor> tensors;
  for (auto& [name, parameter] : named_parameters(net)) tensors[name] = parameter->value.detach();
  return tensors;
}

TEST(Module, VisitNamesEveryParameterByThePathItWasTakenFrom) {
  InitSource source(1);
  Net net(source, 4, 2);
  std::vector<std::string> names;
  for (auto& [name, parameter] : named_parameters(net)) {
    names.push_back(name);
    EXPECT_EQ(parameter->name, name);
  }
  EXPECT_EQ(names,
            (std::vector<std::string>{"embed.weight", "layers.0.norm.weight", "layers.0.up_proj.weight",
                                      "layers.1.norm.weight", "layers.1.up_proj.weight", "head.weight",
                                      "head.bias", "scale"}));
  EXPECT_EQ(count_parameters(net), 28 + 2 * (4 + 32) + 28 + 7 + 1);
}

TEST(Module, OnlyMatricesDecay) {
  InitSource source(1);
  Net net(source, 4, 1);
  for (auto& [name, parameter] : named_parameters(net))
    EXPECT_EQ(parameter->decay, parameter->shape().rank() >= 2);
}

TEST(Module, TiedParametersAreSeenOnce) {
  struct Tied {
    explicit Tied(const ParamSource& source) : table(source, {.count = 3, .width = 2}) {}
    void visit(ParamVisitor& v) {
      v("in", table);
      v("out", table);
    }
    Embedding table;
  };
  InitSource source(1);
  Tied tied(source);
  EXPECT_EQ(parameters(tied).size(), 1U);
  EXPECT_EQ(count_parameters(tied), 6);
}

TEST(Module, SetTrainableTakesAGlob) {
  InitSource source(1);
  Net net(source, 4, 2);
  EXPECT_EQ(set_trainable(net, "*", false), 8);
  EXPECT_EQ(count_parameters(net, true), 0);
  EXPECT_EQ(set_trainable(net, "layers.*.norm.*", true), 2);
  EXPECT_EQ(count_parameters(net, true), 8);
  EXPECT_EQ(set_trainable(net, "layer", true), 0);
}

TEST(Module, GlobsMatchTheWholeName) {
  EXPECT_TRUE(glob_match("*", ""));
  EXPECT_TRUE(glob_match("a*c", "abbc"));
  EXPECT_TRUE(glob_match("*.weight", "a.weight.weight"));
  EXPECT_TRUE(glob_match("l.?.w", "l.3.w"));
  EXPECT_FALSE(glob_match("a", "ab"));
  EXPECT_FALSE(glob_match("", "a"));
  EXPECT_FALSE(glob_match("a*b*c", "acb"));
  EXPECT_FALSE(glob_match("l.?.w", "l.10.w"));
}

TEST(Module, ZeroGradDropsGradientsAndBackwardMakesNewOnes) {
  InitSource source(1);
  RmsNorm norm(source, {.width = 4});
  const Tensor x = testing::randn({3, 4}, 1);
  const auto grad_after_backward = [&] {
    const Tensor y = norm(x);
    backward(y, {.grad = Tensor::from(std::vector<float>(12, 1.0F), {3, 4})});
    return norm.weight.grad().to_vector<float>();
  };
  const auto once = grad_after_backward();
  const auto twice = grad_after_backward();
  for (std::size_t i = 0; i < 4; ++i) EXPECT_FLOAT_EQ(twice[i], 2 * once[i]);
  zero_grad(norm);
  EXPECT_FALSE(norm.weight.grad().defined());
  EXPECT_EQ(grad_after_backward(), once);
  norm.weight.set_trainable(false);
  EXPECT_FALSE(norm.weight.grad().defined());
  EXPECT_FALSE(norm(x).requires_grad());
}

TEST(Module, ReplaceKeepsWhetherItTrains) {
  InitSource source(1);
  RmsNorm norm(source, {.width = 4});
  norm.weight.replace(testing::randn({4}, 2, DType::f64));
  EXPECT_TRUE(norm.weight.trainable());
  EXPECT_EQ(norm.weight.value.dtype(), DType::f64);
  norm.weight.set_trainable(false);
  norm.weight.replace(testing::randn({4}, 2));
  EXPECT_FALSE(norm.weight.trainable());
}

TEST(InitSource, AParameterDependsOnSeedAndNameAlone) {
  InitSource a(5), b(5), c(6);
  Net small(a, 4, 1), large(b, 4, 3), other(c, 4, 1);
  const auto s = tensors_of(small), l = tensors_of(large), o = tensors_of(other);
  for (const auto& [name, tensor] : s)
    EXPECT_EQ(tensor.to_vector<float>(), l.at(name).to_vector<float>()) << name;
  EXPECT_NE(s.at("head.weight").to_vector<float>(), o.at("head.weight").to_vector<float>());
  EXPECT_NE(l.at("layers.0.up_proj.weight").to_vector<float>(),
            l.at("layers.1.up_proj.weight").to_vector<float>());
}

TEST(InitSource, LinearStartsAsPyTorchsDoes) {
  InitSource source(5);
  Linear linear(source, {.in = 100, .out = 300});
  double high = 0;
  for (const float v : linear.weight.dense.value.to_vector<float>())
    high = std::max<double>(high, std::abs(v));
  EXPECT_NEAR(high, 0.1, 1e-4);
  high = 0;
  for (const float v : linear.bias.value.to_vector<float>()) high = std::max<double>(high, std::abs(v));
  EXPECT_LE(high, 0.1);
  EXPECT_GT(high, 0.09);
}

TEST(TensorMapSource, GivesWhatWasSaved) {
  InitSource init(5);
  Net net(init, 4, 2);
  const auto tensors = tensors_of(net);
  TensorMapSource source(tensors);
  Net loaded(source, 4, 2);
  source.finish();
  for (const auto& [name, tensor] : tensors_of(loaded)) {
    EXPECT_EQ(tensor.to_vector<float>(), tensors.at(name).to_vector<float>());
    EXPECT_NE(tensor.storage(), tensors.at(name).storage())
        << "training must not write into the file's memory";
  }
  EXPECT_TRUE(loaded.scale.trainable());
}

TEST(TensorMapSource, SharesMemoryAndConvertsAsAsked) {
  InitSource init(5);
  Net net(init, 4, 1);
  const auto tensors = tensors_of(net);
  TensorMapSource shared(tensors, {.copy = false, .trainable = false});
  Net a(shared, 4, 1);
  EXPECT_EQ(a.scale.value.storage(), tensors.at("scale").storage());
  EXPECT_FALSE(a.scale.trainable());
  TensorMapSource converted(tensors, {.dtype = DType::bf16});
  Net b(converted, 4, 1);
  EXPECT_EQ(b.head->weight.dtype(), DType::bf16);
}

TEST(TensorMapSource, ListsEveryProblemAtOnce) {
  InitSource init(5);
  Net net(init, 4, 1);
  auto tensors = tensors_of(net);
  tensors.erase("head.bias");
  tensors.erase("scale");
  tensors["head.weight"] = Tensor::zeros({4, 7});
  tensors["rotary.inv_freq"] = Tensor::zeros({2});
  TensorMapSource source(tensors, {}, "model.safetensors");
  Net loaded(source, 4, 1);
  try {
    source.finish();
    FAIL() << "finish() accepted a checkpoint of another model";
  } catch (const Error& error) {
    const std::string message = error.what();
    for (const char* part : {"model.safetensors", "head.bias [7]", "scale [1]",
                             "head.weight: the model has [7, 4]", "[4, 7]", "rotary.inv_freq [2]"}) {
      EXPECT_NE(message.find(part), std::string::npos) << part << " is not in: " << message;
    }
  }
}

TEST(TensorMapSource, IgnoresUnexpectedNamesThatAGlobAllows) {
  InitSource init(5);
  Net net(init, 4, 1);
  auto tensors = tensors_of(net);
  tensors["rotary.inv_freq"] = Tensor::zeros({2});
  TensorMapSource source(tensors);
  Net loaded(source, 4, 1);
  EXPECT_THROW(source.finish(), Error);
  EXPECT_NO_THROW(source.finish({"*.inv_freq"}));
}

TEST(TensorMapSource, AWrongConfigurationDoesNotFillTheMemory) {
  TensorMapSource source({});
  Linear huge(source, {.in = std::int64_t{1} << 28, .out = std::int64_t{1} << 27});
  EXPECT_THROW(source.finish(), Error);
}

TEST(Module, EveryOptionsStructIsChecked) {
  InitSource source(1);
  EXPECT_THROW(Linear(source, {.in = 0, .out = 3}), InvalidConfig);
  EXPECT_THROW(Linear(source, {.in = 3, .out = -1}), InvalidConfig);
  EXPECT_THROW(Linear(source, {.in = 3, .out = 1, .weight_init = init::Normal{.std = -1}}), InvalidConfig);
  EXPECT_THROW(Embedding(source, {.count = 0, .width = 3}), InvalidConfig);
  EXPECT_THROW(RmsNorm(source, {.width = 0}), InvalidConfig);
  EXPECT_THROW(RmsNorm(source, {.width = 4, .eps = -1}), InvalidConfig);
  EXPECT_THROW(InitSource(1, DType::i32), InvalidConfig);
}

}  // namespace
}  // namespace ingot
