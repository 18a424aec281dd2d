#include <algorithm>
#include <bitset>
#include <charconv>
#include <cmath>

#include <fmt/core.h>
#include <pugixml.hpp>

#include "ingot/base/percent.h"
#include "ingot/mahjong/flow.h"
#include "ingot/mahjong/log.h"

namespace ingot::mahjong {
namespace {

class MjlogReader {
 public:
  MjlogReader(std::string_view xml, const std::string& source) : xml_(xml) { log_.source = source; }

  GameLog read() {
    pugi::xml_document document;
    const pugi::xml_parse_result parsed = document.load_buffer(xml_.data(), xml_.size(), pugi::parse_minimal);
    if (!parsed)
      throw FormatError(log_.source, static_cast<std::int64_t>(parsed.offset), "XML", parsed.description());
    const pugi::xml_node root = document.child("mjloggm");
    if (!root) throw FormatError(log_.source, 0, "XML", "has no element mjloggm; is this a Tenhou log?");
    for (const pugi::xml_node node : root.children()) {
      if (node.type() != pugi::node_element) continue;
      ++number_;
      element_ = node;
      read_element();
    }
    if (log_.rounds.empty()) throw FormatError(log_.source, -1, "mjloggm", "has no rounds (INIT)");
    close_round();
    log_.complete = log_.final_scores.has_value();
    return std::move(log_);
  }

 private:
  [[noreturn]] void fail(const std::string& problem) const {
    throw FormatError(log_.source, element_.offset_debug(),
                      fmt::format("element {} <{}>", number_, element_.name()), problem);
  }

  std::string_view attribute(const char* name) const {
    const pugi::xml_attribute found = element_.attribute(name);
    if (!found) fail(fmt::format("has no attribute {}", name));
    return found.value();
  }
  std::vector<double> numbers(const char* name) const {
    std::vector<double> list;
    std::string_view text = attribute(name);
    while (!text.empty()) {
      double value = 0;
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
      if (error != std::errc() || !(std::abs(value) < 5e6))
        fail(fmt::format("{}=\"{}\" is not a list of numbers", name, attribute(name)));
      list.push_back(value);
      text.remove_prefix(static_cast<std::size_t>(end - text.data()));
      if (!text.empty() && text[0] != ',')
        fail(fmt::format("{}=\"{}\" is not a list of numbers", name, attribute(name)));
      if (!text.empty()) text.remove_prefix(1);
      if (list.size() > 200) fail(fmt::format("{} has more than 200 numbers", name));
    }
    return list;
  }
  std::vector<int> integers(const char* name, std::size_t least) const {
    std::vector<int> list;
    for (const double value : numbers(name)) list.push_back(static_cast<int>(value));
    if (list.size() < least)
      fail(fmt::format("{} has {} numbers, expected at least {}", name, list.size(), least));
    return list;
  }
  int integer(const char* name) const { return integers(name, 1)[0]; }
  std::uint8_t seat(const char* name) const {
    const int who = integer(name);
    if (who < 0 || who > 3) fail(fmt::format("{}={} is not a seat", name, who));
    return static_cast<std::uint8_t>(who);
  }
  TileId tile_id(int value) const {
    if (value < 0 || value >= kTileIds) fail(fmt::format("{} is not a tile; tiles are 0 to 135", value));
    return static_cast<TileId>(value);
  }
  Tile tile(int value) const { return tile_of(log_.rules, tile_id(value)); }

  Events& events() {
    if (log_.rounds.empty()) fail("comes before the first round (INIT)");
    return log_.rounds.back().events;
  }
  Event& add(EventType type, int actor) {
    Event& event = events().emplace_back();
    event.type = type;
    event.actor = static_cast<std::uint8_t>(actor);
    return event;
  }
  void close_round() {
    if (!log_.rounds.empty()) events().emplace_back().type = EventType::EndKyoku;
  }

  void read_element() {
    const std::string_view name = element_.name();
    if (name == "SHUFFLE") return read_shuffle();
    if (name == "GO") return read_go();
    if (name == "UN" || name == "BYE" || name == "TAIKYOKU") return read_people(name);
    if (name == "INIT") return read_init();
    if (name == "N") return read_call();
    if (name == "DORA") {
      const int id = integer("hai");
      Event& event = add(EventType::Dora, 0);
      show(id);
      event.tile = tile(id);
      event.id = tile_id(id);
      return;
    }
    if (name == "REACH") {
      add(integer("step") == 1 ? EventType::Reach : EventType::ReachAccepted, seat("who"));
      return;
    }
    if (name == "AGARI") return read_win();
    if (name == "RYUUKYOKU") return read_draw();
    if (read_tile(name)) return;
    fail("is unknown; expected an element of a Tenhou log");
  }

  void read_shuffle() { start_walls(attribute("seed")); }
  // Logs without a seed, or with one of another's making, are replayed without it.
  void start_walls(std::string_view seed) {
    if (!TenhouWalls::knows(seed)) return;
    try {
      walls_.emplace(seed);
    } catch (const FormatError& error) {
      fail(error.what());
    }
  }

  void read_go() {
    if (!element_.attribute("type")) return;
    const int type = integer("type");
    if ((type & 0x10) != 0) fail("is a three-player game; only four-player games can be read");
    if ((type & 0x200) != 0)
      fail("is played for chips, by rules that cannot be read (1500 points a honba, kan dora at once)");
    if ((type & 0x02) != 0) log_.rules.red_fives = {0, 0, 0};
    log_.rules.open_tanyao = (type & 0x04) == 0;
    public_room_ = type < 0x100;
    log_.rules.length = (type & 0x08) != 0 ? GameLength::EastSouth : GameLength::East;
  }

  void read_people(std::string_view name) {
    if (name != "UN") return;
    for (std::size_t p = 0; p < 4; ++p) {
      const pugi::xml_attribute who = element_.attribute(fmt::format("n{}", p).c_str());
      if (who && log_.names[p].empty()) log_.names[p] = percent_decode(who.value());
    }
  }

  void read_init() {
    close_round();
    log_.rounds.emplace_back();
    drawn_.fill(-1);
    Event& start = add(EventType::StartKyoku, 0);
    const std::vector<int> seed = integers("seed", 6);
    if (seed[0] < 0 || seed[0] > 15 || seed[1] < 0 || seed[1] > 1000 || seed[2] < 0 || seed[2] > 1000)
      fail("seed has an impossible round, honba or number of sticks");
    start.round = static_cast<std::uint8_t>(seed[0]);
    start.honba = static_cast<std::uint16_t>(seed[1]);
    start.sticks = static_cast<std::uint16_t>(seed[2]);
    start.tile = tile(seed[5]);
    start.dealer = seat("oya");
    start.actor = start.dealer;
    const std::vector<int> ten = integers("ten", 4);
    for (std::size_t p = 0; p < 4; ++p) start.scores[p] = 100 * ten[p];
    if (log_.rounds.size() == 1)
      log_.starts_at_beginning = start.round == 0 && start.honba == 0 && start.sticks == 0;
    std::array<std::vector<int>, 4> hands;
    shown_.reset();
    show(seed[5]);
    for (std::size_t p = 0; p < 4; ++p) {
      hands[p] = integers(fmt::format("hai{}", p).c_str(), 13);
      if (hands[p].size() != 13) fail(fmt::format("hai{} has {} tiles, expected 13", p, hands[p].size()));
      held_[p].reset();
      for (std::size_t i = 0; i < 13; ++i) {
        start.hands[p][i] = tile(hands[p][i]);
        take(p, hands[p][i]);
      }
    }
    if (const pugi::xml_attribute seeds = element_.attribute("shuffle")) {
      start_walls(seeds.value());
      log_.rules.tenpai_yame = false;  // games of these years went on
    }
    if (walls_ && log_.starts_at_beginning) check_deal(hands, start.dealer, seed);
  }

  void check_deal(const std::array<std::vector<int>, 4>& hands, int dealer, const std::vector<int>& seed) {
    const TenhouWalls::Deal deal = walls_->next();
    std::size_t place = kTileIds;
    std::array<std::vector<int>, 4> dealt;
    for (int block = 0; block < 4; ++block)
      for (int i = 0; i < 4; ++i)
        for (int n = 0; n < (block < 3 ? 4 : 1); ++n)
          dealt[static_cast<std::size_t>((dealer + i) % 4)].push_back(deal.wall[--place]);
    for (std::size_t p = 0; p < 4; ++p) {
      std::vector<int> sorted = hands[p];
      std::sort(sorted.begin(), sorted.end());
      std::sort(dealt[p].begin(), dealt[p].end());
      if (sorted != dealt[p]) fail(fmt::format("hai{} is not what the seed deals", p));
    }
    if (seed[5] != deal.wall[5]) fail("the dora indicator is not what the seed gives");
    if (seed[3] != deal.dice[0] - 1 || seed[4] != deal.dice[1] - 1)
      fail("the dice are not what the seed gives");
    log_.rounds.back().wall = deal.wall;
  }

  // <T12/> is a draw of player 0, <D12/> a discard; U V W and E F G those of the others.
  bool read_tile(std::string_view name) {
    int id = 0;
    const auto [end, error] = std::from_chars(name.data() + 1, name.data() + name.size(), id);
    if (name.size() < 2 || error != std::errc() || end != name.data() + name.size()) return false;
    const bool draws = name[0] >= 'T' && name[0] <= 'W', discards = name[0] >= 'D' && name[0] <= 'G';
    if (!draws && !discards) return false;
    const int player = name[0] - (draws ? 'T' : 'D');
    Event& event = add(draws ? EventType::Tsumo : EventType::Dahai, player);
    event.tile = tile(id);
    int& drawn = drawn_[static_cast<std::size_t>(player)];
    if (draws) {
      event.id = tile_id(id);
      drawn = id;
      take(static_cast<std::size_t>(player), id);
    } else {
      event.tsumogiri = drawn == id;
      drawn = -1;
      give(player, id);
      discarded_ = id;
    }
    return true;
  }

  // A physical tile comes to light: from the wall, once.
  void show(int id) {
    if (shown_[tile_id(id)]) fail(fmt::format("tile {} was dealt, drawn or turned over before", id));
    shown_.set(tile_id(id));
  }
  void take(std::size_t player, int id) {
    show(id);
    held_[player].set(tile_id(id));
  }
  void give(int player, int id) {
    auto& held = held_[static_cast<std::size_t>(player)];
    if (!held[tile_id(id)]) fail(fmt::format("player {} does not hold tile {}", player, id));
    held.reset(tile_id(id));
  }
  // The tile that another discarded, to be called.
  Tile claim(int id) const {
    if (id != discarded_) fail(fmt::format("calls tile {}, but {} was discarded", id, discarded_));
    return tile(id);
  }

  void read_call() {
    const auto m = static_cast<unsigned>(integer("m"));
    if (m > 0xFFFF) fail(fmt::format("m={} is not a meld", m));
    const std::uint8_t who = seat("who");
    const auto from = static_cast<std::uint8_t>((who + (m & 3)) % 4);
    drawn_[who] = -1;
    if ((m & 4) != 0) return read_chi(m, who, from);
    if ((m & 0x18) != 0) return read_pon(m, who, from);
    if ((m & 0x20) != 0) fail("is a kita of a three-player game");
    const TileId called = tile_id(static_cast<int>(m >> 8));
    Event& event = add(from == who ? EventType::Ankan : EventType::Daiminkan, who);
    event.target = from;
    std::size_t n = 0;
    for (TileId copy = 0; copy < 4; ++copy) {
      const auto id = static_cast<TileId>(called / 4 * 4 + copy);
      if (from != who && id == called) continue;
      give(who, id);
      event.consumed[n++] = tile(id);
    }
    if (from != who) event.tile = claim(called);
  }

  void read_chi(unsigned m, std::uint8_t who, std::uint8_t from) {
    const unsigned pattern = m >> 10, at = pattern % 3, run = pattern / 3;
    if (run >= 21) fail(fmt::format("m={} is not a chi", m));
    const unsigned base = (run / 7 * 9 + run % 7) * 4;
    const unsigned ids[3] = {base + (m >> 3 & 3), base + 4 + (m >> 5 & 3), base + 8 + (m >> 7 & 3)};
    Event& event = add(EventType::Chi, who);
    event.target = from;
    event.tile = claim(static_cast<int>(ids[at]));
    std::size_t n = 0;
    for (unsigned i = 0; i < 3; ++i) {
      if (i == at) continue;
      give(who, static_cast<int>(ids[i]));
      event.consumed[n++] = tile(static_cast<int>(ids[i]));
    }
  }

  void read_pon(unsigned m, std::uint8_t who, std::uint8_t from) {
    const unsigned pattern = m >> 9, at = pattern % 3, kind = pattern / 3, extra = m >> 5 & 3;
    if (kind >= kKinds) fail(fmt::format("m={} is not a pon", m));
    std::array<int, 3> ids{};
    std::size_t n = 0;
    for (unsigned copy = 0; copy < 4; ++copy)
      if (copy != extra) ids[n++] = static_cast<int>(4 * kind + copy);
    const bool kakan = (m & 0x10) != 0;
    Event& event = add(kakan ? EventType::Kakan : EventType::Pon, who);
    event.target = kakan ? std::uint8_t{0} : from;
    const int added = static_cast<int>(4 * kind + extra);
    if (kakan) give(who, added);
    event.tile = kakan ? tile(added) : claim(ids[at]);
    std::size_t c = 0;
    if (kakan) event.consumed[c++] = tile(ids[at]);
    for (std::size_t i = 0; i < 3; ++i) {
      if (i == at) continue;
      if (!kakan) give(who, ids[i]);
      event.consumed[c++] = tile(ids[i]);
    }
  }

  void read_scores(Event& event) {
    const std::vector<int> sc = integers("sc", 8);
    event.has_deltas = true;
    for (std::size_t p = 0; p < 4; ++p) {
      event.deltas[p] = 100 * sc[2 * p + 1];
      event.scores[p] = 100 * sc[2 * p] + event.deltas[p];
    }
    if (!element_.attribute("owari")) return;
    const std::vector<double> owari = numbers("owari");
    if (owari.size() != 8) fail("owari has not eight numbers");
    std::array<std::int32_t, 4> scores;
    std::array<double, 4> points;
    for (std::size_t p = 0; p < 4; ++p) {
      scores[p] = static_cast<std::int32_t>(100 * owari[2 * p]);
      points[p] = owari[2 * p + 1];
    }
    log_.end_with(scores, points);
    if (!public_room_) log_.final_points.reset();
  }

  void read_win() {
    Event& event = add(EventType::Hora, seat("who"));
    event.target = seat("fromWho");
    event.tile = tile(integer("machi"));
    const std::vector<int> ten = integers("ten", 3);
    event.points = ten[1];
    int han = 0;
    const bool yakuman = !element_.attribute("yakuman").empty();
    const std::vector<int> yaku = integers(yakuman ? "yakuman" : "yaku", 1);
    for (std::size_t i = 0; i < yaku.size(); i += yakuman ? 1 : 2) {
      if (yaku[i] < 0 || yaku[i] >= static_cast<int>(Yaku::kCount))
        fail(fmt::format("{} is not a yaku", yaku[i]));
      if (!yakuman && i + 1 == yaku.size()) fail("yaku has a number without its han");
      const int worth = yakuman ? 13 : yaku[i + 1];
      if (worth > 0) event.win.yaku |= std::uint64_t{1} << yaku[i];
      han += worth;
    }
    event.win.han = static_cast<std::uint8_t>(han);
    event.win.fu = static_cast<std::uint8_t>(yakuman ? 0 : ten[0]);
    event.win.yakuman = yakuman ? static_cast<std::uint8_t>(yaku.size()) : std::uint8_t{0};
    if (element_.attribute("doraHaiUra"))
      for (const int id : integers("doraHaiUra", 1))
        if (event.ura_count < 5) event.ura[event.ura_count++] = tile(id);
    read_scores(event);
  }

  void read_draw() {
    Event& event = add(EventType::Ryukyoku, 0);
    const pugi::xml_attribute type = element_.attribute("type");
    const std::string_view name = type ? type.value() : "";
    event.reason = !type              ? DrawReason::Exhausted
                   : name == "nm"     ? DrawReason::NagashiMangan
                   : name == "yao9"   ? DrawReason::NineOrphans
                   : name == "kaze4"  ? DrawReason::FourWinds
                   : name == "reach4" ? DrawReason::FourRiichi
                   : name == "kan4"   ? DrawReason::FourKans
                   : name == "ron3"   ? DrawReason::TripleRon
                                      : DrawReason::Unknown;
    if (event.reason == DrawReason::Unknown) fail(fmt::format("type \"{}\" is unknown", name));
    for (unsigned p = 0; p < 4; ++p)
      if (element_.attribute(fmt::format("hai{}", p).c_str()))
        event.tenpai = static_cast<std::uint8_t>(event.tenpai | 1U << p);
    read_scores(event);
  }

  std::string_view xml_;
  GameLog log_;
  std::optional<TenhouWalls> walls_;
  pugi::xml_node element_;
  int number_ = 0;
  std::array<int, 4> drawn_{};
  bool public_room_ = true;
  std::bitset<kTileIds> shown_;
  std::array<std::bitset<kTileIds>, 4> held_;  // the physical tiles of each hand
  int discarded_ = -1;
};

}  // namespace

GameLog read_mjlog(std::string_view xml, const std::string& source) {
  return MjlogReader(xml, source).read();
}

}  // namespace ingot::mahjong
