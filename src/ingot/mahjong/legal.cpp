#include "ingot/mahjong/legal.h"

#include <fmt/core.h>

#include "ingot/mahjong/shanten.h"
#include "ingot/mahjong/simd.h"

namespace ingot::mahjong {
namespace {

bool can_win_by_tsumo(const PublicState& pub, const PrivateState& own, int player) {
  if (own.drawn == kNoTile || (own.waits >> kind_of(own.drawn) & 1) == 0) return false;
  const Seat& seat = pub.seats[static_cast<std::size_t>(player)];
  if (!seat.open || pub.rinshan || pub.live_left == 0) return true;
  return score_win(win_query(pub, own.hand, player, own.drawn, true), pub.rules).is_win();
}

bool can_win_by_ron(const PublicState& pub, const PrivateState& own, int player) {
  if ((own.waits >> kind_of(pub.claimed) & 1) == 0 || is_furiten(pub, own, player)) return false;
  Hand hand = own.hand;
  if (pub.claim_of == ActionType::Ankan) {  // only thirteen orphans may rob a concealed kan
    return pub.seats[static_cast<std::size_t>(player)].meld_count == 0 &&
           (hand.count.kinds() & ~kYaochuu) == 0 && __builtin_popcountll(hand.count.kinds()) >= 12;
  }
  const Seat& seat = pub.seats[static_cast<std::size_t>(player)];
  if (seat.riichi == RiichiState::Accepted || pub.claim_of == ActionType::Kakan || pub.live_left == 0)
    return true;
  hand.add(pub.claimed);
  return score_win(win_query(pub, hand, player, pub.claimed, false), pub.rules).is_win();
}

bool kan_possible(const PublicState& pub) { return pub.live_left > 0 && pub.kan_count < 4; }

bool riichi_keeps_kan(const PublicState& pub, const PrivateState& own, int player, Kind kind) {
  if (pub.rules.riichi_ankan == RiichiAnkan::Forbidden) return false;
  const Seat& seat = pub.seats[static_cast<std::size_t>(player)];
  Hand before = own.hand;
  before.remove(own.drawn);
  Hand after = own.hand;
  for (int i = 0; i < 4; ++i) after.remove_kind(kind);
  const int melds = seat.meld_count;
  const KindSet now = waits(after, melds + 1, exhausted_kinds(seat, after) | bit(kind));
  if (now != own.waits) return false;
  if (pub.rules.riichi_ankan == RiichiAnkan::SameWaits) return true;
  bool same = true;
  for_each_kind(now, [&](Kind wait) {
    Hand a = before, b = after;
    a.add_kind(wait);
    b.add_kind(wait);
    same &= count_readings(a, melds) == count_readings(b, melds + 1);
  });
  return same;
}

void push_kans(const PublicState& pub, const PrivateState& own, int player, ActionList& list) {
  if (!kan_possible(pub)) return;
  const Seat& seat = pub.seats[static_cast<std::size_t>(player)];
  const Hand& hand = own.hand;
  if (seat.riichi == RiichiState::Accepted) {
    const Kind kind = kind_of(own.drawn);
    if (hand.count[kind] == 4 && riichi_keeps_kan(pub, own, player, kind)) list.push(Action::ankan(kind));
    return;
  }
  for_each_kind(hand.count.quads(), [&](Kind kind) { list.push(Action::ankan(kind)); });
  for (const Meld& meld : seat.meld_span()) {
    if (meld.type != MeldType::Pon) continue;
    const Kind kind = meld.kind();
    if ((hand.count.kinds() >> kind & 1) == 0) continue;
    if (hand.has(kind)) list.push(Action::kakan(kind));
    if (is_five(kind) && hand.red[kind / 9U] > 0) list.push(Action::kakan(red_five(kind / 9)));
  }
}

bool may_declare_riichi(const PublicState& pub, int player) {
  const Seat& seat = pub.seats[static_cast<std::size_t>(player)];
  return !seat.open && seat.riichi == RiichiState::None && pub.live_left >= pub.rules.riichi_min_wall &&
         (seat.score >= 1000 || !pub.rules.riichi_needs_points);
}

// The kinds whose discard leaves a real wait.
KindSet tenpai_discards(const Seat& seat, const Hand& hand) {
  if (shanten(hand, seat.meld_count) > 0) return 0;
  const KindSet near = best_discards(hand, seat.meld_count).kinds;
  if (seat.meld_count == 0) return near;
  KindSet kinds = 0;
  for_each_kind(near, [&](Kind kind) {  // a wait on the tiles of one's own kan is none
    Hand rest = hand;
    rest.remove_kind(kind);
    if (waits(rest, seat.meld_count, exhausted_kinds(seat, rest)) != 0) kinds |= bit(kind);
  });
  return kinds;
}

// Listing discards was a fifth of a random game's time while it was a loop over kinds.
constexpr auto kDiscards = [] {
  std::array<Action, simd::kPaddedTiles> actions{};
  for (Tile tile = 0; tile < kTiles; ++tile) actions[tile] = Action::discard(tile, false);
  return actions;
}();

// The tiles that can be given from the hand, red fives apart, and the drawn tile once more as such.
void push_discards(const PrivateState& own, KindSet allowed, ActionList& list) {
  const Hand& hand = own.hand;
  const Tile drawn = own.drawn;
  KindSet tiles = hand.count.kinds();
  if (drawn < kKinds) tiles &= ~bit(drawn) | hand.count.pairs();
  tiles &= allowed;
  if ((hand.red[0] | hand.red[1] | hand.red[2]) != 0) {
    for (Tile red = 34; red < kTiles; ++red) {
      const Kind five = kind_of(red);
      if ((allowed >> five & 1) == 0) continue;
      tiles &= ~bit(five);
      tiles |= KindSet{hand.count_of(five) > (drawn == five)} << five;
      tiles |= KindSet{hand.count_of(red) > (drawn == red)} << red;
    }
  }
  Action* out = simd::push_tiles(tiles, kDiscards.data(), list.cursor());
  if (drawn != kNoTile && (allowed >> kind_of(drawn) & 1) != 0) *out++ = Action::discard(drawn, true);
  list.set_cursor(out);
}

// The tiles of one kind that a hand can give: the plain one, the red one.
struct Choice {
  std::array<Tile, 2> tiles;
  int size = 0;
};
Choice choices(const Hand& hand, Kind kind) {
  Choice choice;
  if (hand.has(kind)) choice.tiles[static_cast<std::size_t>(choice.size++)] = kind;
  if (is_five(kind) && hand.red[kind / 9U] > 0)
    choice.tiles[static_cast<std::size_t>(choice.size++)] = red_five(kind / 9);
  return choice;
}

// Whether two of the hand's tiles make a run with `kind`. The kinds from two below to two above are five
// bits, of which those in the same suit count; 01100, 00011 and the like hold a run. No branch: every one
// would be a guess.
bool has_run_with(const Hand& hand, Kind kind) {
  constexpr auto kSameSuit = [] {
    std::array<std::uint8_t, kKinds> window{};
    for (int k = 0; k < 27; ++k)
      for (int i = 0; i < 5; ++i)
        if (i != 2 && k % 9 + i - 2 >= 0 && k % 9 + i - 2 <= 8)
          window[static_cast<std::size_t>(k)] =
              static_cast<std::uint8_t>(window[static_cast<std::size_t>(k)] | 1 << i);
    return window;
  }();
  constexpr std::uint32_t kRuns = [] {
    std::uint32_t runs = 0;
    for (unsigned w = 0; w < 32; ++w)
      if ((w & 3) == 3 || (w & 10) == 10 || (w & 24) == 24) runs |= 1U << w;
    return runs;
  }();
  return (kRuns >> ((hand.count.kinds() << 2 >> kind) & kSameSuit[kind]) & 1) != 0;
}

// What a chi or pon of `called` forbids to discard.
bool leaves_discard(const PublicState& pub, const Hand& hand, Kind called, Kind a, Kind b) {
  if (pub.rules.kuikae == Kuikae::Allowed) return hand.size > 2;
  const KindSet forbidden = kuikae_kinds(pub.rules, called, a, b);
  int left = hand.size - 2;
  for_each_kind(forbidden, [&](Kind kind) { left -= hand.count[kind] - (kind == a) - (kind == b); });
  return left > 0;
}

void push_chi(const PublicState& pub, const Hand& hand, ActionList& list) {
  const Kind called = kind_of(pub.claimed);
  if (!has_run_with(hand, called)) return;
  const int number = number_of(called);
  for (int low = -2; low <= 0; ++low) {  // where the run starts, from the called tile
    if (number + low < 0 || number + low > 6) continue;
    const auto at = [&](int i) { return static_cast<Kind>(called + low + i); };
    const Kind a = low == 0 ? at(1) : at(0), b = low == -2 ? at(1) : at(2);
    if (hand.count[a] == 0 || hand.count[b] == 0 || !leaves_discard(pub, hand, called, a, b)) continue;
    const Choice first = choices(hand, a), second = choices(hand, b);
    for (int i = 0; i < first.size; ++i)
      for (int j = 0; j < second.size; ++j)
        list.push(Action::chi(pub.claimed, first.tiles[static_cast<std::size_t>(i)],
                              second.tiles[static_cast<std::size_t>(j)]));
  }
}

void push_pon(const PublicState& pub, const Hand& hand, ActionList& list) {
  const Kind kind = kind_of(pub.claimed);
  if (leaves_discard(pub, hand, kind, kind, kind)) {
    const int reds = is_five(kind) ? hand.red[kind / 9U] : 0, plain = hand.count[kind] - reds;
    const Tile red = is_five(kind) ? red_five(kind / 9) : kNoTile;
    if (plain >= 2) list.push(Action::pon(pub.claimed, kind, kind));
    if (plain >= 1 && reds >= 1) list.push(Action::pon(pub.claimed, kind, red));
    if (reds >= 2) list.push(Action::pon(pub.claimed, red, red));
  }
  if (hand.count[kind] == 3 && kan_possible(pub)) list.push(Action::daiminkan(pub.claimed));
}

}  // namespace

KindSet kuikae_kinds(const Rules& rules, Kind called, Kind a, Kind b) {
  if (rules.kuikae == Kuikae::Allowed) return 0;
  KindSet kinds = bit(called);
  if (rules.kuikae == Kuikae::SameTileForbidden || a == b) return kinds;
  if (called < a && number_of(called) < 6) kinds |= bit(static_cast<Kind>(called + 3));
  if (called > b && number_of(called) > 2) kinds |= bit(static_cast<Kind>(called - 3));
  return kinds;
}

KindSet exhausted_kinds(const Seat& seat, const Hand& hand) {
  if (seat.meld_count == 0) return 0;  // the tables never ask for a fifth copy
  return (hand.count + count_tiles(seat.meld_span())).quads();
}

bool is_furiten(const PublicState& pub, const PrivateState& own, int player) {
  return own.passed || own.passed_in_riichi ||
         (own.waits & pub.seats[static_cast<std::size_t>(player)].river_kinds) != 0;
}

WinQuery win_query(const PublicState& pub, const Hand& hand, int player, Tile tile, bool tsumo) {
  const Seat& seat = pub.seats[static_cast<std::size_t>(player)];
  WinQuery q{.hand = hand, .melds = seat.meld_span(), .win_tile = tile, .tsumo = tsumo};
  q.riichi = seat.riichi == RiichiState::Accepted;
  q.double_riichi = q.riichi && seat.double_riichi;
  q.ippatsu = seat.ippatsu;
  q.rinshan = tsumo && pub.rinshan;
  q.chankan = !tsumo && pub.claim_of != ActionType::Discard;
  q.last_tile = pub.live_left == 0 && !q.chankan;
  q.first_turn = pub.uninterrupted && seat.discards == 0;
  q.seat_wind = static_cast<std::uint8_t>(pub.seat_wind(player));
  q.round_wind = static_cast<std::uint8_t>(pub.round_wind());
  q.indicators = pub.indicator_span();
  return q;
}

bool aborts_after_discard(const PublicState& pub) {
  const Rules& rules = pub.rules;
  if (pub.kan_count == 4 && rules.abort_four_kans) {
    bool one_player = false;
    for (const Seat& seat : pub.seats) one_player |= seat.kans == 4;
    if (!one_player) return true;
  }
  if (pub.riichi_count == 4 && rules.abort_four_riichi) return true;
  if (pub.river_size == 4 && pub.uninterrupted && rules.abort_four_winds) {
    const Tile first = pub.river[0].tile();
    return first >= 27 && first < 31 && pub.river[1].tile() == first && pub.river[2].tile() == first &&
           pub.river[3].tile() == first;
  }
  return false;
}

void turn_actions(const PublicState& pub, const PrivateState& own, int player, ActionList& list) {
  const Seat& seat = pub.seats[static_cast<std::size_t>(player)];
  if (pub.after_call) return push_discards(own, ~pub.kuikae, list);
  if (pub.declaring) return push_discards(own, tenpai_discards(seat, own.hand), list);
  if (can_win_by_tsumo(pub, own, player)) list.push(Action::of(ActionType::Tsumo));
  if (seat.riichi == RiichiState::Accepted) {
    push_kans(pub, own, player, list);
    return list.push(Action::discard(own.drawn, true));
  }
  if (own.shanten_floor < 2 && may_declare_riichi(pub, player) && tenpai_discards(seat, own.hand) != 0)
    list.push(Action::of(ActionType::Riichi));
  push_kans(pub, own, player, list);
  if (pub.rules.abort_nine_orphans && pub.uninterrupted && seat.discards == 0 &&
      __builtin_popcountll(own.hand.count.kinds() & kYaochuu) >= 9)
    list.push(Action::of(ActionType::NineOrphans));
  push_discards(own, kAllKinds, list);
}

unsigned possible_claimants(const PublicState& pub, const std::array<PrivateState, 4>& own) {
  const Kind kind = kind_of(pub.claimed);
  const bool calls = pub.claim_of == ActionType::Discard && pub.live_left > 0;
  unsigned claimants = 0;
  for (unsigned p = 0; p < 4; ++p) {
    const KindSet callable = -static_cast<KindSet>(calls && pub.seats[p].riichi == RiichiState::None);
    claimants |= static_cast<unsigned>((own[p].waits | (own[p].hand.count.pairs() & callable)) >> kind & 1)
                 << p;
  }
  const unsigned next = (pub.actor + 1U) % 4;
  const unsigned chi =
      calls && pub.seats[next].riichi == RiichiState::None && has_run_with(own[next].hand, kind);
  return (claimants | chi << next) & ~(1U << pub.actor);
}

void reaction_actions(const PublicState& pub, const PrivateState& own, int player, ActionList& list) {
  if (player == pub.actor) return;
  if (can_win_by_ron(pub, own, player)) list.push(Action::of(ActionType::Ron));
  const Seat& seat = pub.seats[static_cast<std::size_t>(player)];
  if (pub.claim_of == ActionType::Discard && pub.live_left > 0 && seat.riichi == RiichiState::None) {
    const Hand& hand = own.hand;
    const Kind kind = kind_of(pub.claimed);
    const bool next = player == (pub.actor + 1) % 4;
    const bool pon = (hand.count.pairs() >> kind & 1) != 0;
    if ((next || pon) && !aborts_after_discard(pub)) {
      if (pon) push_pon(pub, hand, list);
      if (next) push_chi(pub, hand, list);
    }
  }
  if (!list.empty()) list.push(Action::pass());
}

ActionList legal_actions(const Observation& observation) {
  ActionList list;
  if (!observation.asked) return list;
  if (observation.pub.phase == Phase::Turn)
    turn_actions(observation.pub, observation.own, observation.seat, list);
  else if (observation.pub.phase == Phase::Reaction)
    reaction_actions(observation.pub, observation.own, observation.seat, list);
  return list;
}

ActionList legal_actions(const Table& table, int player) {
  ActionList list;
  if (player < 0 || player > 3 || (table.to_act() >> player & 1) == 0) return list;
  const PrivateState& own = table.own[static_cast<std::size_t>(player)];
  if (table.pub.phase == Phase::Turn)
    turn_actions(table.pub, own, player, list);
  else
    reaction_actions(table.pub, own, player, list);
  return list;
}

// Discards and passes are nearly all actions, and can be checked without listing the others.
bool is_legal(const Table& table, int player, const Action& action) {
  if (player < 0 || player > 3 || (table.to_act() >> player & 1) == 0) return false;
  const PublicState& pub = table.pub;
  if (pub.phase == Phase::Reaction && action.type == ActionType::Pass) return action == Action::pass();
  if (pub.phase != Phase::Turn || action.type != ActionType::Discard || pub.declaring)
    return legal_actions(table, player).contains(action);
  if (action.tile >= kTiles || action.a > 1 || action.b != kNoTile) return false;
  const PrivateState& own = table.own[static_cast<std::size_t>(player)];
  const bool drawn = action.tile == own.drawn;
  if (action.tsumogiri()) return drawn;
  if (pub.seats[static_cast<std::size_t>(player)].riichi == RiichiState::Accepted) return false;
  if (pub.after_call && (pub.kuikae >> kind_of(action.tile) & 1) != 0) return false;
  return own.hand.count_of(action.tile) > drawn;
}

std::string to_string(const Action& action) {
  switch (action.type) {
    case ActionType::Discard:
      return fmt::format("discard {}{}", tile_name(action.tile), action.tsumogiri() ? " (drawn)" : "");
    case ActionType::Chi:
      return fmt::format("chi {} with {} {}", tile_name(action.tile), tile_name(action.a),
                         tile_name(action.b));
    case ActionType::Pon:
      return fmt::format("pon {} with {} {}", tile_name(action.tile), tile_name(action.a),
                         tile_name(action.b));
    case ActionType::Daiminkan:
      return fmt::format("daiminkan {}", tile_name(action.tile));
    case ActionType::Ankan:
      return fmt::format("ankan {}", tile_name(action.tile));
    case ActionType::Kakan:
      return fmt::format("kakan {}", tile_name(action.tile));
    case ActionType::Riichi:
      return "riichi";
    case ActionType::Tsumo:
      return "tsumo";
    case ActionType::Ron:
      return "ron";
    case ActionType::NineOrphans:
      return "nine orphans";
    case ActionType::Pass:
      return "pass";
  }
  return fmt::format("action of type {}", static_cast<int>(action.type));
}

}  // namespace ingot::mahjong
