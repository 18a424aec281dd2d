#include "ingot/train/frozen_shards.h"

#include <numeric>
#include <string>
#include <vector>

#include "tests/support/temporary_directory.h"
#include "tests/support/thread_ranks.h"
#include <gtest/gtest.h>

#include "ingot/base/error.h"
#include "ingot/dist/background.h"
#include "ingot/ops/view.h"

namespace ingot {
namespace {

using test::message_of;

constexpr std::int64_t kRows = 6, kColumns = 20;

Tensor counted(std::int64_t rows, float first) {
  std::vector<float> values(static_cast<std::size_t>(rows * kColumns));
  std::iota(values.begin(), values.end(), first);
  return Tensor::from(values, {rows, kColumns});
}

// The same values on all ranks, side by side in memory or apart.
std::vector<Tensor> gate_and_up(bool side_by_side) {
  if (!side_by_side) return {counted(kRows, 0), counted(kRows, kRows * kColumns)};
  const Tensor both = counted(2 * kRows, 0);
  return {slice(both, 0, 0, kRows), slice(both, 0, kRows, 2 * kRows)};
}

void expect_gathered(dist::Communicator& rank, bool side_by_side) {
  std::vector<Tensor> weights = gate_and_up(side_by_side);
  dist::Background background(GatheredBlocks::kMostWaiting);
  FrozenShards shards(std::vector<std::vector<Tensor*>>{{&weights[0], &weights[1]}}, rank, background);
  shards.begin();
  const LeasedBlock held(&shards, 0);
  const std::vector<Tensor> expected = gate_and_up(false);
  for (std::size_t i = 0; i < weights.size(); ++i)
    EXPECT_EQ(weights[i].to_vector<float>(), expected[i].to_vector<float>()) << rank.rank() << " " << i;
}

// The rank that packs a base has its matrices apart; the others map the file that it has written.
TEST(FrozenShards, GatherTheWeightsWhereverTheyLieInTheMemoryOfEachRank) {
  for (const int first_side_by_side : {0, 1, 2, 3})
    test::ThreadRanks(3).run(
        [&](dist::Communicator& rank) { expect_gathered(rank, rank.rank() >= first_side_by_side); });
}

TEST(FrozenShards, OfOtherSizesOnARankAreRefusedByName) {
  test::ThreadRanks(2).run([&](dist::Communicator& rank) {
    std::vector<Tensor> weights{counted(rank.is_first() ? kRows : kRows + 1, 0)};
    dist::Background background(GatheredBlocks::kMostWaiting);
    const std::string message = message_of<InvalidConfig>([&] {
      const FrozenShards shards(std::vector<std::vector<Tensor*>>{{&weights[0]}}, rank, background);
    });
    EXPECT_NE(message.find("weights of layer 0"), std::string::npos) << message;
    EXPECT_NE(message.find("1 tensors of 480 bytes on rank 0"), std::string::npos) << message;
    EXPECT_NE(message.find("1 tensors of 560 bytes on rank 1"), std::string::npos) << message;
  });
}

}  // namespace
}  // namespace ingot
