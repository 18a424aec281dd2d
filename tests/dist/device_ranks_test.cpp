#include "ingot/dist/device_ranks.h"

#include <string>
#include <vector>

#include "tests/support/temporary_directory.h"
#include <gtest/gtest.h>

#include "ingot/base/error.h"

namespace ingot::dist {
namespace {

std::vector<DeviceOfRank> two_hosts() {
  std::vector<DeviceOfRank> ranks;
  for (const std::string host : {"north", "south"})
    for (const std::string address : {"0000:01:00.0", "0000:02:00.0"})
      ranks.push_back({.host = host,
                       .machine = host,
                       .device = "cuda:0",
                       .kind = "NVIDIA H100",
                       .address = address,
                       .nccl = "2.20.3"});
  return ranks;
}

std::string refusal(const std::vector<DeviceOfRank>& ranks) {
  return test::message_of<InvalidConfig>([&] { choose_engine(ranks); });
}

TEST(DeviceEngine, IsNcclWhereEachRankHasAGpuOfOneKindAndTheLibrary) {
  const DeviceEngine engine = choose_engine(two_hosts());
  EXPECT_TRUE(engine.nccl);
  EXPECT_EQ(engine.reason, "");
}

TEST(DeviceEngine, IsTheHostsMemoryWhereOneRankLacksTheLibrary) {
  std::vector<DeviceOfRank> ranks = two_hosts();
  ranks[2].nccl = "";
  ranks[2].problem = "libnccl.so.2: not found";
  const DeviceEngine engine = choose_engine(ranks);
  EXPECT_FALSE(engine.nccl);
  EXPECT_EQ(engine.reason, "rank 2 on south: libnccl.so.2: not found");
}

TEST(DeviceEngine, NeedsNoReasonOnProcessors) {
  const DeviceEngine engine =
      choose_engine({{.host = "north", .device = "cpu"}, {.host = "south", .device = "cpu"}});
  EXPECT_FALSE(engine.nccl);
  EXPECT_EQ(engine.reason, "");
}

TEST(DeviceEngine, RefusesAGpuThatTwoRanksHave) {
  std::vector<DeviceOfRank> ranks = two_hosts();
  ranks[3].address = ranks[2].address;
  EXPECT_EQ(
      refusal(ranks),
      "invalid configuration: device: ranks 2 and 3 on south both have the GPU at 0000:01:00.0 (cuda:0); "
      "start one rank a GPU, and leave device at cuda: each rank of a machine then takes the GPU of its "
      "number");
}

TEST(DeviceEngine, RefusesGpusOfTwoKindsAndRanksWithoutOne) {
  std::vector<DeviceOfRank> ranks = two_hosts();
  ranks[2].kind = "NVIDIA A100";
  EXPECT_NE(refusal(ranks).find(
                "rank 0 on north has cuda:0 (NVIDIA H100), rank 2 on south has cuda:0 (NVIDIA A100)"),
            std::string::npos)
      << refusal(ranks);
  ranks[2] = {.host = "south", .machine = "south", .device = "cpu"};
  EXPECT_NE(refusal(ranks).find("rank 2 on south has cpu (no GPU)"), std::string::npos) << refusal(ranks);
}

TEST(DeviceEngine, RefusesTwoVersionsOfTheLibrary) {
  std::vector<DeviceOfRank> ranks = two_hosts();
  ranks[1].nccl = "2.18.1";
  EXPECT_NE(refusal(ranks).find("rank 0 on north has NCCL 2.20.3, rank 1 on north has 2.18.1"),
            std::string::npos)
      << refusal(ranks);
}

}  // namespace
}  // namespace ingot::dist
