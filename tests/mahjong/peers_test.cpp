// Comparison with the PyPI packages `riichienv` (legal actions) and `mahjong` (scores, shanten) through files
// that tools/goldens/mahjong_peers.py makes. INGOT_MAHJONG_LEGAL and INGOT_MAHJONG_SCORE name larger ones to
// use instead.
#include <fstream>

#include "tests/support/source_dir.h"
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "ingot/base/files.h"
#include "ingot/base/json.h"
#include "ingot/mahjong/log.h"
#include "ingot/mahjong/policy.h"
#include "ingot/mahjong/shanten.h"
#include "ingot/mahjong/tracker.h"

namespace ingot::mahjong {
namespace {

using nlohmann::json;

std::string peer_file(const char* variable, const char* name) {
  const char* own = std::getenv(variable);
  return own != nullptr ? own : test::source_dir() + "/tests/mahjong/goldens/" + name;
}

TEST(Peers, RiichienvHoldsTheSameActionsLegal) {
  std::ifstream in(peer_file("INGOT_MAHJONG_LEGAL", "riichienv.jsonl"));
  ASSERT_TRUE(in);
  std::vector<SeatTracker> trackers;
  std::string line;
  int compared = 0, differ = 0, number = 0;
  while (std::getline(in, line)) {
    ++number;
    if (line.find("\"legal\"") != std::string::npos) {
      const json one = parse_json<json>(line, "the test");
      const auto& tracker = trackers.at(one.at("player").get<std::size_t>());
      const std::uint64_t theirs = std::stoull(one.at("mask").get<std::string>(), nullptr, 16);
      const std::uint64_t ours = policy_mask(tracker.legal());
      ++compared;
      if (ours == theirs) continue;
      if (++differ <= 10) {
        std::string only_ours, only_theirs;
        for (int i = 0; i < kPolicyActions; ++i) {
          if ((ours & ~theirs) >> i & 1) only_ours += std::to_string(i) + " ";
          if ((theirs & ~ours) >> i & 1) only_theirs += std::to_string(i) + " ";
        }
        const Observation& o = tracker.observation();
        ADD_FAILURE() << "line " << number << ": only ours " << only_ours << "only theirs " << only_theirs
                      << "hand " << format_tiles(o.own.hand.tiles()) << " drawn " << tile_name(o.own.drawn)
                      << " claimed " << tile_name(o.pub.claimed) << " left " << int{o.pub.live_left};
      }
      continue;
    }
    const Event event = parse_mjai(line);
    if (event.type == EventType::StartGame) {
      trackers.clear();
      for (int p = 0; p < 4; ++p) trackers.emplace_back(Rules::tenhou(), p);
    }
    for (SeatTracker& tracker : trackers) tracker.on(event);
  }
  EXPECT_GT(compared, 300);
  EXPECT_EQ(differ, 0) << "of " << compared;
}

Tile tile_of(int id) { return id == 16 ? 34 : id == 52 ? 35 : id == 88 ? 36 : static_cast<Tile>(id / 4); }

TEST(Peers, MahjongScoresTheSame) {
  const std::string path = peer_file("INGOT_MAHJONG_SCORE", "mahjong.json");
  const json data = parse_json<json>(read_file(path), path);
  int differ = 0;
  for (const json& one : data.at("wins")) {
    std::vector<Tile> tiles, indicators;
    std::vector<Meld> melds;
    for (const int id : one.at(0)) tiles.push_back(tile_of(id));
    for (const json& m : one.at(1)) {
      Meld meld;
      std::vector<Tile> of;
      for (const int id : m.at(1)) of.push_back(tile_of(id));
      meld.type = m.at(0) == "chi"      ? MeldType::Chi
                  : m.at(0) == "pon"    ? MeldType::Pon
                  : m.at(2).get<bool>() ? MeldType::Daiminkan
                                        : MeldType::Ankan;
      meld.called = of.at(0);
      for (std::size_t i = 1; i < of.size(); ++i) meld.consumed.at(i - 1) = of[i];
      melds.push_back(meld);
    }
    for (const int id : one.at(3)) indicators.push_back(tile_of(id));
    const Hand hand = make_hand(tiles);
    WinQuery q{.hand = hand, .melds = melds, .win_tile = tile_of(one.at(2))};
    q.tsumo = one.at(4).at(0) == 1;
    q.riichi = one.at(4).at(1) == 1;
    q.seat_wind = one.at(4).at(2);
    q.round_wind = one.at(4).at(3);
    q.indicators = indicators;
    const WinScore score = score_win(q, Rules::tenhou());
    const json& want = one.at(5);
    bool same = score.is_win() == !want.is_null();
    if (same && score.is_win()) {
      const Payment pay = payment_for(score.base, q.seat_wind == 0);
      const int main = !q.tsumo ? pay.ron : q.seat_wind == 0 ? pay.from_non_dealer : pay.from_dealer;
      same = main == want.at(2) &&
             (score.yakuman > 0 || (score.han == want.at(0) && score.fu == want.at(1))) &&
             (!q.tsumo || q.seat_wind == 0 || pay.from_non_dealer == want.at(3));
    }
    if (!same && ++differ <= 10)
      ADD_FAILURE() << dump_json(one) << " got han " << int{score.han} << " fu " << int{score.fu} << " base "
                    << score.base;
  }
  EXPECT_EQ(differ, 0);
}

TEST(Peers, MahjongCountsTheSameShanten) {
  const std::string path = peer_file("INGOT_MAHJONG_SCORE", "mahjong.json");
  const json data = parse_json<json>(read_file(path), path);
  for (const json& one : data.at("shanten")) {
    const auto& counts = one.at(0).get_ref<const std::string&>();
    Hand hand;
    for (Kind kind = 0; kind < kKinds; ++kind)
      for (char n = counts[kind]; n > '0'; --n) hand.add_kind(kind);
    ASSERT_EQ(shanten(hand, (14 - hand.size) / 3), one.at(1).get<int>()) << counts;
  }
}

}  // namespace
}  // namespace ingot::mahjong
