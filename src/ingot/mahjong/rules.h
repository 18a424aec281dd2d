#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace ingot::mahjong {

enum class GameLength : std::uint8_t { SingleRound, East, EastSouth };
enum class Kuikae : std::uint8_t { Allowed, SameTileForbidden, Forbidden };
/// HeadBump: only the first claimant after the discarder wins. TripleAborts: two win, three abort the round.
enum class MultipleRon : std::uint8_t { HeadBump, TripleAborts, AllWin };
/// Who pays for a hand that another's discard made sure: nobody in particular, the named player for that
/// yakuman alone, or for everything the hand is worth.
enum class Pao : std::uint8_t { None, YakumanOnly, WholeHand };
/// A concealed kan after riichi: never, if the waits stay, or if besides no reading of the hand goes away.
enum class RiichiAnkan : std::uint8_t { Forbidden, SameWaits, SameReadings };
enum class Renhou : std::uint8_t { None, Mangan, Yakuman };
/// DelayOpen: concealed kans reveal at once, others with the next discard or before the next kan's draw.
enum class KanDora : std::uint8_t { None, Immediate, DelayOpen };
/// How final scores become a result: exact, as Tenhou's since 2022, or each rounded to thousands, halves away
/// from zero, and the first place's what the others' leave, as Tenhou's were before.
enum class ResultRounding : std::uint8_t { None, Thousands };

/// Every rule that houses differ in. The defaults are Tenhou's (four players, open tanyao, three red fives).
struct Rules {
  GameLength length = GameLength::EastSouth;
  std::int32_t starting_points = 25000;
  std::int32_t target_points = 30000;  ///< needed to end after the last round
  std::int32_t return_points =
      30000;  ///< what results are counted from; four times the difference is the oka
  std::array<std::int16_t, 4> uma = {20, 10, -10, -20};  ///< in thousands, first place first
  ResultRounding rounding = ResultRounding::Thousands;
  bool ties_share = false;  ///< equal scores share uma and oka; else the earlier seat ranks higher
  bool extension = true;    ///< one more wind, ending when someone reaches the target
  bool bust = true;         ///< the game ends when a score falls below zero
  bool agari_yame =
      true;  ///< a dealer who leads with the target reached and wins the last round ends the game
  bool tenpai_yame = true;  ///< the same for a dealer who is tenpai at the draw

  std::array<std::uint8_t, 3> red_fives = {1, 1, 1};  ///< of m, p, s: 0 to 2, the lowest copies
  bool open_tanyao = true;
  Kuikae kuikae = Kuikae::Forbidden;
  bool ippatsu = true;
  bool ura_dora = true;
  KanDora kan_dora = KanDora::DelayOpen;
  bool kan_ura_dora = true;
  RiichiAnkan riichi_ankan = RiichiAnkan::SameWaits;
  bool riichi_needs_points = true;   ///< 1000 points in hand
  std::uint8_t riichi_min_wall = 4;  ///< live tiles that must be left

  bool abort_nine_orphans = true;
  bool abort_four_winds = true;
  bool abort_four_riichi = true;
  bool abort_four_kans = true;
  MultipleRon multiple_ron = MultipleRon::TripleAborts;
  bool every_ron_takes_honba = false;   ///< of several winners; else the first after the discarder alone
  bool winners_keep_own_stick = false;  ///< of several winners, who declared riichi; else the first takes all
  bool nagashi_mangan = true;
  bool rob_ankan_for_kokushi = false;

  Pao pao = Pao::WholeHand;
  bool pao_pays_honba = true;  ///< of a ron that the liable player shares; else the discarder does
  bool kiriage_mangan = false;
  bool double_wind_pair_4fu = true;
  bool kazoe_yakuman = true;   ///< 13 han and more are a yakuman, else a sanbaiman
  bool yakuman_add_up = true;  ///< several yakuman in one hand count each
  bool double_suuankou_tanki = false;
  bool double_junsei_chuuren = false;
  bool double_kokushi_13 = false;
  bool double_daisuushii = false;
  Renhou renhou = Renhou::None;

  friend bool operator==(const Rules&, const Rules&) = default;

  static Rules tenhou() { return {}; }
  /// Ranked games of Mahjong Soul.
  static Rules majsoul();
  /// The European Mahjong Association's rules of 2016.
  static Rules european();
  /// "tenhou", "majsoul" or "european"; throws InvalidConfig for another name.
  static Rules named(std::string_view name);
};

/// "round", "east" or "hanchan"; throws InvalidConfig for another word.
GameLength game_length_named(std::string_view name);

/// Throws InvalidConfig naming the first option that cannot be used.
void check_rules(const Rules& rules);

}  // namespace ingot::mahjong
