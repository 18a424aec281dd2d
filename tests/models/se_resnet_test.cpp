#include "ingot/models/policy/se_resnet.h"

#include "tests/support/op_case.h"
#include <gtest/gtest.h>

#include "ingot/autograd/engine.h"
#include "ingot/base/error.h"
#include "ingot/kernels/kernel.h"

namespace ingot {
namespace {

SeResNetConfig small_net() {
  return {.input_channels = 5,
          .width = 7,
          .channels = 12,
          .blocks = 2,
          .norm_groups = 4,
          .se_reduction = 4,
          .actions = 6,
          .policy_channels = 3,
          .value_hidden = 8};
}

TEST(SeResNet, HasTheParametersOfTheFullNetwork) {
  InitSource source(1);
  SeResNet net(source, SeResNetConfig{.blocks = 1});
  // Stem 85·256·3; a block 2·256·256·3 + 2·512 + 8,464; policy 116,590; value 132,097.
  EXPECT_EQ(count_parameters(net), 65'280 + 393'216 + 1'024 + 8'464 + 116'590 + 132'097);
}

TEST(SeResNet, PackedInferenceEqualsTheNetwork) {
  InitSource source(1);
  const SeResNet net(source, small_net());
  const PackedSeResNet packed(net);
  for (const std::int64_t batch : {1, 3, 8}) {
    const Tensor x = testing::randn({batch, 5, 7}, 2);
    const PolicyOutput actual = packed(x), expected = net(x);
    EXPECT_EQ(actual.policy.shape(), Shape({batch, 6}));
    EXPECT_EQ(actual.value.shape(), Shape({batch, 1}));
    EXPECT_EQ(actual.policy.to_vector<float>(), expected.policy.to_vector<float>());
    EXPECT_EQ(actual.value.to_vector<float>(), expected.value.to_vector<float>());
    EXPECT_FALSE(actual.policy.requires_grad());
  }
}

TEST(SeResNet, FastKernelsEqualTheReferenceForwardAndBackward) {
  InitSource source(1);
  SeResNet net(source, small_net());
  const Tensor x = testing::randn({3, 5, 7}, 2);
  const auto run = [&] {
    zero_grad(net);
    const PolicyOutput output = net(x);
    const std::vector<Tensor> roots{output.policy, output.value};
    const std::vector<Tensor> grads{testing::randn({3, 6}, 3), testing::randn({3, 1}, 4)};
    backward(roots, grads);
    for_each_parameter(
        net, [](const std::string& name, Parameter& p) { EXPECT_TRUE(p.grad().defined()) << name; });
    return std::pair{output, net.stem.weight.grad()};
  };
  const auto [output, gradient] = run();
  const kernels::ForceKind reference(kernels::ImplKind::reference);
  const auto [wanted, wanted_gradient] = run();
  EXPECT_LE(testing::max_error(output.policy.detach(), wanted.policy.detach()), 1e-5);
  EXPECT_LE(testing::max_error(output.value.detach(), wanted.value.detach()), 1e-5);
  EXPECT_LE(testing::max_error(gradient, wanted_gradient), 1e-4);
  EXPECT_GT(testing::max_error(gradient, Tensor::zeros(gradient.shape())), 1e-4);
}

TEST(SeResNet, RefusesImpossibleSizesAndOtherObservations) {
  InitSource source(1);
  SeResNetConfig config = small_net();
  config.norm_groups = 5;
  EXPECT_THROW(SeResNet(source, config), InvalidConfig);
  config = small_net();
  config.kernel = 2;
  EXPECT_THROW(SeResNet(source, config), InvalidConfig);
  const SeResNet net(source, small_net());
  EXPECT_THROW(net(testing::randn({1, 7, 5}, 2)), ShapeMismatch);
  EXPECT_THROW(PackedSeResNet{net}(testing::randn({5, 7}, 2)), ShapeMismatch);
}

}  // namespace
}  // namespace ingot
