#include <algorithm>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "ingot/base/json.h"
#include "ingot/mahjong/line_json.h"
#include "ingot/mahjong/log.h"

// https://mjai.app/docs/mjai-protocol
namespace ingot::mahjong {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kWindNames = "ESWN";
constexpr std::pair<DrawReason, std::string_view> kReasons[] = {
    {DrawReason::Exhausted, "exhaustive_draw"}, {DrawReason::NagashiMangan, "nagashi_mangan"},
    {DrawReason::NineOrphans, "kyushukyuhai"},  {DrawReason::FourWinds, "sufurenta"},
    {DrawReason::FourRiichi, "suchareach"},     {DrawReason::FourKans, "sukaikan"},
    {DrawReason::TripleRon, "sanchaho"},
};

Json tiles_json(const Tile* tiles, std::size_t count) {
  Json list = Json::array();
  for (std::size_t i = 0; i < count && tiles[i] != kNoTile; ++i)
    list.push_back(std::string(tile_name(tiles[i])));
  return list;
}

void add_start(Json& json, const Event& event, int viewer) {
  json["bakaze"] = std::string(1, kWindNames[event.round / 4 % 4]);
  json["dora_marker"] = std::string(tile_name(event.tile));
  json["kyoku"] = event.round % 4 + 1;
  json["honba"] = event.honba;
  json["kyotaku"] = event.sticks;
  json["oya"] = event.dealer;
  if (event.has_scores) json["scores"] = event.scores;
  Json hands = Json::array();
  for (int p = 0; p < 4; ++p) {
    const auto& hand = event.hands[static_cast<std::size_t>(p)];
    if (viewer >= 0 && p != viewer)
      hands.push_back(Json(std::vector<std::string>(13, "?")));
    else
      hands.push_back(tiles_json(hand.data(), 13));
  }
  json["tehais"] = std::move(hands);
}

void add_end(Json& json, const Event& event) {
  if (event.type == EventType::Hora) {
    json["actor"] = event.actor;
    json["target"] = event.target;
    json["pai"] = std::string(tile_name(event.tile));
    json["ura_markers"] = tiles_json(event.ura.data(), event.ura_count);
    if (event.win.is_win()) {
      Json yaku = Json::array();
      for (int y = 0; y < static_cast<int>(Yaku::kCount); ++y)
        if (event.win.has(static_cast<Yaku>(y))) yaku.push_back(std::string(yaku_name(static_cast<Yaku>(y))));
      json["yakus"] = std::move(yaku);
      json["fan"] = event.win.han;
      json["fu"] = event.win.fu;
      json["hora_points"] = event.points;
    }
  } else {
    for (const auto& [reason, name] : kReasons)
      if (reason == event.reason) json["reason"] = std::string(name);
  }
  if (event.has_deltas) {
    json["deltas"] = event.deltas;
    json["scores"] = event.scores;
  }
}

// Reads the fields of one event; every complaint names file and field.
class Reader {
 public:
  using Value = LineJson::Value;
  Reader(Value json, const std::string& source) : json_(json), source_(source) {}

  [[noreturn]] void fail(const std::string& field, const std::string& problem) const {
    throw FormatError(source_, -1, field, problem);
  }
  Value field(const char* name) const {
    const Value found = json_.find(name);
    if (!found) fail(name, "is missing");
    return found;
  }
  std::int64_t integer(Value value, const char* name, std::int64_t low, std::int64_t high) const {
    if (!value.is_integer()) fail(name, fmt::format("is {}, expected a whole number", value.excerpt()));
    const std::int64_t number = value.integer();
    if (number < low || number > high) fail(name, fmt::format("is {}, expected {} to {}", number, low, high));
    return number;
  }
  std::int64_t integer(const char* name, std::int64_t low, std::int64_t high) const {
    return integer(field(name), name, low, high);
  }
  std::uint8_t seat(const char* name) const { return static_cast<std::uint8_t>(integer(name, 0, 3)); }
  Tile tile(Value value, const char* name, bool may_hide) const {
    if (!value.is_text()) fail(name, fmt::format("is {}, expected a tile like \"5mr\"", value.excerpt()));
    const Tile tile = parse_tile(value.plain());
    if (tile == kNoTile && !(may_hide && value.plain() == "?"))
      fail(name, fmt::format("is {}, expected a tile like \"1m\", \"5pr\" or \"E\"", value.excerpt()));
    return tile;
  }
  Tile tile(const char* name, bool may_hide = false) const { return tile(field(name), name, may_hide); }
  std::size_t tiles(const char* name, Tile* out, std::size_t least, std::size_t most) const {
    return tiles(field(name), name, out, least, most, false);
  }
  std::size_t tiles(Value list, const char* name, Tile* out, std::size_t least, std::size_t most,
                    bool may_hide) const {
    if (!list.is_list() || list.size() < least || list.size() > most)
      fail(name, fmt::format("is not a list of {} to {} tiles", least, most));
    for (Value one = list.first(); one; one = one.next()) *out++ = tile(one, name, may_hide);
    return list.size();
  }
  std::array<std::int32_t, 4> points(const char* name) const {
    const Value list = field(name);
    if (!list.is_list() || list.size() != 4) fail(name, "is not a list of four numbers");
    std::array<std::int32_t, 4> values{};
    std::size_t p = 0;
    for (Value one = list.first(); one; one = one.next())
      values[p++] = static_cast<std::int32_t>(integer(one, name, -100'000'000, 100'000'000));
    return values;
  }

  Event read() const {
    if (!json_.is_object()) fail("event", "is not a JSON object");
    const Value type = field("type");
    if (!type.is_text()) fail("type", "is not text");
    const std::string_view name = type.plain();
    Event event;
    for (int i = 0; i <= static_cast<int>(EventType::EndGame); ++i) {
      if (event_name(static_cast<EventType>(i)) != name) continue;
      event.type = static_cast<EventType>(i);
      read_fields(event);
      return event;
    }
    fail("type", fmt::format("\"{}\" is not a mjai event", name.substr(0, 40)));
  }

 private:
  void read_start(Event& event) const {
    const Value wind = field("bakaze");
    const std::size_t at = wind.is_text() && wind.plain().size() == 1 ? kWindNames.find(wind.plain()[0])
                                                                      : std::string_view::npos;
    if (at == std::string_view::npos)
      fail("bakaze", fmt::format("is {}, expected E, S, W or N", wind.excerpt()));
    event.round = static_cast<std::uint8_t>(4 * at + static_cast<std::size_t>(integer("kyoku", 1, 4)) - 1);
    event.honba = static_cast<std::uint16_t>(integer("honba", 0, 1000));
    event.sticks = static_cast<std::uint16_t>(integer("kyotaku", 0, 1000));
    event.dealer = event.actor = seat("oya");
    event.tile = tile("dora_marker");
    event.has_scores = bool{json_.find("scores")};
    if (event.has_scores) event.scores = points("scores");
    const Value hands = field("tehais");
    if (!hands.is_list() || hands.size() != 4) fail("tehais", "is not a list of four hands");
    std::size_t p = 0;
    for (Value hand = hands.first(); hand; hand = hand.next())
      tiles(hand, "tehais", event.hands[p++].data(), 13, 13, true);
  }

  void read_end(Event& event) const {
    event.has_deltas = bool{json_.find("deltas")};
    if (event.has_deltas) event.deltas = points("deltas");
    if (event.type == EventType::Hora) {
      event.actor = seat("actor");
      event.target = seat("target");
      if (json_.find("pai")) event.tile = tile("pai");
      for (const char* name : {"ura_markers", "uradora_markers"})
        if (json_.find(name))
          event.ura_count = static_cast<std::uint8_t>(tiles(name, event.ura.data(), 0, 5));
      return;
    }
    const Value told = json_.find("reason");
    if (!told || !told.is_text()) return;
    for (const auto& [reason, name] : kReasons)
      if (told.plain() == name) event.reason = reason;
  }

  void read_fields(Event& event) const {
    switch (event.type) {
      case EventType::StartGame:
      case EventType::EndKyoku:
      case EventType::EndGame:
        return;
      case EventType::StartKyoku:
        return read_start(event);
      case EventType::Dora:
        event.tile = tile("dora_marker");
        return;
      case EventType::Hora:
      case EventType::Ryukyoku:
        return read_end(event);
      default:
        event.actor = seat("actor");
    }
    switch (event.type) {
      case EventType::Tsumo:
        event.tile = tile("pai", true);
        return;
      case EventType::Dahai: {
        event.tile = tile("pai");
        const Value drawn = field("tsumogiri");
        if (!drawn.is_bool()) fail("tsumogiri", "is neither true nor false");
        event.tsumogiri = drawn.flag();
        return;
      }
      case EventType::Ankan:
        tiles("consumed", event.consumed.data(), 4, 4);
        return;
      case EventType::Kakan:
        event.tile = tile("pai");
        tiles("consumed", event.consumed.data(), 3, 3);
        return;
      case EventType::Chi:
      case EventType::Pon:
      case EventType::Daiminkan: {
        event.target = seat("target");
        event.tile = tile("pai");
        const std::size_t count = event.type == EventType::Daiminkan ? 3 : 2;
        tiles("consumed", event.consumed.data(), count, count);
        return;
      }
      default:
        return;
    }
  }

  Value json_;
  const std::string& source_;
};

}  // namespace

std::string to_mjai(const Event& event, int viewer) {
  Json json;
  json["type"] = std::string(event_name(event.type));
  switch (event.type) {
    case EventType::StartGame:
      if (viewer >= 0) json["id"] = viewer;
      break;
    case EventType::StartKyoku:
      add_start(json, event, viewer);
      break;
    case EventType::Tsumo:
      json["actor"] = event.actor;
      json["pai"] = std::string(viewer >= 0 && viewer != event.actor ? "?" : tile_name(event.tile));
      break;
    case EventType::Dahai:
      json["actor"] = event.actor;
      json["pai"] = std::string(tile_name(event.tile));
      json["tsumogiri"] = event.tsumogiri;
      break;
    case EventType::Chi:
    case EventType::Pon:
    case EventType::Daiminkan:
      json["actor"] = event.actor;
      json["target"] = event.target;
      json["pai"] = std::string(tile_name(event.tile));
      json["consumed"] = tiles_json(event.consumed.data(), 3);
      break;
    case EventType::Kakan:
      json["actor"] = event.actor;
      json["pai"] = std::string(tile_name(event.tile));
      json["consumed"] = tiles_json(event.consumed.data(), 3);
      break;
    case EventType::Ankan:
      json["actor"] = event.actor;
      json["consumed"] = tiles_json(event.consumed.data(), 4);
      break;
    case EventType::Dora:
      json["dora_marker"] = std::string(tile_name(event.tile));
      break;
    case EventType::Reach:
    case EventType::ReachAccepted:
      json["actor"] = event.actor;
      break;
    case EventType::Hora:
    case EventType::Ryukyoku:
      add_end(json, event);
      break;
    case EventType::EndKyoku:
    case EventType::EndGame:
      break;
  }
  return dump_json(json);
}

Event parse_mjai(std::string_view line, const std::string& source) {
  const LineJson json(line, source);
  return Reader(json.root(), source).read();
}

GameLog read_mjai(std::string_view text, const std::string& source, const Rules& rules) {
  GameLog log;
  log.source = source;
  log.rules = rules;
  int number = 0;
  bool in_round = false;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    ++number;
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.remove_suffix(1);
    if (line.empty()) continue;
    const std::string place = fmt::format("{}:{}", source, number);
    const LineJson json(line, place);
    const Event event = Reader(json.root(), place).read();
    const auto fail = [&](const char* problem) {
      throw FormatError(place, -1, std::string(event_name(event.type)), problem);
    };
    if (event.type == EventType::StartGame) {
      const LineJson::Value names = json.root().find("names");
      std::size_t p = 0;
      if (names && names.is_list() && names.size() == 4)
        for (LineJson::Value name = names.first(); name; name = name.next(), ++p)
          if (name.is_text()) log.names[p] = name.text();
    } else if (event.type == EventType::EndGame) {
      log.complete = true;
    } else if (event.type == EventType::StartKyoku) {
      if (in_round) fail("comes before the end of the round before");
      log.rounds.emplace_back().events.push_back(event);
      in_round = true;
    } else {
      if (!in_round) fail("comes outside of a round");
      log.rounds.back().events.push_back(event);
      in_round = event.type != EventType::EndKyoku;
    }
  }
  if (log.rounds.empty()) throw FormatError(source, -1, "start_kyoku", "is missing: the log has no rounds");
  const Event& first = log.rounds[0].events[0];
  log.starts_at_beginning = first.round == 0 && first.honba == 0 && first.sticks == 0;
  return log;
}

std::string to_mjai(const Events& events, const std::array<std::string, 4>& names) {
  const bool named = std::ranges::any_of(names, [](const std::string& name) { return !name.empty(); });
  std::string text;
  for (const Event& event : events)
    text += (named && event.type == EventType::StartGame
                 ? dump_json(Json{{"type", event_name(event.type)}, {"names", names}})
                 : to_mjai(event)) +
            "\n";
  return text;
}

}  // namespace ingot::mahjong
