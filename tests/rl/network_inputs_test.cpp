#include "tests/rl/mahjong_ppo_fixture.h"
#include <gtest/gtest.h>

#include "ingot/mahjong/oracle.h"
#include "ingot/rl/mahjong_batch.h"
#include "ingot/rl/mahjong_player.h"

namespace ingot {
namespace {

using test::MahjongPpoTest;
using test::message_of;

// PPO as in the other tests, with a network that reads the plain encoding, or also what its choices are
// worth.
class NetworkInputsTest : public MahjongPpoTest, public ::testing::WithParamInterface<int> {
 protected:
  void SetUp() override {
    InitSource source(2);
    DualPoolNet net(
        source,
        {.input_channels = GetParam(), .channels = 8, .blocks = 1, .norm_groups = 4, .se_reduction = 4});
    save_dual_pool_net(directory_.at("base"), net);
  }
};
INSTANTIATE_TEST_SUITE_P(Channels, NetworkInputsTest, ::testing::Values(85, 121));

TEST_P(NetworkInputsTest, PlaysLearnsAndGoesOnWithTheSameBitsWhenItIsKilled) {
  const MahjongTrainResult result = MahjongTraining(config("whole")).run();
  EXPECT_NE(entrant_named("model:" + result.model_directory).batch, nullptr);
  {
    MahjongTraining killed(config("killed"));
    for (int i = 0; i < 3; ++i) killed.trainer().step();
  }
  MahjongTraining(config("killed", {"resume_from_checkpoint=true"})).run();
  EXPECT_EQ(weights("killed"), weights("whole"));
}

TEST_P(NetworkInputsTest, AnOracleOfItReadsTheSameAndWhatIsHidden) {
  const MahjongTrainResult result = MahjongTraining(config("oracle", {"phase=oracle", "league.past=0",
                                                                      "league.players=null", "max_steps=1"}))
                                        .run();
  const auto oracle = open_dual_pool_net(result.model_directory);
  EXPECT_EQ(oracle->config.input_channels, GetParam() + mahjong::kOracleChannels);
  EXPECT_TRUE(is_mahjong_oracle(oracle->config));
}

TEST(MahjongEncoding, ANumberOfChannelsThatNoEncoderWritesIsNamed) {
  const std::string message =
      message_of<InvalidConfig>([] { mahjong_encoding({.input_channels = 100}, "net"); });
  for (const char* part : {"input_channels", "is 100 in net", "96 (with context)", "121", "85"})
    EXPECT_NE(message.find(part), std::string::npos) << message;
}

}  // namespace
}  // namespace ingot
