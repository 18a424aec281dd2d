#include "ingot/mahjong/terminal.h"

#include <algorithm>
#include <charconv>
#include <istream>
#include <ostream>

#include <fmt/core.h>

#include "ingot/mahjong/log.h"
#include "ingot/mahjong/shanten.h"

namespace ingot::mahjong {
namespace {

constexpr const char* kWindWords[] = {"East", "South", "West", "North"};

std::string paint(const std::string& text, const char* code, bool color) {
  return color ? fmt::format("\x1b[{}m{}\x1b[0m", code, text) : text;
}

std::string tile_text(Tile tile, bool color) {
  const std::string name(tile_name(tile));
  return is_red(tile) ? paint(name, "31;1", color) : name;
}

constexpr int kRiverRow = 18;  // tiles: 72 to 90 columns

std::string river_text(const PublicState& pub, int player, bool color) {
  std::string text;
  int tiles = 0;
  for (std::size_t i = 0; i < pub.river_size; ++i) {
    const RiverTile tile = pub.river[i];
    if (tile.player() != player) continue;
    std::string one = tile_text(tile.tile(), color);
    if (tile.tsumogiri()) one = paint(one, "2", color);
    if (tile.riichi()) one = paint("[" + one + "]", "33", color);
    if (tile.called()) one = "(" + one + ")";
    if (tiles++ % kRiverRow == 0 && !text.empty()) text += "\n    ";
    text += one + " ";
  }
  return text;
}

std::string melds_text(const Seat& seat, bool color) {
  constexpr const char* names[] = {"chi", "pon", "kan", "kan", "closed kan"};
  std::string text;
  for (const Meld& meld : seat.meld_span()) {
    text += fmt::format(" {}:{}", names[static_cast<int>(meld.type)], tile_text(meld.called, color));
    for (const Tile tile : meld.consumed)
      if (tile != kNoTile) text += " " + tile_text(tile, color);
  }
  return text;
}

std::string hand_text(const PrivateState& own, bool color) {
  Hand hand = own.hand;
  if (own.drawn != kNoTile) hand.remove(own.drawn);
  std::string text;
  for (const Tile tile : hand.tiles()) text += tile_text(tile, color) + " ";
  if (own.drawn != kNoTile) text += " + " + tile_text(own.drawn, color);
  return text;
}

std::string header(const PublicState& pub, bool color) {
  std::string dora;
  for (const Tile tile : pub.indicator_span()) dora += " " + tile_text(tile, color);
  return fmt::format("{} {}  honba {}  riichi sticks {}  tiles left {}  dora indicators{}\n",
                     kWindWords[pub.round / 4 % 4], pub.round % 4 + 1, pub.honba, pub.sticks, pub.live_left,
                     dora);
}

std::string seat_lines(const PublicState& pub, int player, const std::string& hand, bool color) {
  const Seat& seat = pub.seats[static_cast<std::size_t>(player)];
  const char* turn = pub.phase == Phase::Turn && pub.actor == player ? ">" : " ";
  std::string text = fmt::format(
      "{}{} {:<5} {:>6}{}{}\n", turn, player, kWindWords[pub.seat_wind(player)], seat.score,
      seat.riichi != RiichiState::None ? paint("  riichi", "33;1", color) : "", melds_text(seat, color));
  text += "    " + river_text(pub, player, color) + "\n";
  if (!hand.empty()) text += "    hand: " + hand + "\n";
  return text;
}

}  // namespace

std::string draw_table(const Observation& o, bool color) {
  std::string text = header(o.pub, color);
  for (int i = 1; i <= 4; ++i) {
    const int player = (o.seat + i) % 4;
    text += seat_lines(o.pub, player, player == o.seat ? hand_text(o.own, color) : "", color);
  }
  const int distance = shanten(o.own.hand, o.pub.seats[o.seat].meld_count);
  text += distance > 0 ? fmt::format("    {} from tenpai", distance) : std::string("    tenpai");
  if (o.own.waits != 0 && o.own.hand.size % 3 == 1) {
    text += ", waiting for";
    for_each_kind(o.own.waits, [&](Kind kind) { text += " " + std::string(tile_name(kind)); });
    if (is_furiten(o.pub, o.own, o.seat)) text += " (furiten)";
  }
  return text + "\n";
}

std::string draw_table(const Table& table, bool color) {
  std::string text = header(table.pub, color);
  for (int player = 0; player < 4; ++player)
    text +=
        seat_lines(table.pub, player, hand_text(table.own[static_cast<std::size_t>(player)], color), color);
  return text;
}

std::string describe(const Event& event) {
  const std::string tile(tile_name(event.tile));
  switch (event.type) {
    case EventType::StartKyoku:
      return fmt::format("--- {} {}, honba {}, dealer {} ---", kWindWords[event.round / 4 % 4],
                         event.round % 4 + 1, event.honba, event.dealer);
    case EventType::Dahai:
      return fmt::format("player {} discards {}{}", event.actor, tile, event.tsumogiri ? " (drawn)" : "");
    case EventType::Chi:
    case EventType::Pon:
    case EventType::Daiminkan:
      return fmt::format("player {} calls {} of {} from player {}", event.actor, event_name(event.type), tile,
                         event.target);
    case EventType::Ankan:
      return fmt::format("player {} declares a closed kan of {}", event.actor, tile_name(event.consumed[0]));
    case EventType::Kakan:
      return fmt::format("player {} adds {} to a pon", event.actor, tile);
    case EventType::Dora:
      return fmt::format("dora indicator {}", tile);
    case EventType::Reach:
      return fmt::format("player {} declares riichi", event.actor);
    case EventType::Hora: {
      std::string yaku;
      for (int y = 0; y < static_cast<int>(Yaku::kCount); ++y)
        if (event.win.has(static_cast<Yaku>(y)))
          yaku += (yaku.empty() ? "" : ", ") + std::string(yaku_name(static_cast<Yaku>(y)));
      return fmt::format(
          "player {} wins {} on {}: {} ({} han {} fu, {} points)", event.actor,
          event.actor == event.target ? "by tsumo" : fmt::format("from player {}", event.target), tile, yaku,
          event.win.han, event.win.fu, event.points);
    }
    case EventType::Ryukyoku:
      return fmt::format("the round is drawn ({:+} {:+} {:+} {:+})", event.deltas[0], event.deltas[1],
                         event.deltas[2], event.deltas[3]);
    case EventType::EndGame:
      return fmt::format("final scores: {} {} {} {}", event.scores[0], event.scores[1], event.scores[2],
                         event.scores[3]);
    default:
      return {};
  }
}

Action TerminalPlayer::select(const Observation& o, const ActionList& legal) {
  out_ << '\n' << draw_table(o, color_);
  if (o.pub.phase == Phase::Reaction)
    out_ << "player " << int{o.pub.actor} << " offers " << tile_text(o.pub.claimed, color_) << '\n';
  for (std::size_t i = 0; i < legal.size(); ++i)
    out_ << (i == 0 ? "" : "  ") << i + 1 << " " << to_string(legal[i]);
  while (true) {
    out_ << "\nnumber or tile> " << std::flush;
    std::string answer;
    if (!(in_ >> answer)) throw Error("the input ended before the game did");
    std::size_t number = 0;
    const auto [end, error] = std::from_chars(answer.data(), answer.data() + answer.size(), number);
    if (error == std::errc() && end == answer.data() + answer.size() && number >= 1 && number <= legal.size())
      return legal[number - 1];
    const Tile tile = parse_tile(answer);
    const Action* chosen = nullptr;
    for (const Action& action : legal)
      if (action.type == ActionType::Discard && action.tile == tile &&
          (chosen == nullptr || action.tsumogiri()))
        chosen = &action;
    if (chosen != nullptr) return *chosen;
    out_ << "\"" << answer << "\" is none of them; type 1 to " << legal.size() << ", or a tile to discard";
  }
}

}  // namespace ingot::mahjong
