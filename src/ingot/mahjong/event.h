#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "ingot/mahjong/score.h"

namespace ingot::mahjong {

/// What happens at a table, in mjai's terms (https://mjai.app/docs/mjai-protocol).
enum class EventType : std::uint8_t {
  StartGame,
  StartKyoku,
  Tsumo,
  Dahai,
  Chi,
  Pon,
  Daiminkan,
  Kakan,
  Ankan,
  Dora,
  Reach,
  ReachAccepted,
  Hora,
  Ryukyoku,
  EndKyoku,
  EndGame
};

enum class DrawReason : std::uint8_t {
  Unknown,
  Exhausted,
  NagashiMangan,
  NineOrphans,
  FourWinds,
  FourRiichi,
  FourKans,
  TripleRon
};

/// In a log that does not say how many fu a hand has.
inline constexpr std::uint8_t kUnknownFu = 255;

struct Event {
  EventType type = EventType::StartGame;
  std::uint8_t actor = 0;
  std::uint8_t target = 0;  ///< whose tile was called or won on; of tsumo the winner
  Tile tile = kNoTile;  ///< drawn, discarded, called, added, winning; of StartKyoku and Dora the indicator
  bool tsumogiri = false;
  std::uint8_t id = 255;  ///< the physical tile where known (of tsumo, dora), else 255
  std::array<Tile, 4> consumed = {kNoTile, kNoTile, kNoTile, kNoTile};

  // StartKyoku
  std::uint8_t round = 0;  ///< 0 = East 1 ... 4 = South 1
  std::uint8_t dealer = 0;
  std::uint16_t honba = 0, sticks = 0;
  std::array<std::array<Tile, 13>, 4> hands{};
  bool has_scores = true;  ///< of StartKyoku; mjai's first form gives them only after Hora and Ryukyoku
  std::array<std::int32_t, 4> scores{};  ///< at the start; of EndGame and after Hora, Ryukyoku the new ones

  // Hora, Ryukyoku
  bool has_deltas = false;
  std::array<std::int32_t, 4> deltas{};
  WinScore win;
  std::int32_t points = 0;  ///< of the hand, without honba and sticks
  std::uint8_t ura_count = 0;
  std::array<Tile, 5> ura{};
  DrawReason reason = DrawReason::Unknown;
  std::uint8_t tenpai = 0;  ///< bit per seat
};

using Events = std::vector<Event>;

}  // namespace ingot::mahjong
