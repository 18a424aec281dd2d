#include "ingot/mahjong/tracker.h"

#include <algorithm>
#include <istream>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "ingot/base/json.h"
#include "ingot/mahjong/flow.h"
#include "ingot/mahjong/legal.h"
#include "ingot/mahjong/log.h"
#include "ingot/mahjong/shanten.h"

namespace ingot::mahjong {

SeatTracker::SeatTracker(const Rules& rules, int seat) {
  view_.pub.rules = rules;
  for (Seat& one : view_.pub.seats) one.score = rules.starting_points;
  view_.seat = static_cast<std::uint8_t>(seat);
}

void SeatTracker::fail(const Event& event, const std::string& problem) const {
  throw FormatError("mjai", -1, std::string(event_name(event.type)), problem);
}

void SeatTracker::take(const Event& event, Tile tile) {
  if (tile >= kTiles || !view_.own.hand.has(tile))
    fail(event, fmt::format("the hand has no {}", tile_name(tile)));
  view_.own.hand.remove(tile);
}

void SeatTracker::update_waits() {
  const Seat& own = seat(view_.seat);
  view_.own.waits = waits(view_.own.hand, own.meld_count, exhausted_kinds(own, view_.own.hand)) & kAllKinds;
}

// What an unanswered claim leaves behind: furiten for who could have won, and the kan that now stands.
void SeatTracker::after_claim(const Event& event) {
  PublicState& pub = view_.pub;
  if (pub.phase == Phase::Reaction && event.type != EventType::Hora && pub.claim_of != ActionType::Ankan &&
      !mine(pub.actor) && (view_.own.waits >> kind_of(pub.claimed) & 1) != 0) {
    view_.own.passed = true;
    if (seat(view_.seat).riichi == RiichiState::Accepted) view_.own.passed_in_riichi = true;
  }
  if (!kan_open_ || event.type == EventType::Hora) return;
  kan_open_ = false;
  pub.phase = Phase::Turn;
  pub.uninterrupted = false;
  for (Seat& each : pub.seats) each.ippatsu = false;
  pub.rinshan = true;
  if (mine(pub.actor)) update_waits();
}

void SeatTracker::start_round(const Event& event) {
  PublicState fresh{};
  fresh.rules = view_.pub.rules;
  fresh.round = event.round;
  fresh.dealer = event.dealer;
  fresh.honba = event.honba;
  fresh.sticks = event.sticks;
  fresh.live_left = 70;
  fresh.uninterrupted = true;
  fresh.claimed = kNoTile;
  fresh.actor = event.dealer;
  fresh.indicators[0] = event.tile;
  fresh.indicator_count = 1;
  fresh.seen.add(kind_of(event.tile));
  for (std::size_t p = 0; p < 4; ++p) {
    fresh.seats[p].score = event.has_scores ? event.scores[p] : view_.pub.seats[p].score;
    fresh.seats[p].pao_dragons = fresh.seats[p].pao_winds = kNobody;
  }
  view_.pub = fresh;
  view_.own = PrivateState{};
  view_.own.drawn = kNoTile;
  try {
    view_.own.hand = make_hand(event.hands[view_.seat]);
  } catch (const InvalidHand& error) {
    fail(event, error.what());
  }
  in_round_ = true;
  kan_open_ = false;
  update_waits();
}

void SeatTracker::draw(const Event& event) {
  PublicState& pub = view_.pub;
  if (pub.live_left == 0) fail(event, "the wall has no tile left");
  if (pub.phase == Phase::Reaction) pub.rinshan = false;
  --pub.live_left;
  pub.actor = event.actor;
  pub.phase = Phase::Turn;
  pub.after_call = false;
  pub.kuikae = 0;
  if (!mine(event.actor)) return;
  if (event.tile >= kTiles || view_.own.hand.size % 3 != 1 || view_.own.hand.count[kind_of(event.tile)] == 4)
    fail(event, fmt::format("{} cannot be drawn", tile_name(event.tile)));
  view_.own.hand.add(event.tile);
  view_.own.drawn = event.tile;
  view_.asked = true;
}

void SeatTracker::offer(Tile tile, ActionType what, int from) {
  PublicState& pub = view_.pub;
  pub.claimed = tile;
  pub.claim_of = what;
  pub.actor = static_cast<std::uint8_t>(from);
  pub.phase = Phase::Reaction;
  ActionList list;
  if (!mine(from)) reaction_actions(pub, view_.own, view_.seat, list);
  view_.asked = !list.empty();
}

void SeatTracker::discard(const Event& event) {
  PublicState& pub = view_.pub;
  if (event.tile >= kTiles) fail(event, "the tile is hidden");
  if (pub.river_size == kMaxRiver || pub.phase != Phase::Turn || pub.actor != event.actor)
    fail(event, fmt::format("it is not the turn of player {}", event.actor));
  if (mine(event.actor)) {
    take(event, event.tile);
    view_.own.drawn = kNoTile;
    view_.own.passed = false;
    if (seat(event.actor).riichi != RiichiState::Accepted) update_waits();
  }
  seat(event.actor).ippatsu = false;
  put_in_river(pub, event.actor, Action::discard(event.tile, event.tsumogiri));
  pub.declaring = pub.after_call = pub.rinshan = false;
  pub.kuikae = 0;
  offer(event.tile, ActionType::Discard, event.actor);
}

void SeatTracker::call(const Event& event) {
  PublicState& pub = view_.pub;
  Seat& caller = seat(event.actor);
  const bool kan = event.type == EventType::Daiminkan;
  if (caller.meld_count == 4 || pub.river_size == 0 || pub.actor != event.target || event.tile != pub.claimed)
    fail(event, "calls what was not just discarded");
  Meld meld{event.type == EventType::Chi ? MeldType::Chi
            : kan                        ? MeldType::Daiminkan
                                         : MeldType::Pon,
            event.target,
            event.tile,
            {event.consumed[0], event.consumed[1], kan ? event.consumed[2] : kNoTile}};
  for (std::size_t i = 0; i < (kan ? 3 : 2); ++i) {
    if (meld.consumed[i] >= kTiles) fail(event, "does not show the tiles");
    if (mine(event.actor)) take(event, meld.consumed[i]);
    pub.seen.add(kind_of(meld.consumed[i]));
  }
  caller.melds[caller.meld_count++] = meld;
  caller.open = true;
  pub.river[pub.river_size - 1U].bits |= kRiverCalled;
  seat(event.target).river_called = true;
  if (meld.type != MeldType::Chi) note_pao(pub, event.actor, kind_of(event.tile), event.target);
  pub.actor = event.actor;
  pub.phase = Phase::Turn;
  if (kan) {
    ++caller.kans;
    ++pub.kan_count;
    kan_open_ = true;
    return;
  }
  pub.uninterrupted = false;
  for (Seat& each : pub.seats) each.ippatsu = false;
  pub.after_call = true;
  pub.kuikae = kuikae_kinds(pub.rules, kind_of(event.tile),
                            std::min(kind_of(meld.consumed[0]), kind_of(meld.consumed[1])),
                            std::max(kind_of(meld.consumed[0]), kind_of(meld.consumed[1])));
  view_.asked = mine(event.actor);
}

void SeatTracker::own_kan(const Event& event) {
  PublicState& pub = view_.pub;
  Seat& player = seat(event.actor);
  const bool ankan = event.type == EventType::Ankan;
  const Tile first = ankan ? event.consumed[0] : event.tile;
  if (first >= kTiles) fail(event, "does not show the tiles");
  if (mine(event.actor)) view_.own.drawn = kNoTile;
  if (ankan) {
    if (player.meld_count == 4) fail(event, "a fifth meld");
    player.melds[player.meld_count++] = {MeldType::Ankan,
                                         event.actor,
                                         event.consumed[0],
                                         {event.consumed[1], event.consumed[2], event.consumed[3]}};
    for (const Tile tile : event.consumed) {
      if (tile >= kTiles) fail(event, "does not show the tiles");
      if (mine(event.actor)) take(event, tile);
    }
    pub.seen.set(kind_of(first), 4);
  } else {
    if (mine(event.actor)) take(event, event.tile);
    bool found = false;
    for (std::size_t i = 0; i < player.meld_count; ++i) {
      Meld& meld = player.melds[i];
      if (meld.type != MeldType::Pon || meld.kind() != kind_of(event.tile)) continue;
      meld.type = MeldType::Kakan;
      meld.consumed[2] = event.tile;
      found = true;
    }
    if (!found) fail(event, "there is no pon to add to");
    pub.seen.add(kind_of(event.tile));
  }
  ++player.kans;
  ++pub.kan_count;
  kan_open_ = true;
  pub.actor = event.actor;
  if (!ankan || pub.rules.rob_ankan_for_kokushi)
    offer(kind_of(first) == first || !ankan ? first : kind_of(first),
          ankan ? ActionType::Ankan : ActionType::Kakan, event.actor);
}

void SeatTracker::on(const Event& event) {
  PublicState& pub = view_.pub;
  if (event.type == EventType::StartKyoku) {
    view_.asked = false;
    return start_round(event);
  }
  if (event.type == EventType::StartGame || event.type == EventType::EndGame) {
    view_.asked = false;
    return;
  }
  // mjai.app tells a seat nothing of a round in which it was never asked, but its end.
  if (!in_round_ && event.type == EventType::EndKyoku) return;
  if (!in_round_) fail(event, "comes before start_kyoku");
  if (event.actor > 3 || event.target > 3) fail(event, "names a seat that is none");
  after_claim(event);
  view_.asked = false;
  switch (event.type) {
    case EventType::Tsumo:
      return draw(event);
    case EventType::Dahai:
      return discard(event);
    case EventType::Chi:
    case EventType::Pon:
    case EventType::Daiminkan:
      return call(event);
    case EventType::Ankan:
    case EventType::Kakan:
      return own_kan(event);
    case EventType::Dora:
      if (pub.indicator_count == 5) fail(event, "a sixth dora indicator");
      pub.indicators[pub.indicator_count++] = event.tile;
      pub.seen.add(kind_of(event.tile));
      return;
    case EventType::Reach:
      seat(event.actor).riichi = RiichiState::Declared;
      seat(event.actor).double_riichi = pub.uninterrupted && seat(event.actor).discards == 0;
      ++pub.riichi_count;
      pub.declaring = true;
      view_.asked = mine(event.actor);
      return;
    case EventType::ReachAccepted:
      seat(event.actor).riichi = RiichiState::Accepted;
      seat(event.actor).score -= 1000;
      seat(event.actor).ippatsu = pub.rules.ippatsu;
      ++pub.sticks;
      return;
    case EventType::Hora:
    case EventType::Ryukyoku:
      pub.phase = Phase::RoundOver;
      for (std::size_t p = 0; p < 4 && event.has_deltas; ++p) pub.seats[p].score += event.deltas[p];
      return;
    default:
      in_round_ = false;
  }
}

std::string to_mjai(const Action& action, const Observation& o) {
  Event event;
  event.actor = o.seat;
  event.target = o.pub.actor;
  event.tile = action.tile;
  switch (action.type) {
    case ActionType::Discard:
      event.type = EventType::Dahai;
      event.tsumogiri = action.tsumogiri();
      break;
    case ActionType::Riichi:
      event.type = EventType::Reach;
      break;
    case ActionType::Chi:
    case ActionType::Pon:
      event.type = action.type == ActionType::Chi ? EventType::Chi : EventType::Pon;
      event.consumed = {action.a, action.b, kNoTile, kNoTile};
      break;
    case ActionType::Daiminkan:
    case ActionType::Ankan: {
      event.type = action.type == ActionType::Ankan ? EventType::Ankan : EventType::Daiminkan;
      const Kind kind = kind_of(action.tile);
      const int reds = is_five(kind) ? o.own.hand.red[kind / 9U] : 0, count = o.own.hand.count[kind];
      for (int i = 0; i < count && i < 4; ++i)
        event.consumed[static_cast<std::size_t>(i)] = i < count - reds ? kind : red_five(kind / 9);
      break;
    }
    case ActionType::Kakan:
      event.type = EventType::Kakan;
      for (const Meld& meld : o.pub.seats[o.seat].meld_span())
        if (meld.type == MeldType::Pon && meld.kind() == kind_of(action.tile))
          event.consumed = {meld.called, meld.consumed[0], meld.consumed[1], kNoTile};
      break;
    case ActionType::Tsumo:
    case ActionType::Ron:
      event.type = EventType::Hora;
      event.tile = action.type == ActionType::Tsumo ? o.own.drawn : o.pub.claimed;
      break;
    case ActionType::NineOrphans:
      event.type = EventType::Ryukyoku;
      event.reason = DrawReason::NineOrphans;
      break;
    case ActionType::Pass:
      return R"({"type":"none"})";
  }
  return to_mjai(event);
}

namespace {

// One seat's game as it is told, and who answers in it.
class MjaiClient {
 public:
  MjaiClient(const Rules& rules, const PlayerFactory& make, std::uint64_t seed)
      : rules_(rules), make_(make), seed_(seed) {}

  // Throws FormatError naming `where`.
  void take(std::string_view text, const std::string& where) {
    const Event event = parse_mjai(text, where);
    if (event.type == EventType::StartGame) start(text, where);
    if (!tracker_) throw FormatError(where, -1, "start_game", "has to come first");
    tracker_->on(event);
    over_ = event.type == EventType::EndGame;
  }
  std::string answer() {
    const ActionList legal = tracker_->legal();
    if (legal.empty()) return R"({"type":"none"})";
    return to_mjai(player_->select(tracker_->observation(), legal), tracker_->observation());
  }
  bool over() const { return over_; }

 private:
  void start(std::string_view text, const std::string& where) {
    const auto json = parse_json_or_discard<nlohmann::json>(text);
    const auto id = json.find("id");
    if (id == json.end() || !id->is_number_integer() || id->get<std::int64_t>() < 0 ||
        id->get<std::int64_t>() > 3)
      throw FormatError(where, -1, "id", "is missing or no seat (0 to 3)");
    tracker_.emplace(rules_, id->get<int>());
    warm_up();
    player_ = make_(seed_);
  }
  // A first decision makes tables for 0.4 s: now, not when the table waits for it.
  void warm_up() const {
    const Table table = start_game(rules_, seed_from_number(0));
    static_cast<void>(
        make_(seed_)->select(observe(table, table.pub.dealer), legal_actions(table, table.pub.dealer)));
  }

  const Rules& rules_;
  const PlayerFactory& make_;
  std::uint64_t seed_;
  std::optional<SeatTracker> tracker_;
  std::unique_ptr<ActionSelector> player_;
  bool over_ = false;
};

// The elements of an array.
std::vector<std::string> events_of(const std::string& line, const std::string& where) {
  const auto json = parse_json_or_discard<nlohmann::json>(line);
  if (json.is_discarded()) throw FormatError(where, -1, "line", "begins with [ and is not a JSON array");
  if (json.empty()) throw FormatError(where, -1, "line", "is an array without events");
  std::vector<std::string> events;
  events.reserve(json.size());
  for (const nlohmann::json& one : json) events.push_back(dump_json(one));
  return events;
}

}  // namespace

void run_mjai_client(std::istream& in, std::ostream& out, const Rules& rules, const PlayerFactory& make,
                     std::uint64_t seed) {
  MjaiClient client(rules, make, seed);
  std::string line;
  for (int number = 1; !client.over() && std::getline(in, line); ++number) {
    const std::size_t begin = line.find_first_not_of(" \t\r");
    if (begin == std::string::npos) continue;
    const std::string where = fmt::format("line {}", number);
    if (line[begin] == '[')
      for (const std::string& event : events_of(line, where)) client.take(event, where);
    else
      client.take(line, where);
    out << client.answer() << '\n';
    out.flush();
  }
}

}  // namespace ingot::mahjong
