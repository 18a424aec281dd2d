#pragma once

#include <type_traits>

#include "ingot/mahjong/action.h"
#include "ingot/mahjong/errors.h"
#include "ingot/mahjong/event.h"
#include "ingot/mahjong/wall.h"

namespace ingot::mahjong {

enum class Phase : std::uint8_t {
  Turn,      ///< `actor` has drawn, or called and must discard
  Reaction,  ///< others may claim `claimed`
  RoundOver,
  GameOver
};
enum class RiichiState : std::uint8_t { None, Declared, Accepted };

/// One discard. Rivers are kept together, in order, so that what came after what is known.
struct RiverTile {
  std::uint16_t bits;
  Tile tile() const { return bits & 0x3F; }
  int player() const { return bits >> 6 & 3; }
  bool tsumogiri() const { return (bits >> 8 & 1) != 0; }
  bool riichi() const { return (bits >> 9 & 1) != 0; }
  bool called() const { return (bits >> 10 & 1) != 0; }
  /// How many discards the player had made before. At most 29: 70 draws and 16 calls give nobody more
  /// than 30.
  unsigned turn() const { return bits >> 11; }
};
inline constexpr std::uint16_t kRiverCalled = 1 << 10;
/// A discard follows one of 70 draws or one of 16 chi and pon.
inline constexpr std::size_t kMaxRiver = 86;

/// What all can see of one player.
struct Seat {
  KindSet river_kinds;        ///< discarded, claimed tiles too
  KindSet tedashi_kinds;      ///< discarded from the hand rather than just drawn
  KindSet safe_after_riichi;  ///< discarded by anyone since this player's riichi
  std::int32_t score;
  std::array<Meld, 4> melds;
  std::uint8_t meld_count;
  std::uint8_t kans;
  std::uint8_t discards;
  RiichiState riichi;
  bool double_riichi, ippatsu;
  bool open;                            ///< has called a tile
  bool river_called;                    ///< one of its discards was claimed: no nagashi mangan
  std::uint8_t pao_dragons, pao_winds;  ///< who answers for daisangen, daisuushii; kNobody

  std::span<const Meld> meld_span() const { return {melds.data(), meld_count}; }
};
inline constexpr std::uint8_t kNobody = 255;

/// Everything on the table that every player knows.
struct PublicState {
  std::array<Seat, 4> seats;
  KindSet kuikae;  ///< kinds that may not be discarded now
  std::array<RiverTile, kMaxRiver> river;
  KindCounts seen;  ///< copies in rivers, melds and indicators
  std::array<Tile, 5> indicators;
  std::uint8_t indicator_count;
  std::uint8_t river_size;
  std::uint16_t honba, sticks;
  std::uint8_t round;  ///< 0 = East 1, 4 = South 1
  std::uint8_t dealer;
  std::uint8_t live_left;  ///< tiles that can still be drawn
  std::uint8_t pending_dora;
  Phase phase;
  std::uint8_t actor;   ///< whose turn, or who discarded
  Tile claimed;         ///< in Phase::Reaction
  ActionType claim_of;  ///< Discard, Kakan or Ankan
  bool after_call, rinshan, declaring, uninterrupted;
  std::uint8_t kan_count, riichi_count;  ///< of all; declared riichi count
  Rules rules;

  int round_wind() const { return round / 4; }
  int seat_wind(int player) const { return (player - dealer + 4) % 4; }
  std::span<const Tile> indicator_span() const { return {indicators.data(), indicator_count}; }
};

/// What one player knows alone.
struct PrivateState {
  Hand hand;
  KindSet waits;  ///< of the hand without the drawn tile
  Tile drawn;     ///< kNoTile unless it is this player's turn after a draw
  bool passed;    ///< let a winning tile go since the last own discard: furiten
  bool passed_in_riichi;
  std::uint8_t shanten_floor;  ///< the hand's shanten is at least this; looked up only where it may be 0
};

/// What a player is given: nothing in it depends on another's concealed tiles, the wall or the seed.
struct Observation {
  PublicState pub;
  PrivateState own;
  std::uint8_t seat;
  bool asked;  ///< must act now
};

/// A whole game in one plain value: copying it is undo, search and batching.
struct Table {
  PublicState pub;
  std::array<PrivateState, 4> own;
  Wall wall;
  std::uint8_t next_draw;            ///< the wall place drawn next
  std::uint8_t waiting;              ///< bit per seat that must answer in Phase::Reaction
  bool dealer_stays, counters_stay;  ///< after the round: renchan; honba goes up
  std::array<Action, 4> responses;
  std::uint64_t nonce;
  Seed session;

  bool over() const { return pub.phase == Phase::GameOver; }
  /// Bit per seat that must act now; 0 when the round or game is over.
  unsigned to_act() const {
    if (pub.phase == Phase::Turn) return 1U << pub.actor;
    return pub.phase == Phase::Reaction ? waiting : 0U;
  }
};
static_assert(std::is_trivially_copyable_v<Table> && sizeof(Table) <= 1024);

/// A new game, its first round dealt. Rounds take their walls from round_seed(session, nonce, round, honba).
/// With `events` the start of the game and of the round are appended.
Table start_game(const Rules& rules, const Seed& session, std::uint64_t nonce = 0, Events* events = nullptr);
/// Where a game stands, for starting in its middle.
struct RoundStart {
  std::uint8_t round = 0;
  std::uint16_t honba = 0, sticks = 0;
  std::array<std::int32_t, 4> scores{};
};
/// A round with a given wall. Throws InvalidHand unless the wall holds each tile once.
Table start_round(const Rules& rules, const RoundStart& start, const Wall& wall, Events* events = nullptr);
/// After Phase::RoundOver: deals the next round. Throws IllegalAction in any other phase.
void next_round(Table& table, Events* events = nullptr);
/// Where the game goes on; only in Phase::RoundOver.
RoundStart next_start(const Table& table);

/// The legal actions of a player, none if it is not to act.
ActionList legal_actions(const Table& table, int player);
ActionList legal_actions(const Observation& observation);
bool is_legal(const Table& table, int player, const Action& action);

/// Performs an action and all that follows from it until somebody must decide. Throws IllegalAction, leaving
/// the table as it was.
void apply(Table& table, int player, const Action& action, Events* events = nullptr);
/// The same without the check, for actions that come from legal_actions.
void apply_trusted(Table& table, int player, const Action& action, Events* events = nullptr);

Observation observe(const Table& table, int player);

/// True if the player's waits hold a tile it may not win on by ron.
bool is_furiten(const PublicState& pub, const PrivateState& own, int player);

/// Places (0 = first) and results in points of 1000 (uma and oka included) of the current scores.
struct GameResult {
  std::array<int, 4> place;
  std::array<double, 4> points;
};
GameResult game_result(const Table& table);
GameResult game_result(const std::array<std::int32_t, 4>& scores, const Rules& rules);

}  // namespace ingot::mahjong
