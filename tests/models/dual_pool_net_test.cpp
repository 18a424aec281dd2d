#include "ingot/models/policy/dual_pool_net.h"

#include "tests/models/goldens.h"
#include "tests/support/op_case.h"
#include "tests/support/temporary_directory.h"
#include <gtest/gtest.h>

#include "ingot/autograd/engine.h"
#include "ingot/autograd/grad_mode.h"
#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/models/registry.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/reduce.h"
#include "ingot/weights/open.h"

namespace ingot {
namespace {

constexpr const char* kGolden = "dual_pool_net";

DualPoolNetConfig small_net() {
  return {.input_channels = 3,
          .width = 5,
          .channels = 8,
          .blocks = 2,
          .norm_groups = 4,
          .se_reduction = 4,
          .actions = 6,
          .rank_context = 3};
}

TEST(DualPoolNet, HasTheParametersOfTheFullNetwork) {
  const auto count = [](std::int64_t blocks) {
    InitSource source(1);
    DualPoolNet net(source, {.blocks = blocks, .final_norm = false});
    return count_parameters(net);
  };
  const std::int64_t one = count(1), block = count(2) - one;
  EXPECT_EQ(block, 402'704);
  EXPECT_EQ(one + 39 * block, 16'545'421);
}

TEST(DualPoolNet, InBf16GivesTheF32NetworksOutputsRounded) {
  InitSource wide(1), narrow(1, DType::bf16);
  const DualPoolNet net(wide, small_net()), half(narrow, small_net());
  const Tensor x = test::expected(kGolden, "x"), context = test::expected(kGolden, "context");
  const NoGrad no_grad;
  const DualPoolOutput exact = net(x, context), rounded = half(x, context);
  EXPECT_EQ(rounded.value.dtype(), DType::bf16);
  for (const auto& [found, wanted] : {std::pair{rounded.policy, exact.policy},
                                      {rounded.value, exact.value},
                                      {rounded.rank, exact.rank},
                                      {rounded.danger, exact.danger}}) {
    const double scale = max(abs(wanted)).item();
    EXPECT_LE(testing::max_error(to(found, DType::f32), wanted), 0.05 * scale);
  }
}

TEST(DualPoolNet, EveryHeadAndItsGradientsAreThoseOfPyTorch) {
  InitSource source(1);
  DualPoolNet net(source, small_net());
  {
    const NoGrad no_grad;
    const auto weights = open_weights(test::golden_path(kGolden) + "/model.safetensors");
    for (const auto& [name, parameter] : named_parameters(net))
      copy_(parameter->value, weights->load_tensor(name));
    EXPECT_EQ(weights->tensors().size(), named_parameters(net).size());
  }
  const DualPoolOutput output = net(test::expected(kGolden, "x"), test::expected(kGolden, "context"));
  std::vector<Tensor> roots, gradients;
  const auto compare = [&](const char* name, const Tensor& found) {
    const Tensor wanted = test::expected(kGolden, name);
    ASSERT_EQ(found.shape(), wanted.shape()) << name;
    EXPECT_LE(testing::max_error(found.detach(), wanted), 1e-5) << name;
    std::vector<float> rising;
    for (std::int64_t i = 0; i < found.numel(); ++i)
      rising.push_back(static_cast<float>(-1 + 2.0 * i / (found.numel() - 1)));
    roots.push_back(found);
    gradients.push_back(Tensor::from(rising, found.shape()));
  };
  compare("policy", output.policy);
  compare("value", output.value);
  compare("rank", output.rank);
  compare("tenpai", output.tenpai);
  compare("danger", output.danger);
  backward(roots, gradients);
  for (const auto& [name, parameter] : named_parameters(net)) {
    EXPECT_TRUE(parameter->grad().defined()) << name;
    if (name == "stem.weight" || name == "blocks.0.squeeze.weight" || name == "blocks.1.norm1.weight")
      EXPECT_LE(testing::max_error(parameter->grad(), test::expected(kGolden, "grad." + name)), 1e-4) << name;
  }
}

TEST(DualPoolNet, RefusesImpossibleSizesAndOtherInputs) {
  InitSource source(1);
  DualPoolNetConfig config = small_net();
  config.norm_groups = 3;
  EXPECT_THROW(DualPoolNet(source, config), InvalidConfig);
  const DualPoolNet net(source, small_net());
  EXPECT_THROW(net(testing::randn({1, 5, 3}, 2), testing::randn({1, 3}, 3)), ShapeMismatch);
  EXPECT_THROW(net(testing::randn({1, 3, 5}, 2), testing::randn({1, 4}, 3)), ShapeMismatch);
}

TEST(DualPoolNet, OpensWhatItSaved) {
  const test::TemporaryDirectory directory;
  for (const bool final_norm : {true, false}) {
    DualPoolNetConfig config = small_net();
    config.final_norm = final_norm;
    InitSource source(5);
    DualPoolNet net(source, config);
    const std::string path = directory.at(final_norm ? "normed" : "plain");
    save_dual_pool_net(path, net);
    const auto opened = open_dual_pool_net(path);
    const Tensor x = test::expected(kGolden, "x"), context = test::expected(kGolden, "context");
    EXPECT_EQ((*opened)(x, context).danger.detach().to_vector<float>(),
              net(x, context).danger.detach().to_vector<float>());
    EXPECT_EQ(describe_model(path), "dual_pool_net, 2 blocks of 8 channels, reads 3 x 5, 6 actions");
    EXPECT_TRUE(check_model(path, open_weights(path))->fits());
  }
}

TEST(DualPoolNet, ADirectoryOfAnotherShapeOrModelIsRefusedByName) {
  const test::TemporaryDirectory directory;
  InitSource source(5);
  DualPoolNet net(source, small_net());
  const std::string path = directory.at("net");
  save_dual_pool_net(path, net);
  const auto message = [&](const std::string& from, const std::string& to) {
    std::string json = net.config.to_json();
    json.replace(json.find(from), from.size(), to);
    write_file_atomically(path + "/config.json", json);
    return test::message_of<Error>([&] { open_dual_pool_net(path); });
  };
  const auto expect = [](const std::string& text, const char* part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  expect(message("\"actions\": 6", "\"actions\": 7"), "policy_output.weight");
  expect(message("\"blocks\": 2", "\"blocks\": 3"), "blocks.2.conv1.weight");
  expect(message("\"blocks\": 2", "\"blocks\": 4096000"), "blocks");
  expect(message("\"blocks\": 2", "\"blocks\": 1"), "blocks.1.conv1.weight");
  expect(message("\"kernel\": 3", "\"kernel\": 4"), "kernel: must be odd");
  expect(message("\"width\": 5,", ""), "width: is missing");
  expect(message("dual_pool_net", "bert"), "model_type: is 'bert', expected 'dual_pool_net'");
  expect(test::message_of<IoError>([&] { open_dual_pool_net(directory.at("none")); }),
         "is not a model directory");
}

}  // namespace
}  // namespace ingot
