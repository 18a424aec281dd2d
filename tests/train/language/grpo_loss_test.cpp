// Losses, gradients and advantages of trl's GRPO (tools/goldens/grpo_losses.py).
#include "ingot/train/language/grpo_loss.h"

#include "tests/support/source_dir.h"
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "ingot/autograd/engine.h"
#include "ingot/base/files.h"
#include "ingot/base/json.h"

namespace ingot {
namespace {

using Json = nlohmann::ordered_json;

const Json& grpo_goldens() {
  static const Json all = [] {
    const std::string path = test::source_dir() + "/tests/train/language/grpo_goldens.json";
    return parse_json<Json>(read_file(path), path);
  }();
  return all;
}

Tensor tensor_of(const char* name, const Shape& shape) {
  return Tensor::from(grpo_goldens()[name].get<std::vector<float>>(), shape);
}

GrpoLossType type_of(const std::string& name) {
  if (name == "grpo") return GrpoLossType::grpo;
  if (name == "bnpo") return GrpoLossType::bnpo;
  return name == "dr_grpo" ? GrpoLossType::dr_grpo : GrpoLossType::dapo;
}

TEST(GrpoLoss, LossesAndGradientsAreTrls) {
  const Json& all = grpo_goldens();
  for (const Json& golden : all["losses"]) {
    SCOPED_TRACE(dump_json(golden).substr(0, 60));
    GrpoConfig config;
    config.loss_type = type_of(golden["type"]);
    config.beta = golden["beta"];
    config.epsilon_high = golden["epsilon_high"];
    config.max_completion_length = all["most"];
    GrpoBatch batch{.log_probs = tensor_of("log_probs", {4, 5}),
                    .mask = tensor_of("mask", {4, 5}),
                    .advantages = tensor_of("advantages", {4, 1}),
                    .micro_batches = 2,
                    .step_tokens = all["step_tokens"]};
    batch.log_probs.set_requires_grad(true);
    if (golden["old"]) batch.old_log_probs = tensor_of("old", {4, 5});
    if (config.beta > 0) batch.reference = tensor_of("reference", {4, 5});
    const GrpoLoss result = grpo_loss(config, batch);
    EXPECT_NEAR(result.loss.item(), golden["loss"].get<double>(), 1e-6);
    EXPECT_NEAR(result.clipped.item(), golden["clipped"].get<double>(), 1e-6);
    if (config.beta > 0) EXPECT_NEAR(result.kl.item(), golden["kl"].get<double>(), 1e-6);
    backward(result.loss);
    const std::vector<float> grad = batch.log_probs.grad().to_vector<float>();
    for (std::size_t i = 0; i < grad.size(); ++i) EXPECT_NEAR(grad[i], golden["grad"][i].get<double>(), 1e-6);
  }
}

TEST(GrpoLoss, AdvantagesAreTrls) {
  const Json& all = grpo_goldens();
  const auto rewards = all["rewards"].get<std::vector<std::vector<double>>>();
  for (const Json& golden : all["of_rewards"]) {
    SCOPED_TRACE(dump_json(golden));
    GrpoConfig config;
    config.num_generations = 3;
    config.rewards.resize(2);
    for (std::size_t i = 0; i < 2; ++i) config.rewards[i].weight = all["weights"][i];
    config.scale_rewards = golden["scale"] == "batch"  ? RewardScale::batch
                           : golden["scale"] == "none" ? RewardScale::none
                                                       : RewardScale::group;
    config.normalize_then_sum = golden["later"];
    const GroupAdvantages advantages = group_advantages(config, rewards);
    for (std::size_t i = 0; i < 6; ++i)
      EXPECT_NEAR(advantages.advantages[i], golden["values"][i].get<double>(), 1e-7);
  }
}

TEST(GrpoLoss, GroupsOfEqualRewardsAreCountedAndTeachNothing) {
  GrpoConfig config;
  config.num_generations = 2;
  config.rewards.resize(1);
  const std::vector<std::vector<double>> rewards{{1, 1, 0, 1}};
  const GroupAdvantages advantages = group_advantages(config, rewards);
  EXPECT_EQ(advantages.groups_alike, 0.5);
  EXPECT_EQ(advantages.advantages[0], 0);
  EXPECT_LT(advantages.advantages[2], 0);
}

}  // namespace
}  // namespace ingot
