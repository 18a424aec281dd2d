#include "ingot/models/policy/dual_pool_net.h"

#include "tests/models/goldens.h"
#include "tests/support/op_case.h"
#include <gtest/gtest.h>

#include "ingot/autograd/engine.h"
#include "ingot/autograd/grad_mode.h"
#include "ingot/base/error.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/reduce.h"

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

}  // namespace
}  // namespace ingot
