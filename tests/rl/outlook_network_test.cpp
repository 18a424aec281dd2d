#include "mahjong_ppo_fixture.h"
#include <gtest/gtest.h>

#include "ingot/mahjong/oracle.h"
#include "ingot/rl/mahjong_batch.h"
#include "ingot/rl/mahjong_player.h"

namespace ingot {
namespace {

using test::MahjongPpoTest;
using test::message_of;

// PPO as in the other tests, but the network also reads what its choices are worth.
class OutlookNetworkTest : public MahjongPpoTest {
 protected:
  void SetUp() override {
    InitSource source(2);
    DualPoolNet net(source,
                    {.input_channels = 121, .channels = 8, .blocks = 1, .norm_groups = 4, .se_reduction = 4});
    save_dual_pool_net(directory_.at("base"), net);
  }
};

TEST_F(OutlookNetworkTest, PlaysLearnsAndGoesOnWithTheSameBitsWhenItIsKilled) {
  const MahjongTrainResult result = MahjongTraining(config("whole")).run();
  EXPECT_NE(entrant_named("model:" + result.model_directory).batch, nullptr);
  {
    MahjongTraining killed(config("killed"));
    for (int i = 0; i < 3; ++i) killed.trainer().step();
  }
  MahjongTraining(config("killed", {"resume_from_checkpoint=true"})).run();
  EXPECT_EQ(weights("killed"), weights("whole"));
}

TEST_F(OutlookNetworkTest, AnOracleOfItReadsTheSameAndWhatIsHidden) {
  const MahjongTrainResult result = MahjongTraining(config("oracle", {"phase=oracle", "league.past=0",
                                                                      "league.players=null", "max_steps=1"}))
                                        .run();
  const auto oracle = open_dual_pool_net(result.model_directory);
  EXPECT_EQ(oracle->config.input_channels, 121 + mahjong::kOracleChannels);
  EXPECT_TRUE(is_mahjong_oracle(oracle->config));
}

TEST_F(OutlookNetworkTest, ANumberOfChannelsThatNoEncoderWritesIsNamed) {
  const std::string message =
      message_of<InvalidConfig>([] { mahjong_encoding({.input_channels = 100}, "net"); });
  for (const char* part : {"input_channels", "is 100 in net", "96 (with context)", "121", "85"})
    EXPECT_NE(message.find(part), std::string::npos) << message;
}

}  // namespace
}  // namespace ingot
