#include "ingot/mahjong/table.h"

#include <algorithm>
#include <bitset>

#include <fmt/core.h>

#include "ingot/mahjong/flow.h"
#include "ingot/mahjong/legal.h"
#include "ingot/mahjong/shanten.h"

namespace ingot::mahjong {
namespace {

constexpr std::uint8_t kFirstDraw = 83;  // after 4 * 13 tiles from 135 down
constexpr std::uint8_t kLiveTiles = 70;

// One tile in and one out change the shanten by at most one, so a hand that was far from tenpai need not be
// looked up: in random games that saves nine look-ups in ten.
void update_waits(Table& t, int player) {
  PrivateState& own = t.own[at(player)];
  const Seat& seat = t.pub.seats[at(player)];
  own.waits = 0;
  if (own.shanten_floor > 1) {
    --own.shanten_floor;
    return;
  }
  const int distance = shanten(own.hand, seat.meld_count);
  own.shanten_floor = static_cast<unsigned>(distance) & 0xF;
  if (distance == 0)
    own.waits = waits(own.hand, seat.meld_count, exhausted_kinds(seat, own.hand)) & kAllKinds;
}

Event& emit(Events& events, EventType type, int actor) {
  Event& event = events.emplace_back();
  event.type = type;
  event.actor = static_cast<std::uint8_t>(actor);
  return event;
}

void draw(Table& t, int player, TileId id, Events* events) {
  PrivateState& own = t.own[at(player)];
  own.drawn = tile_of(t.pub.rules, id);
  own.hand.add(own.drawn);
  --t.pub.live_left;
  t.pub.actor = static_cast<std::uint8_t>(player);
  t.pub.phase = Phase::Turn;
  t.pub.after_call = false;
  t.pub.kuikae = 0;
  if (events == nullptr) return;
  Event& event = emit(*events, EventType::Tsumo, player);
  event.tile = own.drawn;
  event.id = id;
}

void draw_next(Table& t, int player, Events* events) {
  t.pub.rinshan = false;
  draw(t, player, t.wall[t.next_draw--], events);
}

void reveal_dora(Table& t, Events* events) {
  PublicState& pub = t.pub;
  const TileId id = t.wall[5 + 2U * pub.indicator_count];
  const Tile tile = tile_of(pub.rules, id);
  pub.indicators[pub.indicator_count++] = tile;
  pub.seen.add(kind_of(tile));
  if (events == nullptr) return;
  Event& event = emit(*events, EventType::Dora, pub.actor);
  event.tile = tile;
  event.id = id;
}

void reveal_pending(Table& t, Events* events) {
  for (; t.pub.pending_dora > 0; --t.pub.pending_dora) reveal_dora(t, events);
}

// The kan stands: dora of the kan before, its own, and the replacement tile.
void finish_kan(Table& t, int player, ActionType type, Events* events) {
  PublicState& pub = t.pub;
  pub.uninterrupted = false;
  for (Seat& seat : pub.seats) seat.ippatsu = false;
  reveal_pending(t, events);
  if (pub.rules.kan_dora == KanDora::Immediate ||
      (pub.rules.kan_dora == KanDora::DelayOpen && type == ActionType::Ankan))
    reveal_dora(t, events);
  else if (pub.rules.kan_dora == KanDora::DelayOpen)
    ++pub.pending_dora;
  update_waits(t, player);
  const int kan = pub.kan_count - 1;
  pub.rinshan = true;
  draw(t, player, t.wall[kRinshanPlaces[at(kan)]], events);
}

// Who may claim pub.claimed becomes `waiting`; if nobody, the game goes on at once.
void ask_others(Table& t, Events* events) {
  t.pub.phase = Phase::Reaction;
  t.waiting = 0;
  const unsigned claimants = possible_claimants(t.pub, t.own);
  if (claimants == 0) return go_on(t, -1, events);
  for (int player = 0; player < 4; ++player) {
    t.responses[at(player)] = Action::pass();
    if ((claimants >> player & 1) == 0) continue;
    ActionList list;
    reaction_actions(t.pub, t.own[at(player)], player, list);
    if (!list.empty()) t.waiting = static_cast<std::uint8_t>(t.waiting | 1U << player);
  }
  if (t.waiting == 0) resolve_reactions(t, events);
}

void discard(Table& t, int player, const Action& action, Events* events) {
  PublicState& pub = t.pub;
  Seat& seat = pub.seats[at(player)];
  PrivateState& own = t.own[at(player)];
  reveal_pending(t, events);
  if (events != nullptr) {
    Event& event = emit(*events, EventType::Dahai, player);
    event.tile = action.tile;
    event.tsumogiri = action.tsumogiri();
  }
  own.hand.remove(action.tile);
  own.passed = false;
  // The waits are known of the hand before the draw, which is again the hand if the drawn tile goes.
  if (own.drawn == kNoTile || kind_of(own.drawn) != kind_of(action.tile)) update_waits(t, player);
  own.drawn = kNoTile;
  seat.ippatsu = false;
  put_in_river(pub, player, action);
  pub.declaring = false;
  pub.after_call = false;
  pub.rinshan = false;
  pub.kuikae = 0;
  pub.claimed = action.tile;
  pub.claim_of = ActionType::Discard;
  ask_others(t, events);
}

void declare_riichi(Table& t, int player, Events* events) {
  Seat& seat = t.pub.seats[at(player)];
  seat.riichi = RiichiState::Declared;
  ++t.pub.riichi_count;
  seat.double_riichi = t.pub.uninterrupted && seat.discards == 0;
  t.pub.declaring = true;
  if (events != nullptr) emit(*events, EventType::Reach, player);
}

void ankan(Table& t, int player, Kind kind, Events* events) {
  PublicState& pub = t.pub;
  Seat& seat = pub.seats[at(player)];
  Hand& hand = t.own[at(player)].hand;
  Meld meld{MeldType::Ankan, static_cast<std::uint8_t>(player), kind, {kind, kind, kind}};
  const int reds = is_five(kind) ? hand.red[kind / 9U] : 0;
  for (int i = 0; i < reds; ++i) meld.consumed[at(2 - i)] = red_five(kind / 9);
  hand.remove(meld.called);
  for (const Tile tile : meld.consumed) hand.remove(tile);
  seat.melds[seat.meld_count++] = meld;
  ++seat.kans;
  ++pub.kan_count;
  pub.seen.set(kind, 4);
  t.own[at(player)].drawn = kNoTile;
  if (events != nullptr) {
    Event& event = emit(*events, EventType::Ankan, player);
    event.consumed = {meld.called, meld.consumed[0], meld.consumed[1], meld.consumed[2]};
  }
  if (!pub.rules.rob_ankan_for_kokushi) return finish_kan(t, player, ActionType::Ankan, events);
  pub.claimed = kind;
  pub.claim_of = ActionType::Ankan;
  ask_others(t, events);
}

void kakan(Table& t, int player, Tile tile, Events* events) {
  PublicState& pub = t.pub;
  Seat& seat = pub.seats[at(player)];
  t.own[at(player)].hand.remove(tile);
  t.own[at(player)].drawn = kNoTile;
  pub.seen.add(kind_of(tile));
  for (std::size_t i = 0; i < seat.meld_count; ++i) {
    Meld& meld = seat.melds[i];
    if (meld.type != MeldType::Pon || meld.kind() != kind_of(tile)) continue;
    meld.type = MeldType::Kakan;
    meld.consumed[2] = tile;
    if (events != nullptr) {
      Event& event = emit(*events, EventType::Kakan, player);
      event.tile = tile;
      event.consumed = {meld.called, meld.consumed[0], meld.consumed[1], kNoTile};
    }
    break;
  }
  ++seat.kans;
  ++pub.kan_count;
  pub.claimed = tile;
  pub.claim_of = ActionType::Kakan;
  ask_others(t, events);
}

void call(Table& t, int player, const Action& action, Events* events) {
  PublicState& pub = t.pub;
  const int from = pub.actor;
  Seat& seat = pub.seats[at(player)];
  Hand& hand = t.own[at(player)].hand;
  Meld meld{MeldType::Chi, static_cast<std::uint8_t>(from), action.tile, {action.a, action.b, kNoTile}};
  const Kind kind = kind_of(action.tile);
  EventType type = EventType::Chi;
  if (action.type == ActionType::Pon) {
    meld.type = MeldType::Pon;
    type = EventType::Pon;
  } else if (action.type == ActionType::Daiminkan) {
    meld.type = MeldType::Daiminkan;
    type = EventType::Daiminkan;
    meld.consumed = {kind, kind, kind};
    const int reds = is_five(kind) ? hand.red[kind / 9U] : 0;
    for (int i = 0; i < reds; ++i) meld.consumed[at(2 - i)] = red_five(kind / 9);
    ++seat.kans;
    ++pub.kan_count;
  }
  for (const Tile tile : meld.consumed) {
    if (tile == kNoTile) continue;
    hand.remove(tile);
    pub.seen.add(kind_of(tile));
  }
  seat.melds[seat.meld_count++] = meld;
  seat.open = true;
  pub.river[pub.river_size - 1U].bits |= kRiverCalled;
  pub.seats[at(from)].river_called = true;
  if (meld.type != MeldType::Chi) note_pao(pub, player, kind, from);
  if (events != nullptr) {
    Event& event = emit(*events, type, player);
    event.target = static_cast<std::uint8_t>(from);
    event.tile = action.tile;
    event.consumed = {meld.consumed[0], meld.consumed[1], meld.consumed[2], kNoTile};
  }
  pub.actor = static_cast<std::uint8_t>(player);
  if (meld.type == MeldType::Daiminkan) return finish_kan(t, player, ActionType::Daiminkan, events);
  pub.uninterrupted = false;
  for (Seat& each : pub.seats) each.ippatsu = false;
  pub.phase = Phase::Turn;
  pub.after_call = true;
  pub.kuikae = kuikae_kinds(pub.rules, kind, kind_of(action.a), kind_of(action.b));
}

void accept_riichi(Table& t, Events* events) {
  Seat& seat = t.pub.seats[t.pub.actor];
  seat.riichi = RiichiState::Accepted;
  seat.score -= 1000;
  seat.ippatsu = t.pub.rules.ippatsu;
  ++t.pub.sticks;
  if (events != nullptr) emit(*events, EventType::ReachAccepted, t.pub.actor);
}

void note_passed_wins(Table& t) {
  if (t.pub.claim_of == ActionType::Ankan) return;
  const KindSet anyone = t.own[0].waits | t.own[1].waits | t.own[2].waits | t.own[3].waits;
  if ((anyone >> kind_of(t.pub.claimed) & 1) == 0) return;
  for (int player = 0; player < 4; ++player) {
    PrivateState& own = t.own[at(player)];
    if (player == t.pub.actor || (own.waits >> kind_of(t.pub.claimed) & 1) == 0) continue;
    own.passed = true;
    if (t.pub.seats[at(player)].riichi == RiichiState::Accepted) own.passed_in_riichi = true;
  }
}

DrawReason abort_reason(const PublicState& pub) {
  if (pub.rules.abort_four_riichi && pub.riichi_count == 4) return DrawReason::FourRiichi;
  return pub.kan_count == 4 ? DrawReason::FourKans : DrawReason::FourWinds;
}

void deal(Table& t, Events* events) {
  PublicState& pub = t.pub;
  std::size_t place = kTileIds;
  for (PrivateState& own : t.own) {
    own = PrivateState{};
    own.drawn = kNoTile;
  }
  for (int block = 0; block < 4; ++block)
    for (int i = 0; i < 4; ++i)
      for (int n = 0; n < (block < 3 ? 4 : 1); ++n)
        t.own[at((pub.dealer + i) % 4)].hand.add(tile_of(pub.rules, t.wall[--place]));
  t.next_draw = kFirstDraw;
  pub.indicators[0] = tile_of(pub.rules, t.wall[5]);
  pub.indicator_count = 1;
  pub.seen.add(kind_of(pub.indicators[0]));
  if (events != nullptr) {
    Event& event = emit(*events, EventType::StartKyoku, pub.dealer);
    event.tile = pub.indicators[0];
    event.round = pub.round;
    event.dealer = pub.dealer;
    event.honba = pub.honba;
    event.sticks = pub.sticks;
    for (std::size_t p = 0; p < 4; ++p) {
      event.scores[p] = pub.seats[p].score;
      const std::vector<Tile> tiles = t.own[p].hand.tiles();
      std::copy(tiles.begin(), tiles.end(), event.hands[p].begin());
    }
  }
  for (int player = 0; player < 4; ++player) update_waits(t, player);
  draw_next(t, pub.dealer, events);
}

void begin_round(Table& t, const RoundStart& start, Events* events) {
  PublicState fresh{};
  fresh.rules = t.pub.rules;
  fresh.round = start.round;
  fresh.dealer = start.round % 4;
  fresh.honba = start.honba;
  fresh.sticks = start.sticks;
  fresh.live_left = kLiveTiles;
  fresh.uninterrupted = true;
  fresh.claimed = kNoTile;
  for (std::size_t p = 0; p < 4; ++p) {
    fresh.seats[p].score = start.scores[p];
    fresh.seats[p].pao_dragons = fresh.seats[p].pao_winds = kNobody;
  }
  t.pub = fresh;
  t.waiting = 0;
  t.dealer_stays = t.counters_stay = false;
  t.responses.fill(Action::pass());
  deal(t, events);
}

}  // namespace

void put_in_river(PublicState& pub, int player, const Action& action) {
  Seat& seat = pub.seats[at(player)];
  const KindSet kind = bit(kind_of(action.tile));
  const unsigned bits = action.tile | static_cast<unsigned>(player) << 6 |
                        (action.tsumogiri() ? 1U << 8 : 0U) | (pub.declaring ? 1U << 9 : 0U) |
                        static_cast<unsigned>(seat.discards) << 11;
  pub.river[pub.river_size++] = {static_cast<std::uint16_t>(bits)};
  pub.seen.add(kind_of(action.tile));
  ++seat.discards;
  seat.river_kinds |= kind;
  if (!action.tsumogiri()) seat.tedashi_kinds |= kind;
  if (pub.riichi_count == 0) return;
  for (Seat& other : pub.seats)
    if (other.riichi != RiichiState::None) other.safe_after_riichi |= kind;
}

void note_pao(PublicState& pub, int player, Kind kind, int from) {
  Seat& seat = pub.seats[at(player)];
  KindSet triplets = 0;
  for (const Meld& meld : seat.meld_span())
    if (meld.type != MeldType::Chi) triplets |= bit(meld.kind());
  if ((kDragons >> kind & 1) != 0 && (triplets & kDragons) == kDragons)
    seat.pao_dragons = static_cast<std::uint8_t>(from);
  if ((kWinds >> kind & 1) != 0 && (triplets & kWinds) == kWinds)
    seat.pao_winds = static_cast<std::uint8_t>(from);
}

void resolve_reactions(Table& t, Events* events) {
  PublicState& pub = t.pub;
  const int from = pub.actor;
  unsigned rons = 0;
  int callers = -1;
  for (int i = 1; i < 4; ++i) {
    const int player = (from + i) % 4;
    const ActionType type = t.responses[at(player)].type;
    if (type == ActionType::Ron) rons |= 1U << player;
    if (type == ActionType::Pon || type == ActionType::Daiminkan) callers = player;
    if (type == ActionType::Chi && callers < 0) callers = player;
  }
  if (rons != 0) return end_by_ron(t, rons, events);
  note_passed_wins(t);
  go_on(t, callers, events);
}

void go_on(Table& t, int caller, Events* events) {
  PublicState& pub = t.pub;
  const int from = pub.actor;
  if (pub.claim_of != ActionType::Discard) return finish_kan(t, from, pub.claim_of, events);
  const bool aborts = aborts_after_discard(pub);
  if (pub.seats[at(from)].riichi == RiichiState::Declared) accept_riichi(t, events);
  if (aborts) return end_by_abort(t, abort_reason(pub), events);
  if (caller >= 0) return call(t, caller, t.responses[at(caller)], events);
  if (pub.live_left == 0) return end_by_exhaustion(t, events);
  draw_next(t, (from + 1) % 4, events);
}

void apply_trusted(Table& t, int player, const Action& action, Events* events) {
  if (t.pub.phase == Phase::Reaction) {
    t.responses[at(player)] = action;
    t.waiting = static_cast<std::uint8_t>(t.waiting & ~(1U << player));
    if (t.waiting == 0) resolve_reactions(t, events);
    return;
  }
  switch (action.type) {
    case ActionType::Discard:
      return discard(t, player, action, events);
    case ActionType::Riichi:
      return declare_riichi(t, player, events);
    case ActionType::Ankan:
      return ankan(t, player, action.tile, events);
    case ActionType::Kakan:
      return kakan(t, player, action.tile, events);
    case ActionType::Tsumo:
      return end_by_tsumo(t, events);
    case ActionType::NineOrphans:
      return end_by_abort(t, DrawReason::NineOrphans, events);
    default:
      INGOT_ASSERT(!"an action of the reaction phase on a turn");
  }
}

void apply(Table& t, int player, const Action& action, Events* events) {
  INGOT_CHECK(player >= 0 && player < 4, IllegalAction(fmt::format("player {}: seats are 0 to 3", player)));
  if (!is_legal(t, player, action)) {
    std::string legal;
    for (const Action& one : legal_actions(t, player)) legal += (legal.empty() ? "" : ", ") + to_string(one);
    throw IllegalAction(fmt::format("player {} may not {} now; legal: {}", player, to_string(action),
                                    legal.empty() ? "nothing, another player is to act" : legal));
  }
  apply_trusted(t, player, action, events);
}

Observation observe(const Table& t, int player) {
  return {t.pub, t.own[at(player)], static_cast<std::uint8_t>(player), (t.to_act() >> player & 1) != 0};
}

Table start_round(const Rules& rules, const RoundStart& start, const Wall& wall, Events* events) {
  check_rules(rules);
  std::bitset<kTileIds> present;
  for (const TileId id : wall) {
    INGOT_CHECK(id < kTileIds && !present[id],
                InvalidHand(fmt::format(
                    "a wall holds each of the tiles 0 to 135 once; {} is wrong or twice there", id)));
    present.set(id);
  }
  Table t{};
  t.pub.rules = rules;
  t.wall = wall;
  begin_round(t, start, events);
  return t;
}

Table start_game(const Rules& rules, const Seed& session, std::uint64_t nonce, Events* events) {
  check_rules(rules);
  Table t{};
  t.pub.rules = rules;
  t.session = session;
  t.nonce = nonce;
  if (events != nullptr) emit(*events, EventType::StartGame, 0);
  RoundStart start;
  start.scores.fill(rules.starting_points);
  t.wall = shuffle_wall(round_seed(session, nonce, 0, 0));
  begin_round(t, start, events);
  return t;
}

RoundStart next_start(const Table& t) {
  RoundStart start;
  start.round = static_cast<std::uint8_t>(t.pub.round + !t.dealer_stays);
  start.honba = t.counters_stay ? static_cast<std::uint16_t>(t.pub.honba + 1) : std::uint16_t{0};
  start.sticks = t.pub.sticks;
  for (std::size_t p = 0; p < 4; ++p) start.scores[p] = t.pub.seats[p].score;
  return start;
}

void next_round(Table& t, Events* events) {
  INGOT_CHECK(t.pub.phase == Phase::RoundOver,
              IllegalAction("next_round before the round is over, or after the game"));
  const RoundStart start = next_start(t);
  t.wall = shuffle_wall(round_seed(t.session, t.nonce, start.round, static_cast<std::uint8_t>(start.honba)));
  begin_round(t, start, events);
}

}  // namespace ingot::mahjong
