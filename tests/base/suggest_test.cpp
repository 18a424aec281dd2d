#include "ingot/base/suggest.h"

#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck.h>

namespace ingot {
namespace {

TEST(Suggest, DistanceCountsInsertionsDeletionsReplacementsAndSwaps) {
  EXPECT_EQ(edit_distance("", ""), 0U);
  EXPECT_EQ(edit_distance("", "abc"), 3U);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3U);
  EXPECT_EQ(edit_distance("leraning_rate", "learning_rate"), 1U) << "neighbours swapped are one edit";
  EXPECT_EQ(edit_distance("ca", "abc"), 3U) << "no part is edited twice";
  EXPECT_EQ(edit_distance("LR", "lr"), 0U) << "case does not count";
}

TEST(Suggest, DistanceIsSymmetricAndBoundedByTheLongerWord) {
  EXPECT_TRUE(rc::check([](const std::string& a, const std::string& b) {
    const std::size_t d = edit_distance(a, b);
    RC_ASSERT(d == edit_distance(b, a));
    RC_ASSERT(d <= std::max(a.size(), b.size()));
    RC_ASSERT(d >= std::max(a.size(), b.size()) - std::min(a.size(), b.size()));
  }));
}

TEST(Suggest, NearestFindsTyposAndBeginningsButNotAnything) {
  const std::vector<std::string> keys = {"learning_rate", "lr_scheduler_type", "weight_decay", "seed"};
  EXPECT_EQ(nearest("learnin_rate", keys), "learning_rate");
  EXPECT_EQ(nearest("weight", keys), "weight_decay");
  EXPECT_EQ(nearest("sed", keys), "seed");
  EXPECT_EQ(nearest("zebra", keys), "");
  EXPECT_EQ(did_you_mean("seeed", keys), "; did you mean 'seed'?");
  EXPECT_EQ(did_you_mean("zebra", {}), "");
}

}  // namespace
}  // namespace ingot
