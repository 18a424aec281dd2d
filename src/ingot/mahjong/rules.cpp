#include "ingot/mahjong/rules.h"

#include <fmt/core.h>

#include "ingot/base/error.h"

namespace ingot::mahjong {

Rules Rules::majsoul() {
  Rules rules;
  rules.return_points = 25000;
  rules.uma = {15, 5, -5, -15};
  rules.rounding = ResultRounding::None;
  rules.multiple_ron = MultipleRon::AllWin;
  rules.rob_ankan_for_kokushi = true;
  rules.pao = Pao::YakumanOnly;
  rules.double_suuankou_tanki = rules.double_junsei_chuuren = true;
  rules.double_kokushi_13 = rules.double_daisuushii = true;
  return rules;
}

// "Riichi, rules for Japanese mahjong", 2016 edition, whose notes list the changes since 2012 and the
// differences to the World Riichi Championship; tests/mahjong/presets_test.cpp quotes them.
Rules Rules::european() {
  Rules rules;
  rules.starting_points = rules.return_points = rules.target_points = 30000;
  rules.uma = {15, 5, -5, -15};
  rules.rounding = ResultRounding::None;
  rules.ties_share = true;
  rules.extension = rules.bust = rules.agari_yame = rules.tenpai_yame = false;
  rules.red_fives = {0, 0, 0};
  rules.kan_dora = KanDora::Immediate;
  rules.riichi_ankan = RiichiAnkan::SameReadings;
  rules.riichi_needs_points = false;
  rules.abort_nine_orphans = rules.abort_four_winds = rules.abort_four_riichi = rules.abort_four_kans = false;
  rules.multiple_ron = MultipleRon::AllWin;
  rules.every_ron_takes_honba = rules.winners_keep_own_stick = true;
  rules.nagashi_mangan = false;
  rules.rob_ankan_for_kokushi = true;
  rules.pao = Pao::YakumanOnly;
  rules.pao_pays_honba = false;
  rules.kazoe_yakuman = rules.yakuman_add_up = false;
  rules.renhou = Renhou::Mangan;
  return rules;
}

Rules Rules::named(std::string_view name) {
  if (name == "tenhou") return tenhou();
  if (name == "majsoul") return majsoul();
  if (name == "european") return european();
  throw InvalidConfig("rules", fmt::format("\"{}\" is not a preset; use tenhou, majsoul or european", name));
}

GameLength game_length_named(std::string_view name) {
  if (name == "round") return GameLength::SingleRound;
  if (name == "east") return GameLength::East;
  if (name == "hanchan") return GameLength::EastSouth;
  throw InvalidConfig("length", fmt::format("\"{}\" is not a length; use hanchan, east or round", name));
}

void check_rules(const Rules& rules) {
  const auto check = [](bool ok, const char* key, const std::string& problem) {
    if (!ok) throw InvalidConfig(key, problem);
  };
  for (const std::uint8_t reds : rules.red_fives)
    check(reds <= 2, "red_fives", fmt::format("{} in one suit; 0 to 2 are possible", reds));
  check(rules.starting_points >= 0 && rules.starting_points <= 10'000'000 && rules.starting_points % 100 == 0,
        "starting_points",
        fmt::format("is {}; expected a multiple of 100 up to 10,000,000", rules.starting_points));
  check(rules.target_points <= 40'000'000, "target_points", fmt::format("is {}", rules.target_points));
  check(rules.uma[0] + rules.uma[1] + rules.uma[2] + rules.uma[3] == 0, "uma",
        fmt::format("{}, {}, {}, {} do not sum to zero", rules.uma[0], rules.uma[1], rules.uma[2],
                    rules.uma[3]));
  check(rules.riichi_min_wall <= 70, "riichi_min_wall", fmt::format("is {}", rules.riichi_min_wall));
}

}  // namespace ingot::mahjong
