#include <algorithm>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "ingot/base/json.h"
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
  Reader(const Json& json, const std::string& source) : json_(json), source_(source) {}

  [[noreturn]] void fail(const std::string& field, const std::string& problem) const {
    throw FormatError(source_, -1, field, problem);
  }
  const Json& field(const Json& json, const char* name) const {
    const auto found = json.find(name);
    if (found == json.end()) fail(name, "is missing");
    return *found;
  }
  std::int64_t integer(const Json& value, const char* name, std::int64_t low, std::int64_t high) const {
    if (!value.is_number_integer()) fail(name, fmt::format("is {}, expected a whole number", shorten(value)));
    if (value.is_number_unsigned() && value.get<std::uint64_t>() > std::uint64_t{1} << 62)
      fail(name, "is too large");
    const auto number = value.get<std::int64_t>();
    if (number < low || number > high) fail(name, fmt::format("is {}, expected {} to {}", number, low, high));
    return number;
  }
  std::int64_t integer(const char* name, std::int64_t low, std::int64_t high) const {
    return integer(field(json_, name), name, low, high);
  }
  std::uint8_t seat(const char* name) const { return static_cast<std::uint8_t>(integer(name, 0, 3)); }
  Tile tile(const Json& value, const char* name, bool may_hide) const {
    if (!value.is_string()) fail(name, fmt::format("is {}, expected a tile like \"5mr\"", shorten(value)));
    const auto& text = value.get_ref<const std::string&>();
    const Tile tile = parse_tile(text);
    if (tile == kNoTile && !(may_hide && text == "?"))
      fail(name, fmt::format("is {}, expected a tile like \"1m\", \"5pr\" or \"E\"", shorten(value)));
    return tile;
  }
  Tile tile(const char* name, bool may_hide = false) const {
    return tile(field(json_, name), name, may_hide);
  }
  std::size_t tiles(const char* name, Tile* out, std::size_t least, std::size_t most) const {
    return tiles(field(json_, name), name, out, least, most, false);
  }
  std::size_t tiles(const Json& list, const char* name, Tile* out, std::size_t least, std::size_t most,
                    bool may_hide) const {
    if (!list.is_array() || list.size() < least || list.size() > most)
      fail(name, fmt::format("is not a list of {} to {} tiles", least, most));
    for (std::size_t i = 0; i < list.size(); ++i) out[i] = tile(list[i], name, may_hide);
    return list.size();
  }
  std::array<std::int32_t, 4> points(const char* name) const {
    const Json& list = field(json_, name);
    if (!list.is_array() || list.size() != 4) fail(name, "is not a list of four numbers");
    std::array<std::int32_t, 4> values;
    for (std::size_t p = 0; p < 4; ++p)
      values[p] = static_cast<std::int32_t>(integer(list[p], name, -100'000'000, 100'000'000));
    return values;
  }

  Event read() const {
    if (!json_.is_object()) fail("event", "is not a JSON object");
    const Json& type = field(json_, "type");
    if (!type.is_string()) fail("type", "is not text");
    const auto& name = type.get_ref<const std::string&>();
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
  static std::string shorten(const Json& value) { return excerpt(value, 40); }

  void read_start(Event& event) const {
    const Json& wind = field(json_, "bakaze");
    const std::size_t at = wind.is_string() && wind.get_ref<const std::string&>().size() == 1
                               ? kWindNames.find(wind.get_ref<const std::string&>()[0])
                               : std::string_view::npos;
    if (at == std::string_view::npos)
      fail("bakaze", fmt::format("is {}, expected E, S, W or N", shorten(wind)));
    event.round = static_cast<std::uint8_t>(4 * at + static_cast<std::size_t>(integer("kyoku", 1, 4)) - 1);
    event.honba = static_cast<std::uint16_t>(integer("honba", 0, 1000));
    event.sticks = static_cast<std::uint16_t>(integer("kyotaku", 0, 1000));
    event.dealer = event.actor = seat("oya");
    event.tile = tile("dora_marker");
    event.has_scores = json_.contains("scores");
    if (event.has_scores) event.scores = points("scores");
    const Json& hands = field(json_, "tehais");
    if (!hands.is_array() || hands.size() != 4) fail("tehais", "is not a list of four hands");
    for (std::size_t p = 0; p < 4; ++p) tiles(hands[p], "tehais", event.hands[p].data(), 13, 13, true);
  }

  void read_end(Event& event) const {
    event.has_deltas = json_.contains("deltas");
    if (event.has_deltas) event.deltas = points("deltas");
    if (event.type == EventType::Hora) {
      event.actor = seat("actor");
      event.target = seat("target");
      if (json_.contains("pai")) event.tile = tile("pai");
      for (const char* name : {"ura_markers", "uradora_markers"})
        if (json_.contains(name))
          event.ura_count = static_cast<std::uint8_t>(tiles(name, event.ura.data(), 0, 5));
      return;
    }
    if (!json_.contains("reason") || !json_["reason"].is_string()) return;
    for (const auto& [reason, name] : kReasons)
      if (json_["reason"].get_ref<const std::string&>() == name) event.reason = reason;
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
        const Json& drawn = field(json_, "tsumogiri");
        if (!drawn.is_boolean()) fail("tsumogiri", "is neither true nor false");
        event.tsumogiri = drawn.get<bool>();
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

  const Json& json_;
  const std::string& source_;
};

Json parse_line(std::string_view line, const std::string& source) {
  // A line is one flat object; nesting deeper than any event would only exhaust the stack.
  int depth = 0;
  bool text = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (text && line[i] == '\\')
      ++i;
    else if (line[i] == '"')
      text = !text;
    else if (!text && (line[i] == '[' || line[i] == '{') && ++depth > 16)
      throw FormatError(source, static_cast<std::int64_t>(i), "JSON", "is nested more than 16 deep");
    else if (!text && (line[i] == ']' || line[i] == '}'))
      --depth;
  }
  return parse_json<Json>(line, source, "JSON");
}

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
  const Json json = parse_line(line, source);
  return Reader(json, source).read();
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
    const Json json = parse_line(line, place);
    const Event event = Reader(json, place).read();
    const auto fail = [&](const char* problem) {
      throw FormatError(place, -1, std::string(event_name(event.type)), problem);
    };
    if (event.type == EventType::StartGame) {
      if (json.contains("names") && json["names"].is_array() && json["names"].size() == 4)
        for (std::size_t p = 0; p < 4; ++p)
          if (json["names"][p].is_string()) log.names[p] = json["names"][p].get<std::string>();
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
