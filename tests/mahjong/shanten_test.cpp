#include "ingot/mahjong/shanten.h"

#include <algorithm>
#include <fstream>
#include <ranges>
#include <sstream>
#include <thread>

#include "tests/mahjong/data.h"
#include <gtest/gtest.h>

#include "ingot/mahjong/errors.h"
#include "ingot/mahjong/wall.h"

namespace ingot::mahjong {
namespace {

void expect_vectors(const std::string& name) {
  std::ifstream in(data_path("shanten/" + name));
  if (!in) GTEST_SKIP() << "no test data: shanten/" << name;
  std::string line;
  int cases = 0;
  while (std::getline(in, line)) {
    std::istringstream words(line);
    std::vector<Tile> tiles(14);
    for (Tile& tile : tiles) {
      int number = 0;
      words >> number;
      tile = static_cast<Tile>(number);
    }
    int standard = 0, orphans = 0, pairs = 0;
    ASSERT_TRUE(words >> standard >> orphans >> pairs) << line;
    const Shanten got = shanten_forms(make_hand(tiles), 0);
    ASSERT_EQ(got.standard, standard) << line;
    ASSERT_EQ(got.thirteen_orphans, orphans) << line;
    ASSERT_EQ(got.seven_pairs, pairs) << line;
    ++cases;
  }
  EXPECT_GE(cases, 1000);
}

TEST(Shanten, MatchesTheVectorsOfOrdinaryHands) { expect_vectors("p_normal_10000.txt"); }
TEST(Shanten, MatchesTheVectorsOfHalfFlushes) { expect_vectors("p_hon_10000.txt"); }
TEST(Shanten, MatchesTheVectorsOfFlushes) { expect_vectors("p_tin_10000.txt"); }
TEST(Shanten, MatchesTheVectorsOfOrphans) { expect_vectors("p_koku_10000.txt"); }

TEST(Shanten, OfCalledHandsCountsTheMelds) {
  EXPECT_EQ(shanten(make_hand("1m"), 4), 0);
  EXPECT_EQ(shanten(make_hand("11m"), 4), -1);
  EXPECT_EQ(shanten(make_hand("1199m"), 3), 0);
  EXPECT_EQ(shanten(make_hand("19m19p"), 3), 2);
}

TEST(Shanten, RefusesAWrongNumberOfTiles) {
  EXPECT_THROW(shanten_forms(make_hand("123m"), 0), InvalidHand);
  EXPECT_THROW(make_hand("11111m"), InvalidHand);
  EXPECT_THROW(make_hand("0055p5p"), InvalidHand);
}

TEST(Waits, OfTheNineGatesAreAllNine) { EXPECT_EQ(waits(make_hand("1112345678999m"), 0), KindSet{0x1FF}); }
TEST(Waits, OfThirteenOrphansAreAllThirteen) {
  EXPECT_EQ(waits(make_hand("19m19p19s1234567z"), 0), kYaochuu);
}

TEST(Waits, OnFourTilesOfOnesOwnAreNone) {
  EXPECT_EQ(waits(make_hand("123m456m789p1111z"), 0), KindSet{0});
  EXPECT_EQ(waits(make_hand("1z"), 4), bit(27));
  EXPECT_EQ(waits(make_hand("1z"), 4, bit(27)), KindSet{0});
}

TEST(Acceptance, CountsOnlyTilesThatAreStillUnseen) {
  KindCounts seen;
  const Hand hand = make_hand("23m456m789p11145z");  // one from tenpai: 1m 4m or a pair of 4z, 5z
  const Acceptance all = acceptance(hand, 0, seen);
  seen.set(0, 2);
  const Acceptance fewer = acceptance(hand, 0, seen);
  EXPECT_TRUE(all.kinds & bit(0));
  EXPECT_EQ(all.tiles - fewer.tiles, 2);
}

TEST(Acceptance, AgreesWithShantenOfEveryDraw) {
  const Hand hand = make_hand("1357m2468p1357s1z");
  const Acceptance got = acceptance(hand, 0, {});
  for (Kind kind = 0; kind < kKinds; ++kind) {
    Hand next = hand;
    next.add_kind(kind);
    EXPECT_EQ((got.kinds >> kind & 1) != 0, shanten(next, 0) < shanten(hand, 0)) << int{kind};
  }
}

// What is remembered of hands must not be another hand's: the same tiles beside other melds, hands that share
// a slot, and hands that come back after many others.
TEST(Acceptance, AgreesWithShantenOfEveryDrawForManyHandsInAnyOrder) {
  struct Asked {
    Hand hand;
    int melds;
    KindCounts seen;
  };
  ChaCha8 random(seed_from_number(12));
  std::vector<Asked> asked;
  for (int i = 0; i < 6000; ++i) {
    Asked one{.hand = {}, .melds = static_cast<int>(random.below(5)), .seen = {}};
    while (one.hand.size < 13 - 3 * one.melds) {
      // Few kinds, so that quads and the same tiles are frequent.
      const auto kind =
          static_cast<Kind>(i % 2 == 0 ? random.below(34) : 9 * random.below(3) + random.below(5));
      if (one.hand.count[kind] < 4) one.hand.add_kind(kind);
    }
    for (Kind kind = 0; kind < kKinds; ++kind)
      one.seen.set(kind,
                   static_cast<int>(random.below(static_cast<std::uint32_t>(5 - one.hand.count[kind]))));
    asked.push_back(one);
  }
  const auto check = [&](const Asked& one) {
    const Acceptance got = acceptance(one.hand, one.melds, one.seen);
    int tiles = 0;
    for (Kind kind = 0; kind < kKinds; ++kind) {
      const int left = 4 - one.hand.count[kind] - one.seen[kind];
      bool nearer = false;
      if (left > 0) {
        Hand next = one.hand;
        next.add_kind(kind);
        nearer = shanten(next, one.melds) < shanten(one.hand, one.melds);
      }
      tiles += nearer ? left : 0;
      ASSERT_EQ((got.kinds >> kind & 1) != 0, nearer) << int{kind};
    }
    ASSERT_EQ(got.tiles, tiles);
  };
  for (const Asked& one : asked) check(one);
  std::thread([&] { std::ranges::for_each(asked, check); }).join();
  std::ranges::for_each(asked | std::views::reverse, check);
}

TEST(Tiles, NamesRoundTrip) {
  for (Tile tile = 0; tile < kTiles; ++tile) EXPECT_EQ(parse_tile(tile_name(tile)), tile);
  for (const char* bad : {"", "0m", "5z", "5mx", "10m", "Q", "5zr", "4mr", "m5"})
    EXPECT_EQ(parse_tile(bad), kNoTile);
}

TEST(Tiles, NotationRoundTripsAndKeepsRedFives) {
  EXPECT_EQ(format_tiles(parse_tiles("123m055p11z")), "123m055p11z");
  EXPECT_THROW(parse_tiles("12"), InvalidHand);
  EXPECT_THROW(parse_tiles("m"), InvalidHand);
  EXPECT_THROW(parse_tiles("8z"), InvalidHand);
  EXPECT_THROW(parse_tiles("1x"), InvalidHand);
}

}  // namespace
}  // namespace ingot::mahjong
