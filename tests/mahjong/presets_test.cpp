// The presets against what the houses publish. Each expectation names the sentence it comes from.
#include "tests/mahjong/scene.h"

namespace ingot::mahjong {
namespace {

using Scores = std::array<std::int32_t, 4>;

int base_of(const char* hand, const char* win, const Rules& rules) {
  const Hand tiles = make_hand(std::string_view(hand));
  WinQuery q{.hand = tiles, .melds = {}, .win_tile = tile(win), .tsumo = true};
  q.seat_wind = 1;
  return score_win(q, rules).base;
}

// "Revised EMA Riichi rules are ready" (mahjong-europe.org, effective 1 April 2016), under "Main changes
// since the 2012 edition" and "Differences to World Championship Rules 2015".
TEST(Presets, TheEuropeanOneFollowsTheRevisionOf2016) {
  const Rules ema = Rules::european();
  // "Red fives have been removed"
  EXPECT_EQ(ema.red_fives, (std::array<std::uint8_t, 3>{0, 0, 0}));
  // "Tanyao (All Simples) can be an open hand"
  EXPECT_TRUE(ema.open_tanyao);
  // "Renho (Blessing of Man) is a mangan, not a yakuman"
  EXPECT_EQ(ema.renhou, Renhou::Mangan);
  // "Dai suushii (Big Four Winds) is a yakuman, not a double yakuman"; nor is any other
  EXPECT_EQ(base_of("111222333444z99m", "9m", ema), 8000);
  EXPECT_EQ(base_of("19m19p19s12345677z", "7z", ema), 8000);
  // "A hand with 13+ fan is scored as a sanbaiman, not a yakuman"
  EXPECT_EQ(base_points(13, 30, ema), 6000);
  // "Swap-calling is not allowed"
  EXPECT_EQ(ema.kuikae, Kuikae::Forbidden);
  // "Abortive draws are not allowed"
  EXPECT_FALSE(ema.abort_nine_orphans || ema.abort_four_winds || ema.abort_four_riichi ||
               ema.abort_four_kans);
  // "Nagashi Mangan is not allowed"
  EXPECT_FALSE(ema.nagashi_mangan);
  // "Uma is changed to 15,000/5,000/-5,000/-15,000", from 30,000 points and without oka
  EXPECT_EQ(game_result(Scores{50000, 40000, 20000, 10000}, ema).points,
            (std::array<double, 4>{35, 15, -15, -35}));
  // "Multiple winners are allowed"
  EXPECT_EQ(ema.multiple_ron, MultipleRon::AllWin);
  // "4-30 is not rounded to mangan payment"
  EXPECT_EQ(base_points(4, 30, ema), 1920);
}

TEST(Presets, AEuropeanPairOfTheSeatsAndTheRoundsWindIsFourFu) {
  const Hand hand = make_hand(std::string_view("111567m234p678s11z"));
  WinQuery q{.hand = hand, .melds = {}, .win_tile = tile("5m")};
  q.riichi = true;
  EXPECT_EQ(score_win(q, Rules::european()).fu,
            50);  // 20, 10 for a closed ron, 8 for 111m, 4: 42, rounded up
}

// East 1 with two counters and a stick; player 3 declares riichi, then players 2 (3900) and 3 (double riichi:
// 8000) win on the dealer's 6s.
Scene two_winners(const Rules& rules) {
  Deal s;
  s.hands = {"", "", "123456789p22m78s", "234678m345p66p78s"};
  s.draws = "4z4z4z1z6s";
  s.ura = "3z";
  s.honba = 2;
  s.sticks = 1;
  Scene scene(s, rules);
  for (int i = 0; i < 3; ++i) scene.discard("4z");
  scene.riichi("1z");
  scene.discard("6s", {{2, ron()}, {3, ron()}});
  return scene;
}

TEST(Presets, OfSeveralEuropeanWinnersEachTakesTheCountersAndItsOwnRiichiBet) {
  EXPECT_EQ(two_winners(Rules::european()).scores(),
            (Scores{25000 - 4500 - 8600, 25000, 25000 + 4500 + 1000, 24000 + 8600 + 1000}));
}

TEST(Presets, ElsewhereTheFirstWinnerTakesTheCountersAndAllRiichiBets) {
  for (const Rules& rules : {Rules::tenhou(), Rules::majsoul()})
    EXPECT_EQ(two_winners(rules).scores(),
              (Scores{25000 - 4500 - 8000, 25000, 25000 + 4500 + 2000, 24000 + 8000}));
}

// The page on Mahjong Soul of riichi.wiki, and the "Platform-Specific Rule Presets" that riichienv documents
// (github.com/smly/RiichiEnv) and plays real games of that house back with.
TEST(Presets, MahjongSoulCountsFourYakumanTwice) {
  const Rules soul = Rules::majsoul();
  EXPECT_EQ(base_of("111222333444z99m", "9m", soul), 16000 + 16000) << "daisuushii, suuankou by a pair wait";
  EXPECT_EQ(base_of("111m999m222p333s44z", "4z", soul), 16000) << "suuankou by a pair wait";
  EXPECT_EQ(base_of("19m19p19s12345677z", "7z", soul), 16000) << "thirteen-sided orphans";
  EXPECT_EQ(base_of("11123456789995m", "5m", soul), 16000) << "nine-sided nine gates";
  EXPECT_EQ(base_of("111m999m222p333s44z", "1m", soul), 8000);
  EXPECT_EQ(base_of("19m19p19s12345677z", "1m", soul), 8000);
  EXPECT_EQ(base_of("11123456789995m", "9m", soul), 8000);
}

TEST(Presets, MahjongSoulDiffersFromTenhouAsItsRulesSay) {
  const Rules soul = Rules::majsoul();
  // Triple ron: no abortive draw. The other four abort.
  EXPECT_EQ(soul.multiple_ron, MultipleRon::AllWin);
  EXPECT_TRUE(soul.abort_nine_orphans && soul.abort_four_winds && soul.abort_four_riichi &&
              soul.abort_four_kans);
  // Thirteen orphans may win on a closed kan.
  EXPECT_TRUE(soul.rob_ankan_for_kokushi);
  // Of several yakuman the liable player answers for its own alone.
  EXPECT_EQ(soul.pao, Pao::YakumanOnly);
  // A pair of both winds: 4 fu. Bankruptcy below zero. Leftover sticks to the first place.
  EXPECT_TRUE(soul.double_wind_pair_4fu && soul.bust);
  // Results count from 25,000 with 15, 5, -5, -15.
  EXPECT_EQ(game_result(Scores{40000, 30000, 20000, 10000}, soul).points,
            (std::array<double, 4>{30, 10, -10, -30}));
}

}  // namespace
}  // namespace ingot::mahjong
