#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "ingot/mahjong/log.h"
#include "ingot/mahjong/readings.h"
#include "ingot/mahjong/shanten.h"
#include "ingot/mahjong/symmetry.h"

namespace ingot::mahjong {
namespace {

Hand deal(std::uint64_t seed, int size) {
  const Wall wall = shuffle_wall(seed_from_number(seed));
  Hand hand;
  for (int i = 0; i < size; ++i) hand.add_kind(static_cast<Kind>(wall[static_cast<std::size_t>(i)] / 4));
  return hand;
}

// A complete hand: groups and a pair put together, as the seed says.
Hand complete_hand(std::uint64_t seed) {
  ChaCha8 random(seed_from_number(seed));
  while (true) {
    Hand hand;
    bool fits = true;
    const auto add = [&](Kind kind) {
      fits &= hand.count[kind] < 4;
      if (fits) hand.add_kind(kind);
    };
    const bool flush = random.below(3) == 0;
    for (int group = 0; group < 4; ++group) {
      const auto kind = static_cast<Kind>(random.below(flush ? 9 : 34));
      if (kind < 27 && kind % 9 < 7 && random.below(3) > 0)
        for (Kind i = 0; i < 3; ++i) add(static_cast<Kind>(kind + i));
      else
        for (int i = 0; i < 3; ++i) add(kind);
    }
    const auto pair = static_cast<Kind>(random.below(flush ? 9 : 34));
    add(pair);
    add(pair);
    if (fits) return hand;
  }
}

RC_GTEST_PROP(HandProperty, ADrawNeverRaisesAndADiscardNeverLowersShanten, (std::uint64_t seed)) {
  const Hand hand = deal(seed, 13);
  const int before = shanten(hand, 0);
  for (Kind kind = 0; kind < kKinds; ++kind) {
    if (hand.count[kind] == 4) continue;
    Hand next = hand;
    next.add_kind(kind);
    const int after = shanten(next, 0);
    RC_ASSERT(after == before || after == before - 1);
    const BestDiscards best = best_discards(next, 0);
    RC_ASSERT(best.shanten == std::max(after, 0));
    RC_ASSERT(best.kinds != 0);
    for_each_kind(next.count.kinds(), [&](Kind discarded) {
      Hand rest = next;
      rest.remove_kind(discarded);
      RC_ASSERT(shanten(rest, 0) == best.shanten + ((best.kinds >> discarded & 1) == 0));
    });
  }
}

RC_GTEST_PROP(HandProperty, CompleteHandsHaveReadingsAndAreCompleteByTheTables, (std::uint64_t seed)) {
  const Hand hand = complete_hand(seed);
  RC_ASSERT(is_complete(hand, 0));
  RC_ASSERT(read_standard(hand, 4).size > 0);
  for_each_kind(hand.count.kinds(), [&](Kind kind) {
    Hand rest = hand;
    rest.remove_kind(kind);
    RC_ASSERT((waits(rest, 0) >> kind & 1) == 1U);
  });
}

RC_GTEST_PROP(HandProperty, TablesAndReadingsAgreeOnCompleteness, (std::uint64_t seed)) {
  Hand hand = complete_hand(seed);
  ChaCha8 random(seed_from_number(~seed));
  const auto kinds = hand.tiles();
  hand.remove_kind(kind_of(kinds[random.below(14)]));
  auto other = static_cast<Kind>(random.below(34));
  while (hand.count[other] == 4) other = static_cast<Kind>(random.below(34));
  hand.add_kind(other);
  RC_ASSERT((shanten_forms(hand, 0).standard == -1) == (read_standard(hand, 4).size > 0));
}

RC_GTEST_PROP(HandProperty, RenamingSuitsKeepsTheScoreButOfGreenHands, (std::uint64_t seed)) {
  const Hand hand = complete_hand(seed);
  const Tile win = hand.tiles()[seed % 14];
  for (int index = 1; index < 6; ++index) {
    const SuitPermutation p = SuitPermutation::number(index);
    if (!p.keeps_score(hand.count.kinds())) continue;
    const Hand moved = p.hand(hand);
    const WinScore a =
        score_win({.hand = hand, .melds = {}, .win_tile = win, .tsumo = true}, Rules::tenhou());
    const WinScore b =
        score_win({.hand = moved, .melds = {}, .win_tile = p.tile(win), .tsumo = true}, Rules::tenhou());
    RC_ASSERT(a == b);
  }
}

RC_GTEST_PROP(HandProperty, MoreDoraNeverMakeAHandCheaper, (std::uint64_t seed)) {
  const Hand hand = complete_hand(seed);
  const Tile win = hand.tiles()[seed % 14];
  const Tile indicator = static_cast<Tile>(seed % 34);
  WinQuery q{.hand = hand, .melds = {}, .win_tile = win, .tsumo = true};
  const WinScore plain = score_win(q, Rules::tenhou());
  q.indicators = {&indicator, 1};
  RC_ASSERT(score_win(q, Rules::tenhou()).base >= plain.base);
}

RC_GTEST_PROP(ParserProperty, AnyTextIsReadOrRefused, (const std::string& text)) {
  for (const std::string& one :
       {text, "<mjloggm>" + text + "</mjloggm>", "{\"type\":\"tsumo\"," + text + "}"}) {
    try {
      replay(parse_log(one, "any"));
    } catch (const Error&) {
    }
    try {
      parse_tiles(one);
    } catch (const Error&) {
    }
  }
}

}  // namespace
}  // namespace ingot::mahjong
