#include "ingot/core/backend.h"

#include <algorithm>

#include "tests/plugin/load_example.h"
#include "tests/support/temporary_directory.h"
#include <gtest/gtest.h>

#include "ingot/autograd/engine.h"
#include "ingot/base/error.h"
#include "ingot/core/dlpack.h"
#include "ingot/models/language/decoder.h"
#include "ingot/nn/param_source.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/topk.h"
#include "ingot/ops/view.h"
#include "ingot/optim/clip.h"
#include "ingot/optim/optimizer.h"

// A device of a kind that Ingot does not know, from a plugin: examples/plugins/backend.cpp.
namespace ingot {
namespace {

class PluginBackend : public ::testing::Test {
 protected:
  void SetUp() override { LOAD_EXAMPLE("backend"); }
};

LanguageConfig small_model(const std::string& family) {
  LanguageConfig c;
  c.model_type = family;
  apply_family(c);
  c.vocab_size = 97;
  c.hidden_size = 16;
  c.intermediate_size = 40;
  c.num_hidden_layers = 2;
  c.num_attention_heads = 2;
  c.num_key_value_heads = family == "gpt2" ? 2 : 1;
  return c;
}

// Of five steps from the same weights on the same tokens.
std::vector<float> losses_on(Device device, const std::string& family) {
  InitSource source(/*seed=*/1, DType::f32, device);
  LanguageModel model(small_model(family), source);
  std::vector<std::int32_t> tokens(2 * 17);
  for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<std::int32_t>(i * i % 97);
  const Tensor all = Tensor::from(tokens, {2, 17}, device);
  const Tensor inputs = contiguous(narrow(all, 1, 0, 16)), targets = contiguous(narrow(all, 1, 1, 16));
  AdamW optimizer(parameters(model), {.learning_rate = 1e-2, .weight_decay = 0.1});
  std::vector<float> losses;
  for (int step = 0; step < 5; ++step) {
    const Tensor loss = model.loss({.tokens = inputs}, targets);
    losses.push_back(loss.item());
    backward(loss);
    optimizer.step({.grad_scale = clip_by_global_norm(parameters(model), 1.0).factor});
    optimizer.zero_grad();
  }
  return losses;
}

// Both add up in f32; some sums are cut into other parts, and AdamW divides by what they differ in.
constexpr float kOtherOrder = 1e-4F;

TEST_F(PluginBackend, TrainsALanguageModelWithTheLossesOfTheCpu) {
  ComputeBackend& toy = backend(parse_device("toy"));
  for (const std::string family : {"llama", "gpt2", "gemma2", "qwen3"}) {
    toy.memory().reset_peak();
    const std::vector<float> actual = losses_on(toy.device(), family), expected = losses_on(kCpu, family);
    for (std::size_t i = 0; i < expected.size(); ++i)
      EXPECT_NEAR(actual[i], expected[i], kOtherOrder * expected[i]) << family << ", step " << i + 1;
    EXPECT_LT(actual.back(), actual.front()) << family;
    EXPECT_GT(toy.memory().peak(), 50'000U) << family;  // weights, gradients and activations were there
  }
}

TEST_F(PluginBackend, ItsDevicesHaveTheNameThatItRegistered) {
  const Device toy = parse_device("toy");
  EXPECT_EQ(to_string(toy), "toy:0");
  EXPECT_EQ(parse_device("toy:3").index, 3);
  EXPECT_EQ(name(toy.type), "toy");
  EXPECT_NE(test::message_of<InvalidConfig>([] { parse_device("toi"); }).find("cuda:N, toy, toy:N"),
            std::string::npos);
  EXPECT_NE(test::message_of<DeviceNotAvailable>([] { backend(parse_device("toy:1")); }).find("toy:0"),
            std::string::npos);
}

TEST_F(PluginBackend, IsChosenByWhatItCan) {
  const BackendRegistry& registry = BackendRegistry::instance();
  if (registry.has(DeviceType::cuda)) GTEST_SKIP() << "a GPU does more, and is chosen";
  EXPECT_EQ(to_string(registry.find_best({.attention = {"documents"}}).device()), "toy:0");
  EXPECT_EQ(registry.find_best({.attention = {"int8_cache"}}).device(), kCpu);
  const auto none = [&] { registry.find_best({.attention = {"cache_entries"}}); };
  EXPECT_NE(test::message_of<DeviceNotAvailable>(none).find("toy:0 lacks attention with cache_entries"),
            std::string::npos);
}

TEST_F(PluginBackend, CanBeThereOnce) {
  EXPECT_THROW(register_device_type("toy"), InvalidConfig);
  const auto same = [](const LoadedPlugin& plugin) { return plugin.path.ends_with("example_backend.so"); };
  const auto plugin = std::ranges::find_if(loaded_plugins(), same);
  ASSERT_NE(plugin, loaded_plugins().end());
  EXPECT_EQ(plugin->parts, std::vector<std::string>{"backend toy:0"});
}

TEST_F(PluginBackend, KeepsItsLastErrorAndGoesOn) {
  const Device toy = parse_device("toy");
  EXPECT_THROW(Tensor::empty({1 << 20, 1 << 10}, DType::f32, toy), OutOfMemory);
  const BackendStatus status = backend(toy).status();
  EXPECT_EQ(status.state, BackendState::ready);
  EXPECT_NE(status.last_error.find("toy:0"), std::string::npos) << status.last_error;
  EXPECT_EQ(to(Tensor::from(std::vector<float>{1, 2}, {2}, toy), kCpu).to_vector<float>(),
            (std::vector<float>{1, 2}));
}

TEST_F(PluginBackend, WhatItCannotDoNamesTheDevice) {
  const Tensor x = Tensor::from(std::vector<float>{1, 2}, {2}, parse_device("toy"));
  EXPECT_NE(test::message_of<KernelError>([&] { topk(x, 1); }).find("toy:0"), std::string::npos);
  EXPECT_NE(test::message_of<NotImplemented>([&] { to_dlpack(x); }).find("toy:0"), std::string::npos);
}

}  // namespace
}  // namespace ingot
