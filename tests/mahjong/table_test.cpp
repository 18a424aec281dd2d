#include "ingot/mahjong/table.h"

#include <cstring>
#include <numeric>

#include <gtest/gtest.h>

#include "ingot/mahjong/encoder.h"
#include "ingot/mahjong/policy.h"
#include "ingot/mahjong/shanten.h"
#include "ingot/mahjong/symmetry.h"

namespace ingot::mahjong {
namespace {

int games_to_play(int few) {
  const char* wish = std::getenv("INGOT_MAHJONG_GAMES");  // 1000000 for the long run
  return wish != nullptr ? std::atoi(wish) : few;
}

// Plays a random legal game, calling check(table) before every decision.
template <class F>
void random_game(const Rules& rules, std::uint64_t seed, F&& check, Events* events = nullptr) {
  Table table = start_game(rules, seed_from_number(seed), 0, events);
  ChaCha8 random(game_seed(table.session, 99));
  while (!table.over()) {
    if (table.pub.phase == Phase::RoundOver) {
      next_round(table, events);
      continue;
    }
    const int player = __builtin_ctz(table.to_act());
    const ActionList legal = legal_actions(table, player);
    ASSERT_FALSE(legal.empty()) << "a dead state in game " << seed;
    const Action action = legal[random.below(static_cast<std::uint32_t>(legal.size()))];
    check(table, player, legal, action);
    apply_trusted(table, player, action, events);
  }
  std::int64_t total = 0;
  for (const Seat& seat : table.pub.seats) total += seat.score;
  ASSERT_EQ(total, 4 * rules.starting_points) << "game " << seed;
}

void expect_tiles_conserved(const Table& t) {
  std::array<int, kKinds> count{};
  for (std::size_t i = 0; i <= t.next_draw; ++i) {
    bool drawn = false;  // replacement tiles that left the dead wall
    for (std::size_t k = 0; k < t.pub.kan_count; ++k) drawn |= kRinshanPlaces[k] == i;
    if (!drawn) ++count[t.wall[i] / 4];
  }
  const bool unfinished_kan = t.pub.phase == Phase::Reaction && t.pub.claim_of != ActionType::Discard;
  if (unfinished_kan) ++count[t.wall[kRinshanPlaces[t.pub.kan_count - 1U]] / 4];
  for (std::size_t p = 0; p < 4; ++p) {
    for (std::size_t kind = 0; kind < kKinds; ++kind) count[kind] += t.own[p].hand.count[kind];
    for (const Meld& meld : t.pub.seats[p].meld_span()) {
      ++count[kind_of(meld.called)];
      for (const Tile tile : meld.consumed)
        if (tile != kNoTile) ++count[kind_of(tile)];
    }
  }
  for (std::size_t i = 0; i < t.pub.river_size; ++i)
    if (!t.pub.river[i].called()) ++count[kind_of(t.pub.river[i].tile())];
  for (const int n : count) ASSERT_EQ(n, 4);
}

TEST(Table, ATableIsSmallAndCopiesAsBytes) {
  static_assert(std::is_trivially_copyable_v<Table> && sizeof(Table) <= 1024);
  Table table = start_game(Rules::tenhou(), seed_from_number(1));
  Table copy;
  std::memcpy(&copy, &table, sizeof table);
  const Action action = legal_actions(table, 0)[0];
  apply(table, 0, action);
  apply(copy, 0, action);
  EXPECT_EQ(std::memcmp(&table.pub.river, &copy.pub.river, sizeof table.pub.river), 0);
}

TEST(Table, RandomGamesEndWithPointsAndTilesConserved) {
  for (const char* name : {"tenhou", "majsoul", "european"}) {
    const int games = games_to_play(150);
    int decisions = 0;
    for (int game = 0; game < games; ++game)
      random_game(Rules::named(name), static_cast<std::uint64_t>(game),
                  [&](const Table& t, int, const ActionList&, const Action&) {
                    if (games < 1000 || ++decisions % 32 == 0) expect_tiles_conserved(t);
                  });
  }
}

TEST(Table, StartingPointsAndRedFivesAreThoseOfTheRules) {
  Rules rules;
  rules.starting_points = 30000;
  rules.red_fives = {0, 2, 1};
  std::array<bool, 3> seen{};
  for (std::uint64_t game = 0; game < 20; ++game) {
    const Table table = start_game(rules, seed_from_number(game));
    for (std::size_t p = 0; p < 4; ++p) {
      EXPECT_EQ(table.pub.seats[p].score, 30000);
      for (std::size_t suit = 0; suit < 3; ++suit) {
        EXPECT_LE(table.own[p].hand.red[suit], rules.red_fives[suit]);
        seen[suit] |= table.own[p].hand.red[suit] > 0;
      }
    }
  }
  EXPECT_EQ(seen, (std::array{false, true, true}));
}

TEST(Table, EveryOddRuleCombinationPlaysToTheEnd) {
  for (std::uint64_t i = 0; i < 120; ++i) {
    Rules rules;
    rules.length = i % 3 == 0   ? GameLength::SingleRound
                   : i % 3 == 1 ? GameLength::East
                                : GameLength::EastSouth;
    rules.kuikae = static_cast<Kuikae>(i % 3);
    rules.multiple_ron = static_cast<MultipleRon>(i / 3 % 3);
    rules.kan_dora = static_cast<KanDora>(i / 9 % 3);
    rules.pao = static_cast<Pao>(i / 2 % 3);
    rules.red_fives = {static_cast<std::uint8_t>(i % 3), 2, 1};
    rules.abort_four_kans = i % 2 == 0;
    rules.abort_four_riichi = i % 4 < 2;
    rules.bust = i % 5 != 0;
    rules.extension = i % 7 != 0;
    rules.renhou = static_cast<Renhou>(i % 3);
    rules.riichi_ankan = static_cast<RiichiAnkan>(i % 3);
    rules.rob_ankan_for_kokushi = i % 2 == 1;
    random_game(rules, 1000 + i,
                [](const Table& t, int, const ActionList&, const Action&) { expect_tiles_conserved(t); });
  }
}

TEST(Table, AnIllegalActionIsRefusedAndChangesNothing) {
  int refused = 0;
  random_game(Rules::tenhou(), 5, [&](const Table& t, int player, const ActionList& legal, const Action&) {
    Table copy = t;
    for (int who = 0; who < 4; ++who)
      for (const Action action :
           {Action::discard(3, false), Action::discard(200, true), Action::of(ActionType::Tsumo),
            Action::of(ActionType::Ron), Action::pon(4, 4, 34), Action::chi(0, 1, 2), Action::ankan(33),
            Action::kakan(255), Action::pass(), Action::of(ActionType::Riichi),
            Action::of(static_cast<ActionType>(77))}) {
        if (who == player && legal.contains(action)) continue;
        if (who != player && (t.to_act() >> who & 1) != 0) continue;
        EXPECT_THROW(apply(copy, who, action), IllegalAction);
        ++refused;
      }
    EXPECT_THROW(apply(copy, 4, Action::pass()), IllegalAction);
    EXPECT_THROW(apply(copy, -1, Action::pass()), IllegalAction);
    EXPECT_THROW(next_round(copy), IllegalAction);
    ASSERT_EQ(std::memcmp(&copy, &t, sizeof t), 0);
  });
  EXPECT_GT(refused, 1000);
}

TEST(Table, TheQuickCheckAgreesWithTheListOfLegalActions) {
  for (std::uint64_t game = 0; game < 10; ++game)
    random_game(Rules::tenhou(), 20 + game,
                [&](const Table& t, int player, const ActionList& legal, const Action&) {
                  for (int tile = 0; tile < 40; ++tile)
                    for (const bool drawn : {false, true}) {
                      const Action action = Action::discard(static_cast<Tile>(tile), drawn);
                      ASSERT_EQ(is_legal(t, player, action), legal.contains(action)) << to_string(action);
                    }
                  for (const Action& action : legal) ASSERT_TRUE(is_legal(t, player, action));
                  ASSERT_EQ(is_legal(t, player, Action::pass()), legal.contains(Action::pass()));
                });
}

TEST(Table, WhatAPlayerSeesDoesNotDependOnHiddenTiles) {
  int compared = 0;
  for (std::uint64_t game = 0; game < 10; ++game)
    random_game(
        Rules::tenhou(), 50 + game, [&](const Table& t, int player, const ActionList&, const Action&) {
          // Swap everything hidden: the others' tiles and the wall, and ask again.
          Table other = t;
          for (int p = 0; p < 4; ++p)
            if (p != player) other.own[static_cast<std::size_t>(p)] = t.own[static_cast<std::size_t>(player)];
          std::reverse(other.wall.begin(), other.wall.end());
          other.session = Seed{};
          for (Action& response : other.responses) response = Action::pass();
          const Observation a = observe(t, player), b = observe(other, player);
          std::array<float, kChannels * kKinds> x, y;
          encode(a, x);
          encode(b, y);
          ASSERT_EQ(x, y);
          const ActionList la = legal_actions(a), lb = legal_actions(b), lt = legal_actions(t, player);
          ASSERT_TRUE(std::equal(la.begin(), la.end(), lb.begin(), lb.end()));
          ASSERT_TRUE(std::equal(la.begin(), la.end(), lt.begin(), lt.end()));
          ++compared;
        });
  EXPECT_GT(compared, 5000);
}

TEST(Table, TheSameSeedGivesTheSameGame) {
  Events a, b;
  random_game(
      Rules::tenhou(), 7, [](const Table&, int, const ActionList&, const Action&) {}, &a);
  random_game(
      Rules::tenhou(), 7, [](const Table&, int, const ActionList&, const Action&) {}, &b);
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(a[i].type, b[i].type);
    ASSERT_EQ(a[i].tile, b[i].tile);
    ASSERT_EQ(a[i].deltas, b[i].deltas);
  }
}

TEST(Table, WaitsAreThoseOfTheHandAtEveryDecision) {  // the floor on shanten must never hide a tenpai
  for (std::uint64_t game = 0; game < 20; ++game)
    random_game(Rules::tenhou(), 300 + game, [&](const Table& t, int, const ActionList&, const Action&) {
      for (std::size_t p = 0; p < 4; ++p) {
        const PrivateState& own = t.own[p];
        if (own.hand.size % 3 != 1) continue;
        const int distance = shanten(own.hand, t.pub.seats[p].meld_count);
        ASSERT_GE(distance, static_cast<int>(own.shanten_floor));
        if (distance > 0) ASSERT_EQ(own.waits, KindSet{0});
        if (distance == 0 && t.pub.seats[p].meld_count == 0) ASSERT_EQ(own.waits, waits(own.hand, 0));
      }
    });
}

TEST(Policy, EveryLegalActionHasAnIndexAndEveryIndexAnAction) {
  for (std::uint64_t game = 0; game < 20; ++game)
    random_game(Rules::tenhou(), 400 + game, [&](const Table&, int, const ActionList& legal, const Action&) {
      const std::uint64_t mask = policy_mask(legal);
      for (const Action& action : legal) ASSERT_TRUE(mask >> policy_index(action) & 1);
      for (int index = 0; index < kPolicyActions; ++index) {
        if ((mask >> index & 1) == 0) {
          ASSERT_THROW(policy_action(legal, index), IllegalAction);
          continue;
        }
        const Action action = policy_action(legal, index);
        ASSERT_TRUE(legal.contains(action));
        ASSERT_EQ(policy_index(action), index);
      }
      for_each_kind(kan_kinds(legal), [&](Kind kind) {
        ASSERT_EQ(kind_of(policy_action(legal, kPolicyKan, kind).tile), kind);
      });
    });
}

TEST(Policy, CallsUseTheRedFiveAndDiscardsTheDrawnTile) {
  ActionList legal;
  legal.push(Action::chi(3, 4, 5));
  legal.push(Action::chi(3, 34, 5));
  legal.push(Action::pon(4, 4, 34));
  legal.push(Action::pon(4, 4, 4));
  legal.push(Action::discard(9, false));
  legal.push(Action::discard(9, true));
  EXPECT_EQ(policy_action(legal, kPolicyChiLow), Action::chi(3, 34, 5));
  EXPECT_EQ(policy_action(legal, kPolicyPon), Action::pon(4, 4, 34));
  EXPECT_EQ(policy_action(legal, 9), Action::discard(9, true));
}

TEST(Encoder, IncrementalEqualsFullAfterEveryEvent) {
  for (const EncoderOptions& options : {EncoderOptions{}, EncoderOptions{.context = true},
                                        EncoderOptions{.context = true, .outlook = true}}) {
    std::array<IncrementalEncoder, 4> encoders{IncrementalEncoder(options), IncrementalEncoder(options),
                                               IncrementalEncoder(options), IncrementalEncoder(options)};
    std::vector<float> full(static_cast<std::size_t>(options.channels()) * kKinds);
    for (std::uint64_t game = 0; game < (options.outlook ? 1 : 6); ++game)
      random_game(Rules::tenhou(), 70 + game, [&](const Table& t, int, const ActionList&, const Action&) {
        for (int p = 0; p < 4; ++p) {
          const Observation o = observe(t, p);
          encode(o, full, options);
          const auto quick = encoders[static_cast<std::size_t>(p)].encode(o);
          ASSERT_TRUE(std::equal(full.begin(), full.end(), quick.begin(), quick.end()));
        }
      });
  }
}

TEST(Encoder, IncrementalMayBeShownAnyTableAndSeat) {
  IncrementalEncoder encoder;
  std::vector<float> full(kChannels * kKinds);
  int step = 0;
  std::vector<Observation> seen;
  random_game(Rules::tenhou(), 71, [&](const Table& t, int, const ActionList&, const Action&) {
    if (++step % 13 == 0) seen.push_back(observe(t, step % 4));
  });
  ChaCha8 random(seed_from_number(3));
  for (int i = 0; i < 500; ++i) {
    const Observation& o = seen[random.below(static_cast<std::uint32_t>(seen.size()))];
    encode(o, full);
    const auto quick = encoder.encode(o);
    ASSERT_TRUE(std::equal(full.begin(), full.end(), quick.begin(), quick.end()));
  }
}

TEST(Symmetry, APermutedGameIsTheSameGame) {
  std::vector<float> plain(kChannels * kKinds), moved(plain.size()), encoded(plain.size());
  for (int index = 0; index < 6; ++index) {
    const SuitPermutation p = SuitPermutation::number(index);
    random_game(Rules::tenhou(), 80 + static_cast<std::uint64_t>(index),
                [&](const Table& t, int player, const ActionList& legal, const Action& action) {
                  Table other = p.table(t);
                  const ActionList permuted = legal_actions(other, player);
                  ASSERT_EQ(permuted.size(), legal.size());
                  for (const Action& one : legal) ASSERT_TRUE(permuted.contains(p.action(one)));
                  encode(observe(t, player), plain);
                  p.encoding(plain, moved);
                  encode(observe(other, player), encoded);
                  ASSERT_EQ(moved, encoded);
                  Table next = t;
                  apply_trusted(next, player, action);
                  apply(other, player, p.action(action));
                  for (std::size_t s = 0; s < 4; ++s)
                    ASSERT_EQ(next.pub.seats[s].score, other.pub.seats[s].score);
                  const Table back = p.inverse().table(p.table(t));
                  ASSERT_EQ(std::memcmp(&back.own, &t.own, sizeof t.own), 0);
                });
  }
}

TEST(Symmetry, OnlyGreenHandsChangeTheirValue) {
  const SuitPermutation p = SuitPermutation::number(1);
  EXPECT_FALSE(p.keeps_score(bit(19) | bit(20) | bit(32)));
  EXPECT_TRUE(p.keeps_score(bit(19) | bit(20) | bit(31)));
  EXPECT_TRUE(p.keeps_score(bit(0)));
  EXPECT_TRUE(SuitPermutation::number(2).keeps_score(bit(19) | bit(20)));
}

}  // namespace
}  // namespace ingot::mahjong
