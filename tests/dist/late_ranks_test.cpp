#include "ingot/dist/late_ranks.h"

#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace ingot::dist {
namespace {

using Ranks = std::vector<std::optional<Waiting>>;

const std::vector<std::string> kHosts{"north", "south", "east"};

TEST(LateRanks, ARankThatSaysNothingIsNamedWithItsHost) {
  const Waiting here{12, 3.5, "all-to-all", "step 4"};
  EXPECT_EQ(tell_late_ranks(0, Ranks{here, std::nullopt, Waiting{12, 1, "all-to-all", "step 4"}}, kHosts,
                            "ddp_timeout"),
            "ranks 0, 2 waited 3.5 s in the all-to-all (number 12) of step 4: rank 1 on south did not come; "
            "look what it does there (stopped, swapping, a slow disk), or raise ddp_timeout");
}

TEST(LateRanks, ARankThatToldOfItsFailureIsNamedWithTheReason) {
  const Waiting here{8, 0.25, "all-reduce", "pass 3"}, failed{7, 0, "broadcast", "pass 3", "no memory"};
  EXPECT_EQ(tell_late_ranks(0, Ranks{here, failed, std::nullopt}, kHosts, "INGOT_RANK_TIMEOUT"),
            "rank 0 waited 0.25 s in the all-reduce (number 8) of pass 3: rank 1 on south failed in pass 3, "
            "behind its broadcast (number 7): no memory");
}

TEST(LateRanks, ARankThatIsNotHeardIsNamedAndThoseThatAreBusyAreNot) {
  const Waiting here{8, 26, "barrier", "the start"};
  const Waiting unheard{.operation = 7, .what = "all-gather", .activity = "the start", .silent = 25};
  EXPECT_EQ(tell_late_ranks(0, Ranks{here, unheard, std::nullopt}, kHosts, "ddp_timeout"),
            "rank 0 waited 26 s in the barrier (number 8) of the start: nothing was heard of rank 1 on south "
            "for 25 s, behind its all-gather (number 7) of the start; look what it does there (stopped, "
            "hanging, swapping, off the network), or raise INGOT_RANK_SILENCE");
}

TEST(LateRanks, ARankThatWasMissedAndComesBackIsToldWhoMissedIt) {
  const std::string text = tell_missed_rank(1, 2, "south", 26);
  EXPECT_NE(text.find("rank 2 on south heard nothing of this rank, 1, for 26 s"), std::string::npos) << text;
  EXPECT_NE(text.find("INGOT_RANK_SILENCE"), std::string::npos) << text;
}

TEST(LateRanks, RanksInDifferentOperationsAreToldApart) {
  const std::string text =
      tell_late_ranks(1, Ranks{Waiting{7, 2, "barrier", "the start"}, Waiting{9, 2, "broadcast", "step 1"}},
                      kHosts, "ddp_timeout");
  EXPECT_NE(text.find("rank 1 waited 2 s in the broadcast (number 9) of step 1"), std::string::npos) << text;
  EXPECT_NE(text.find("rank 0 in its barrier (number 7) of the start"), std::string::npos) << text;
}

TEST(LateRanks, WhereAllAreThereItIsTheNetwork) {
  const Waiting one{5, 60, "all-gather", "step 2"};
  EXPECT_NE(tell_late_ranks(0, Ranks{one, one}, kHosts, "ddp_timeout").find("network"), std::string::npos);
}

}  // namespace
}  // namespace ingot::dist
