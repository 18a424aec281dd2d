#include "ingot/mahjong/score.h"

#include <filesystem>
#include <functional>
#include <map>

#include "tests/mahjong/data.h"
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "ingot/base/files.h"
#include "ingot/base/json.h"
#include "ingot/mahjong/errors.h"
#include "ingot/mahjong/meld_text.h"

namespace ingot::mahjong {
namespace {

using nlohmann::json;

Tile tile_of_id(int id) {
  if (id == 16) return 34;
  if (id == 52) return 35;
  if (id == 88) return 36;
  return static_cast<Tile>(id / 4);
}

// Mahjong Soul's numbers, by Tenhou's.
std::uint64_t yaku_of_majsoul(const json& list, int seat, int round) {
  static const std::map<int, Yaku> table = {
      {1, Yaku::MenzenTsumo},    {2, Yaku::Riichi},          {3, Yaku::Chankan},
      {4, Yaku::Rinshan},        {5, Yaku::Haitei},          {6, Yaku::Houtei},
      {7, Yaku::Haku},           {8, Yaku::Hatsu},           {9, Yaku::Chun},
      {12, Yaku::Tanyao},        {13, Yaku::Iipeikou},       {14, Yaku::Pinfu},
      {15, Yaku::Chanta},        {16, Yaku::Ittsu},          {17, Yaku::SanshokuDoujun},
      {18, Yaku::DoubleRiichi},  {19, Yaku::SanshokuDoukou}, {20, Yaku::Sankantsu},
      {21, Yaku::Toitoi},        {22, Yaku::Sanankou},       {23, Yaku::Shousangen},
      {24, Yaku::Honroutou},     {25, Yaku::Chiitoitsu},     {26, Yaku::Junchan},
      {27, Yaku::Honitsu},       {28, Yaku::Ryanpeikou},     {29, Yaku::Chinitsu},
      {30, Yaku::Ippatsu},       {31, Yaku::Dora},           {32, Yaku::RedDora},
      {33, Yaku::UraDora},       {35, Yaku::Tenhou},         {36, Yaku::Chiihou},
      {37, Yaku::Daisangen},     {38, Yaku::Suuankou},       {39, Yaku::Tsuuiisou},
      {40, Yaku::Ryuuiisou},     {41, Yaku::Chinroutou},     {42, Yaku::Kokushi},
      {43, Yaku::Shousuushii},   {44, Yaku::Suukantsu},      {45, Yaku::ChuurenPoutou},
      {47, Yaku::JunseiChuuren}, {48, Yaku::SuuankouTanki},  {49, Yaku::Kokushi13},
      {50, Yaku::Daisuushii}};
  std::uint64_t set = 0;
  for (const int id : list) {
    int yaku = id == 10   ? static_cast<int>(Yaku::SeatEast) + seat
               : id == 11 ? static_cast<int>(Yaku::RoundEast) + round
                          : static_cast<int>(table.at(id));
    set |= std::uint64_t{1} << yaku;
  }
  return set;
}

Meld meld_of(const json& m) {
  Meld meld;
  std::vector<Tile> tiles;
  for (const int id : m.at("tiles")) tiles.push_back(tile_of_id(id));
  const std::string type = m.at("meld_type");
  meld.type = type == "chi"         ? MeldType::Chi
              : type == "pon"       ? MeldType::Pon
              : type == "daiminkan" ? MeldType::Daiminkan
              : type == "kakan"     ? MeldType::Kakan
                                    : MeldType::Ankan;
  meld.called = tiles.at(0);
  for (std::size_t i = 1; i < tiles.size(); ++i) meld.consumed.at(i - 1) = tiles[i];
  return meld;
}

TEST(Score, AgreesWithEveryListedWin) {
  const std::string path = data_path("wins_4p.json");
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "no test data: wins_4p.json";
  const json wins = parse_json<json>(read_file(path), path);
  int checked = 0, malformed = 0;
  for (std::size_t i = 0; i < wins.size(); ++i) {
    const json& win = wins[i];
    const json& c = win.at("conditions");
    std::vector<Meld> melds;
    for (const json& m : win.at("melds")) melds.push_back(meld_of(m));
    std::vector<Tile> tiles, indicators, ura;
    for (const int id : win.at("tiles_136")) tiles.push_back(tile_of_id(id));
    if (tiles.size() != 13 - 3 * melds.size()) {
      ++malformed;  // one record of the source lists the winning tile twice
      continue;
    }
    const Tile win_tile = tile_of_id(win.at("win_tile_136"));
    tiles.push_back(win_tile);
    for (const int id : win.at("dora_indicators")) indicators.push_back(tile_of_id(id));
    for (const int id : win.at("ura_indicators")) ura.push_back(tile_of_id(id));
    const Hand hand = make_hand(tiles);
    WinQuery q{.hand = hand, .melds = melds, .win_tile = win_tile};
    q.tsumo = c.at("tsumo");
    q.double_riichi = c.at("double_riichi");
    q.riichi = c.at("riichi");
    q.ippatsu = c.at("ippatsu");
    q.last_tile = c.at("haitei").get<bool>() || c.at("houtei").get<bool>();
    q.rinshan = c.at("rinshan");
    q.chankan = c.at("chankan");
    q.first_turn = c.at("tsumo_first_turn");
    q.seat_wind = c.at("player_wind");
    q.round_wind = c.at("round_wind");
    q.indicators = indicators;
    q.ura_indicators = ura;
    ASSERT_NO_THROW(check_win_query(q)) << i;
    const WinScore score = score_win(q, Rules::majsoul());
    const json& want = win.at("expected");
    ASSERT_EQ(score.is_win(), want.at("is_win").get<bool>()) << i << ' ' << dump_json(win);
    ASSERT_EQ(int{score.han}, want.at("han").get<int>()) << i << ' ' << dump_json(win);
    ASSERT_EQ(int{score.fu}, want.at("fu").get<int>()) << i << ' ' << dump_json(win);
    ASSERT_EQ(score.yaku, yaku_of_majsoul(want.at("yaku"), q.seat_wind, q.round_wind))
        << i << ' ' << dump_json(win);
    ++checked;
  }
  EXPECT_GE(checked, 400);
  EXPECT_LE(malformed, 1);
}

WinScore score(const char* text, const char* win, const std::function<void(WinQuery&)>& change = {},
               const Rules& rules = Rules::tenhou(), std::vector<Meld> melds = {}) {
  const Hand hand = make_hand(text);
  WinQuery q{.hand = hand, .melds = melds, .win_tile = parse_tiles(win)[0]};
  q.seat_wind = 1;
  if (change) change(q);
  check_win_query(q);
  return score_win(q, rules);
}

Meld pon(Kind kind) { return {MeldType::Pon, 1, kind, {kind, kind, kNoTile}}; }

TEST(Score, PinfuByTsumoIsTwentyFu) {
  const WinScore s = score("123m456m789p34555s", "3s", [](WinQuery& q) { q.tsumo = true; });
  EXPECT_TRUE(s.has(Yaku::Pinfu));
  EXPECT_EQ(s.fu, 20);
  EXPECT_EQ(s.han, 2);
}

TEST(Score, AnOpenHandWithoutFuIsThirty) {
  const WinScore s =
      score("234m456p55s", "2m", {}, Rules::tenhou(),
            {{MeldType::Chi, 0, 1, {2, 3, kNoTile}}, {MeldType::Chi, 0, 10, {11, 12, kNoTile}}});
  EXPECT_EQ(s.fu, 30);
  EXPECT_EQ(s.han, 1);
  EXPECT_EQ(s.base, 240);
}

TEST(Score, OpenTanyaoIsAnOption) {
  Rules rules;
  rules.open_tanyao = false;
  EXPECT_FALSE(score("234m456p66678s", "2m", {}, rules, {pon(3)}).is_win());
  EXPECT_TRUE(score("234m456p66678s", "2m", {}, Rules::tenhou(), {pon(3)}).is_win());
}

TEST(Score, ATripletFinishedByRonIsOpen) {
  EXPECT_EQ(score("111m222p333s444s55z", "1m", [](WinQuery& q) { q.tsumo = true; }).yakuman, 1);
  const WinScore ron = score("111m222p333s444s55z", "1m");
  EXPECT_TRUE(ron.has(Yaku::Sanankou));
  EXPECT_TRUE(ron.has(Yaku::Toitoi));
  EXPECT_TRUE(score("111m222p333s444s55z", "5z").has(Yaku::SuuankouTanki));
}

TEST(Score, DoubleYakumanAreOptions) {
  EXPECT_EQ(score("19m19p19s12345677z", "7z").yakuman, 1);
  EXPECT_EQ(score("19m19p19s12345677z", "7z", {}, Rules::majsoul()).yakuman, 2);
  EXPECT_EQ(score("19m19p19s12345677z", "1z", {}, Rules::majsoul()).yakuman, 1);
}

TEST(Score, DifferentYakumanAddUpUnlessTheRulesSayNo) {
  EXPECT_EQ(score("111z222z333z555z66z", "6z").yakuman, 2);
  EXPECT_EQ(score("111z222z333z555z66z", "6z", {}, Rules::european()).yakuman, 1);
}

TEST(Score, DoraAloneAreNoYaku) {
  const Tile indicators[] = {0};
  EXPECT_FALSE(score("222m456p678s99s", "6s", [&](WinQuery& q) { q.indicators = indicators; },
                     Rules::tenhou(), {{MeldType::Chi, 0, 0, {1, 2, kNoTile}}})
                   .is_win());
}

TEST(Score, ThirteenHanAreAYakumanOnlyWhereCounted) {
  Rules rules;
  EXPECT_EQ(base_points(13, 30, rules), 8000);
  rules.kazoe_yakuman = false;
  EXPECT_EQ(base_points(15, 30, rules), 6000);
}

TEST(Score, KiriageRoundsUpToMangan) {
  Rules rules;
  EXPECT_EQ(base_points(4, 30, rules), 1920);
  EXPECT_EQ(base_points(3, 70, rules), 2000);
  rules.kiriage_mangan = true;
  EXPECT_EQ(base_points(4, 30, rules), 2000);
  EXPECT_EQ(base_points(3, 60, rules), 2000);
}

TEST(Score, ThePointTableHolds) {
  EXPECT_EQ(payment_for(240, false).ron, 1000);
  EXPECT_EQ(payment_for(320, true).ron, 2000);
  EXPECT_EQ(payment_for(1280, false).from_non_dealer, 1300);
  EXPECT_EQ(payment_for(1280, false).from_dealer, 2600);
  EXPECT_EQ(payment_for(8000, true).from_non_dealer, 16000);
}

TEST(Score, TheReadingWorthMostIsTaken) {  // as three triplets sanankou, as runs iipeikou and pinfu at most
  const WinScore s = score("111222333m99p789s", "7s");
  EXPECT_TRUE(s.has(Yaku::Sanankou) || s.has(Yaku::Junchan));
  EXPECT_TRUE(s.has(Yaku::Junchan));
  EXPECT_TRUE(s.has(Yaku::Iipeikou));
}

TEST(Score, WinsThatNoKanAllowsAreRefused) {
  EXPECT_THROW(score("223344m567p34588s", "2m", [](WinQuery& q) { q.chankan = true; }), InvalidHand)
      << "who robs the fourth cannot hold another";
  EXPECT_THROW(score("234m567p345678s11z", "2m", [](WinQuery& q) { q.rinshan = q.tsumo = true; }),
               InvalidHand);
  EXPECT_NO_THROW(score("234m567p34588s456s", "2m", [](WinQuery& q) { q.chankan = true; }));
}

TEST(Score, EventsThatExcludeEachOtherAreRefused) {
  const auto refused = [](auto set) { EXPECT_THROW(score("234m055p678s34588s", "2m", set), InvalidHand); };
  refused([](WinQuery& q) { q.riichi = q.chankan = q.last_tile = true; });
  refused([](WinQuery& q) { q.double_riichi = q.ippatsu = q.last_tile = true; });
  refused([](WinQuery& q) { q.first_turn = q.tsumo = q.riichi = true; });
  refused([](WinQuery& q) { q.first_turn = q.tsumo = q.last_tile = true; });
  const Tile two_indicators[] = {27, 28};
  refused([&](WinQuery& q) {
    q.first_turn = q.tsumo = true;
    q.indicators = two_indicators;
  });
  refused([&](WinQuery& q) {
    q.double_riichi = q.ippatsu = true;
    q.indicators = two_indicators;
  });
  refused([](WinQuery& q) {  // the dealer draws first
    q.first_turn = true;
    q.seat_wind = 0;
  });
  EXPECT_NO_THROW(score("234m055p678s34588s", "2m", [](WinQuery& q) { q.first_turn = q.tsumo = true; }));
  EXPECT_NO_THROW(score("234m055p678s34588s", "2m", [](WinQuery& q) { q.riichi = q.last_tile = true; }));
  const Hand closed = make_hand("234m055p678s22z");
  const Meld kan[] = {{MeldType::Ankan, 0, 27, {27, 27, 27}}};
  WinQuery q{.hand = closed, .melds = kan, .win_tile = 1, .tsumo = true, .riichi = true, .rinshan = true};
  EXPECT_NO_THROW(check_win_query(q));
  q.ippatsu = true;
  EXPECT_THROW(check_win_query(q), InvalidHand) << "one's own kan ends it";
}

TEST(Score, AMeldMarkedAsClosedHasFourTiles) {
  EXPECT_EQ(parse_meld("-1111z").type, MeldType::Ankan);
  EXPECT_THROW(parse_meld("-111z"), InvalidHand);
  EXPECT_THROW(parse_meld("-123m"), InvalidHand);
}

TEST(Score, MoreRedFivesThanTheRulesHaveAreRefused) {
  const Hand two = make_hand("005m123p456s11122z"), one = make_hand("055m123p456s11122z");
  const Tile win = one.tiles().front();
  EXPECT_THROW(check_win_query({.hand = two, .melds = {}, .win_tile = two.tiles().front()}), InvalidHand);
  EXPECT_NO_THROW(check_win_query({.hand = one, .melds = {}, .win_tile = win}));
  EXPECT_THROW(check_win_query({.hand = one, .melds = {}, .win_tile = win}, Rules::named("european")),
               InvalidHand);
}

TEST(Score, ImpossibleHandsAreRefusedWithTheReason) {
  const Hand hand = make_hand("123m456m789p11z222z");
  WinQuery q{.hand = hand, .melds = {}, .win_tile = 5};
  const Tile four[] = {27, 27, 27};
  q.indicators = four;
  EXPECT_THROW(check_win_query(q), InvalidHand);
  q.indicators = {};
  EXPECT_NO_THROW(check_win_query(q));
  q.ippatsu = true;
  EXPECT_THROW(check_win_query(q), InvalidHand) << "without riichi";
  q.double_riichi = true;
  EXPECT_NO_THROW(check_win_query(q));
  q.win_tile = 20;
  EXPECT_THROW(check_win_query(q), InvalidHand);
  const Meld broken[] = {{MeldType::Chi, 0, 8, {9, 10, kNoTile}}};
  const Hand rest = make_hand("123m456m11z222z");
  WinQuery with_meld{.hand = rest, .melds = broken, .win_tile = 5};
  EXPECT_THROW(check_win_query(with_meld), InvalidHand);
}

}  // namespace
}  // namespace ingot::mahjong
