#include "ingot/rl/clone_task.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "tests/rl/log_directory.h"
#include "tests/support/temporary_directory.h"
#include <gtest/gtest.h>

#include "ingot/base/config.h"
#include "ingot/rl/mahjong_training.h"

namespace ingot {
namespace {

using test::message_of;

void expect_part(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << text;
}

// Single rounds of the rule-based player, and runs that learn from them in a blink.
class CloneTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { games_ = std::make_unique<test::LogDirectory>(); }
  static void TearDownTestSuite() { games_.reset(); }

  MahjongTrainConfig config(const std::string& output, const std::vector<std::string>& changes = {}) const {
    Config file = Config::parse(
        "phase: bc\n"
        "network: {channels: 8, blocks: 1, norm_groups: 4, se_reduction: 4}\n"
        "length: round\nbatch_size: 24\nmax_steps: 6\nlearning_rate: 0.01\nlr_scheduler_type: constant\n"
        "pool_games: 3\nvalidation_split_ratio: 0.3\nvalidation_decisions: 40\nsave_steps: 3\n"
        "report_to: [jsonl]\ndevice: cpu\n",
        "bc.yaml");
    file.set("games=" + games_->path());
    file.set("output_dir=" + outputs_.at(output));
    for (const std::string& change : changes) file.set(change);
    return read_mahjong_train_config(file);
  }
  std::vector<float> weights(const std::string& output) const {
    const auto net = open_dual_pool_net(outputs_.at(output) + "/model");
    std::vector<float> all;
    for (const auto& [name, parameter] : named_parameters(*net)) {
      const std::vector<float> values = parameter->value.detach().to_vector<float>();
      all.insert(all.end(), values.begin(), values.end());
    }
    return all;
  }

  static inline std::unique_ptr<test::LogDirectory> games_;
  test::TemporaryDirectory outputs_;
};

TEST_F(CloneTest, LearnsFromLogsAndTellsAccuracyByKindOfAction) {
  MahjongTraining training(config("run", {"max_steps=18", "eval_steps=2"}));
  const MahjongTrainResult result = training.run();
  const auto& steps = training.trainer().history().steps();
  ASSERT_EQ(steps.size(), 18U);
  const auto value = [](const NamedValues& values, const std::string& name) {
    const auto found = std::ranges::find(values, name, &NamedValues::value_type::first);
    EXPECT_NE(found, values.end()) << name;
    return found == values.end() ? 0 : found->second;
  };
  const auto& evaluations = training.trainer().history().evaluations();
  for (const char* loss : {"policy loss", "danger loss"})
    EXPECT_LT(value(evaluations.back().values, loss), value(evaluations.front().values, loss)) << loss;
  EXPECT_EQ(steps.front().values.size(), 6U);
  ASSERT_TRUE(result.evaluation.has_value());
  EXPECT_GT(value(result.evaluation->values, "accuracy"), 0.2);
  EXPECT_GT(value(result.evaluation->values, "accuracy/discard"), 0);
  EXPECT_GT(steps.back().epoch, 0.5);
}

// A network that always takes the legal action which stands first in a list, honours or characters.
TEST_F(CloneTest, TellsWhetherRenamedSuitsArePlayedTheSame) {
  const auto agreement = [&](const std::string& name, int preferred_first, int preferred_last) {
    InitSource source(2);
    DualPoolNet net(source,
                    {.input_channels = 96, .channels = 8, .blocks = 1, .norm_groups = 4, .se_reduction = 4});
    auto* weights = net.policy_output.weight.value.data<float>();
    std::fill_n(weights, net.policy_output.weight.value.numel(), 0.0F);
    for (int action = 0; action < 46; ++action)
      net.policy_output.bias.value.data<float>()[action] =
          (action >= preferred_first && action <= preferred_last ? 0.0F : -50.0F) -
          static_cast<float>(action);
    save_dual_pool_net(outputs_.at(name), net);
    MahjongTrainConfig c = config(name + "_run", {"max_steps=1", "learning_rate=0"});
    c.base_model = outputs_.at(name);
    const MahjongTrainResult result = MahjongTraining(std::move(c)).run();
    const NamedValues& values = result.evaluation->values;
    return std::ranges::find(values, "suit agreement", &NamedValues::value_type::first)->second;
  };
  const double honours = agreement("honours", 27, 33), characters = agreement("characters", 0, 8);
  EXPECT_GT(honours, characters + 0.1);
  EXPECT_LT(characters, 0.9);
}

TEST_F(CloneTest, ARunThatIsKilledGoesOnWithTheSameBits) {
  MahjongTraining(config("whole")).run();
  {
    MahjongTraining killed(config("killed"));
    for (int i = 0; i < 5; ++i) killed.trainer().step();
  }
  MahjongTraining resumed(config("killed", {"resume_from_checkpoint=true"}));
  EXPECT_EQ(resumed.trainer().progress().step, 3);
  resumed.run();
  EXPECT_EQ(weights("killed"), weights("whole"));
}

TEST_F(CloneTest, ARunThatIsResumedWithoutACheckpointBegins) {
  MahjongTraining begun(config("anew", {"resume_from_checkpoint=true"}));
  EXPECT_EQ(begun.trainer().progress().step, 0);
  begun.trainer().step();
  EXPECT_EQ(begun.trainer().progress().step, 1);
}

TEST_F(CloneTest, AResumedRunRefusesChangedSettingsByName) {
  MahjongTraining(config("run")).run();
  const auto resumed_with = [&](const std::string& change) {
    return message_of<InvalidConfig>([&] {
      MahjongTraining(config("run", {"resume_from_checkpoint=true", "max_steps=9", change}));
    });
  };
  expect_part(resumed_with("learning_rate=0.02"), "learning_rate: is 0.02, but the run in");
  expect_part(resumed_with("batch_size=25"), "batch_size: is 25");
  expect_part(resumed_with("danger_weight=0"), "danger_weight: is 0");
  expect_part(resumed_with("validation_split_ratio=0"), "games: is");
}

TEST_F(CloneTest, ConfigurationsThatCannotBeAreNamed) {
  const auto refused = [&](const std::string& change) {
    return message_of<InvalidConfig>([&] { config("run", {change}); });
  };
  expect_part(refused("phase=sft"), "phase");
  expect_part(refused("games=null"), "games");
  expect_part(refused("base_model=x"), "network");
  expect_part(refused("batchsize=3"), "batch_size");
  const std::string size =
      message_of<InvalidConfig>([&] { MahjongTraining(config("run", {"network.input_channels=84"})); });
  expect_part(size, "input_channels: is 84 in the network, but a network that plays mahjong has 96");
}

}  // namespace
}  // namespace ingot
