#include "ingot/rl/network_directory.h"

#include <filesystem>

#include "tests/support/temporary_directory.h"
#include <gtest/gtest.h>

#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/mahjong/ladder.h"
#include "ingot/models/policy/dual_pool_net.h"

namespace ingot {
namespace {

void save_network(const std::string& path, DualPoolNetConfig config) {
  config.channels = 8;
  config.blocks = 1;
  config.norm_groups = config.se_reduction = 4;
  InitSource source(3);
  DualPoolNet net(source, config);
  save_dual_pool_net(path, net);
}

TEST(NetworkDirectory, OpensWhatCanPlayAndNamesWhatCannot) {
  const test::TemporaryDirectory directory;
  save_network(directory.at("run/model"), {.input_channels = 96});
  save_network(directory.at("old"), {.input_channels = 85});
  save_network(directory.at("checkers"), {.input_channels = 96, .actions = 5});
  save_network(directory.at("torn"), {.input_channels = 96});
  std::filesystem::resize_file(directory.at("torn/model.safetensors"), 3000);
  std::filesystem::create_directory(directory.at("other"));
  write_file_atomically(directory.at("other/config.json"), R"({"model_type": "llama"})");

  const FoundNetworks found = networks_under(directory.path());
  ASSERT_EQ(found.players.size(), 2U);
  EXPECT_EQ(found.players[0].name, "old");
  EXPECT_EQ(found.players[1].name, "run/model");
  ASSERT_EQ(found.left_out.size(), 3U);
  EXPECT_EQ(found.left_out[0].directory, directory.at("checkers"));
  EXPECT_NE(found.left_out[0].error.find("actions: is 5"), std::string::npos) << found.left_out[0].error;
  EXPECT_NE(found.left_out[1].error.find("llama"), std::string::npos) << found.left_out[1].error;
  EXPECT_NE(found.left_out[2].error.find("model.safetensors"), std::string::npos) << found.left_out[2].error;

  EXPECT_THROW(networks_under(directory.at("nowhere")), IoError);
}

TEST(NetworkDirectory, ItsNetworksClimbALadderBesideBuiltInPlayers) {
  const test::TemporaryDirectory directory;
  save_network(directory.at("a"), {.input_channels = 96});
  save_network(directory.at("b"), {.input_channels = 85});
  FoundNetworks found = networks_under(directory.path(), ",temperature=1");
  for (const char* name : {"simple", "tsumogiri"})
    found.players.push_back({.name = name, .make = mahjong::player_named(name)});
  mahjong::LadderOptions options{.walls = 20};
  options.rules.length = mahjong::GameLength::SingleRound;
  const auto ladder = run_ladder(found.players, options);
  ASSERT_EQ(ladder.size(), 4U);
  EXPECT_EQ(ladder[0].name, "simple");
}

}  // namespace
}  // namespace ingot
