#include <algorithm>
#include <cmath>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "ingot/base/json.h"
#include "ingot/mahjong/log.h"

// tenhou.net/6: each player's draws and discards are listed apart, calls are texts like "c275226" among the
// draws and kans of one's own among the discards. Who acts next follows from the calls; where a call fits
// more than one discard, the readings are tried until one uses every entry.
namespace ingot::mahjong {
namespace {

using nlohmann::json;

struct Entry {
  int number = 0;           // a tile, 60 for the drawn one, 0 for none
  char letter = 0;          // c p m a k r
  std::size_t at = 0;       // where the letter stands
  std::vector<Tile> tiles;  // the one after the letter first
};

class RoundReader {
 public:
  RoundReader(const json& round, const std::string& source) : round_(round), source_(source) {}

  LogRound read() {
    if (!round_.is_array() || round_.size() < 17) fail("log", "a round is not a list of 17 parts");
    const std::vector<int> where = numbers(round_[0], "round", 3, 3),
                           scores = numbers(round_[1], "scores", 4, 4);
    if (where[0] < 0 || where[0] > 15 || where[1] < 0 || where[1] > 1000 || where[2] < 0 || where[2] > 1000)
      fail("round", "has an impossible number, honba or sticks");
    start_.type = EventType::StartKyoku;
    start_.round = static_cast<std::uint8_t>(where[0]);
    start_.dealer = start_.actor = static_cast<std::uint8_t>(where[0] % 4);
    start_.honba = static_cast<std::uint16_t>(where[1]);
    start_.sticks = static_cast<std::uint16_t>(where[2]);
    for (std::size_t p = 0; p < 4; ++p) start_.scores[p] = scores[p];
    for (const int code : numbers(round_[2], "dora indicators", 1, 5)) indicators_.push_back(tile(code));
    for (const int code : numbers(round_[3], "ura indicators", 0, 5)) ura_.push_back(tile(code));
    start_.tile = indicators_[0];
    for (std::size_t p = 0; p < 4; ++p) {
      const std::vector<int> hand = numbers(round_[4 + 3 * p], "hand", 13, 13);
      for (std::size_t i = 0; i < 13; ++i) start_.hands[p][i] = tile(hand[i]);
      draws_[p] = entries(round_[5 + 3 * p], "draws");
      discards_[p] = entries(round_[6 + 3 * p], "discards");
    }
    find_order();
    add_result(round_[16]);
    events_.emplace_back().type = EventType::EndKyoku;
    return {std::move(events_), std::nullopt};
  }

 private:
  [[noreturn]] void fail(const std::string& field, const std::string& problem) const {
    throw FormatError(source_, -1, field, problem);
  }

  std::vector<int> numbers(const json& list, const char* name, std::size_t least, std::size_t most) const {
    if (!list.is_array() || list.size() < least || list.size() > most)
      fail(name, fmt::format("is not a list of {} to {} numbers", least, most));
    std::vector<int> values;
    for (const json& one : list) {
      if (!one.is_number() || !(std::abs(one.get<double>()) < 1e8))
        fail(name, "holds something that is not a number");
      values.push_back(static_cast<int>(one.get<double>()));
    }
    return values;
  }

  Tile tile(int code) const {
    const int suit = code / 10, number = code % 10;
    if (suit == 5 && number >= 1 && number <= 3) return red_five(number - 1);
    if (suit < 1 || suit > 4 || number < 1 || number > (suit == 4 ? 7 : 9))
      fail("tile", fmt::format("{} is not a tile of tenhou.net/6", code));
    return static_cast<Tile>(9 * (suit - 1) + number - 1);
  }

  std::vector<Entry> entries(const json& list, const char* name) const {
    if (!list.is_array() || list.size() > 100) fail(name, "is not a list of at most 100 entries");
    std::vector<Entry> all;
    for (const json& one : list) {
      Entry entry;
      if (one.is_number_integer())
        entry.number = static_cast<int>(std::min<std::int64_t>(one.get<std::int64_t>(), 1000));
      else if (one.is_string())
        entry = text_entry(one.get_ref<const std::string&>(), name);
      else
        fail(name, "has an entry that is neither a number nor a text");
      all.push_back(std::move(entry));
    }
    return all;
  }

  Entry text_entry(const std::string& text, const char* name) const {
    Entry entry;
    std::string digits;
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (text[i] >= '0' && text[i] <= '9') {
        digits += text[i];
      } else {
        if (entry.letter != 0) fail(name, fmt::format("\"{}\" has two letters", text.substr(0, 20)));
        entry.letter = text[i];
        entry.at = i;
      }
    }
    const bool known =
        std::string_view("cpmakr").find(entry.letter) != std::string_view::npos && entry.letter != 0;
    const std::size_t wanted = entry.letter == 'r' ? 2 : entry.letter == 'c' || entry.letter == 'p' ? 6 : 8;
    if (!known || digits.size() != wanted || entry.at % 2 != 0 || entry.at + 2 > wanted)
      fail(name, fmt::format("\"{}\" is not a call", text.substr(0, 20)));
    const auto number_at = [&](std::size_t i) { return 10 * (digits[i] - '0') + digits[i + 1] - '0'; };
    if (entry.letter == 'r') {
      entry.number = number_at(0);
      return entry;
    }
    entry.tiles.push_back(tile(number_at(entry.at)));
    for (std::size_t i = 0; i < wanted; i += 2)
      if (i != entry.at) entry.tiles.push_back(tile(number_at(i)));
    return entry;
  }

  // From whom a call among the draws of `caller` came: the letter's place shows it.
  static int source_of(const Entry& entry, int caller) {
    if (entry.letter == 'c' || entry.at == 0) return (caller + 3) % 4;
    return entry.at == 2 ? (caller + 2) % 4 : (caller + 1) % 4;
  }

  void find_order() {
    std::vector<bool> choices;  // per place where a call is possible: take it?
    for (int attempt = 0; attempt < 4096; ++attempt) {
      if (try_order(choices)) return;
      while (!choices.empty() && !choices.back()) choices.pop_back();
      if (choices.empty()) break;
      choices.back() = false;
    }
    fail("log", fmt::format("round {} honba {}: the draws and discards fit in no order", start_.round,
                            start_.honba));
  }

  Event& add(EventType type, int actor) {
    Event& event = events_.emplace_back();
    event.type = type;
    event.actor = static_cast<std::uint8_t>(actor);
    return event;
  }
  bool reveal(int count) {
    for (; count > 0; --count) {
      if (shown_ == indicators_.size()) return false;
      add(EventType::Dora, 0).tile = indicators_[shown_++];
    }
    return true;
  }
  void accept_riichi() {
    if (riichi_ >= 0) add(EventType::ReachAccepted, riichi_);
    riichi_ = -1;
  }

  bool try_order(std::vector<bool>& choices);
  bool play_discard(int player, const Entry& entry);
  int find_caller(int player, std::vector<bool>& choices, std::size_t& decision) const;
  void add_result(const json& result);
  void add_wins(const json& result);

  const json& round_;
  const std::string& source_;
  Event start_;
  std::vector<Tile> indicators_, ura_;
  std::array<std::vector<Entry>, 4> draws_, discards_;

  Events events_;
  std::array<std::size_t, 4> drawn_{}, thrown_{};
  std::size_t shown_ = 1;
  int pending_ = 0, riichi_ = -1, last_player_ = 0;
  unsigned riichi_players_ = 0;
  Tile in_hand_ = kNoTile, last_tile_ = kNoTile;
};

int RoundReader::find_caller(int player, std::vector<bool>& choices, std::size_t& decision) const {
  int caller = -1;
  for (int q = 0; q < 4; ++q) {
    const auto seat = static_cast<std::size_t>(q);
    if (q == player || drawn_[seat] == draws_[seat].size()) continue;
    const Entry& next = draws_[seat][drawn_[seat]];
    if (next.letter == 0 || source_of(next, q) != player || next.tiles[0] != last_tile_) continue;
    if (caller < 0 || next.letter != 'c') caller = q;
  }
  if (caller < 0) return -1;
  if (decision == choices.size()) choices.push_back(true);
  return choices[decision++] ? caller : -1;
}

bool RoundReader::play_discard(int player, const Entry& entry) {
  if (entry.letter == 'r') {
    add(EventType::Reach, player);
    riichi_ = player;
    riichi_players_ |= 1U << player;
  }
  const bool tsumogiri = entry.number == 60;
  if (tsumogiri && in_hand_ == kNoTile) return false;
  if (!reveal(pending_)) return false;
  pending_ = 0;
  Event& event = add(EventType::Dahai, player);
  event.tile = last_tile_ = tsumogiri ? in_hand_ : tile(entry.number);
  event.tsumogiri = tsumogiri;
  in_hand_ = kNoTile;
  return true;
}

bool RoundReader::try_order(std::vector<bool>& choices) {
  events_.assign(1, start_);
  drawn_ = thrown_ = {};
  shown_ = 1;
  pending_ = 0;
  riichi_ = -1;
  riichi_players_ = 0;
  std::size_t decision = 0;
  int player = start_.dealer;
  bool draws = true;
  char kan = 0;
  while (true) {
    auto& drawn = drawn_[static_cast<std::size_t>(player)];
    auto& thrown = thrown_[static_cast<std::size_t>(player)];
    const auto& draw_list = draws_[static_cast<std::size_t>(player)];
    const auto& discard_list = discards_[static_cast<std::size_t>(player)];
    last_player_ = player;
    if (draws) {
      if (drawn == draw_list.size()) break;
      if (draw_list[drawn].letter != 0) return false;
      if (kan != 0) {
        if (!reveal(pending_ + (kan == 'a'))) return false;
        pending_ = kan == 'a' ? 0 : 1;
        kan = 0;
      }
      accept_riichi();
      Event& event = add(EventType::Tsumo, player);
      event.tile = in_hand_ = tile(draw_list[drawn++].number);
    }
    if (thrown == discard_list.size()) break;
    const Entry& entry = discard_list[thrown++];
    draws = true;
    if (entry.letter == 'a' || entry.letter == 'k') {
      Event& event = add(entry.letter == 'a' ? EventType::Ankan : EventType::Kakan, player);
      std::copy(entry.tiles.begin() + (entry.letter == 'k'), entry.tiles.end(), event.consumed.begin());
      if (entry.letter == 'k') event.tile = entry.tiles[0];
      kan = entry.letter;
      continue;
    }
    if ((entry.letter != 0 && entry.letter != 'r') || !play_discard(player, entry)) return false;
    const int caller = find_caller(player, choices, decision);
    if (caller < 0) {
      player = (player + 1) % 4;
      continue;
    }
    accept_riichi();
    const auto seat = static_cast<std::size_t>(caller);
    const Entry& call = draws_[seat][drawn_[seat]++];
    Event& event = add(call.letter == 'c'   ? EventType::Chi
                       : call.letter == 'p' ? EventType::Pon
                                            : EventType::Daiminkan,
                       caller);
    event.target = static_cast<std::uint8_t>(player);
    event.tile = call.tiles[0];
    std::copy(call.tiles.begin() + 1, call.tiles.end(), event.consumed.begin());
    player = caller;
    draws = call.letter == 'm';
    in_hand_ = kNoTile;
    if (!draws) continue;
    kan = 'm';
    if (thrown_[seat] == discards_[seat].size() || discards_[seat][thrown_[seat]].number != 0) return false;
    ++thrown_[seat];  // a zero stands for the discard that a kan takes the place of
  }
  for (std::size_t p = 0; p < 4; ++p)
    if (drawn_[p] != draws_[p].size() || thrown_[p] != discards_[p].size()) return false;
  return true;
}

// The yaku's names in the order of enum Yaku, as Tenhou writes them.
constexpr std::string_view kYakuNames[] = {
    "門前清自摸和", "立直",    "一発",       "槍槓",     "嶺上開花",     "海底摸月",   "河底撈魚",
    "平和",         "断幺九",  "一盃口",     "自風 東",  "自風 南",      "自風 西",    "自風 北",
    "場風 東",      "場風 南", "場風 西",    "場風 北",  "役牌 白",      "役牌 發",    "役牌 中",
    "両立直",       "七対子",  "混全帯幺九", "一気通貫", "三色同順",     "三色同刻",   "三槓子",
    "対々和",       "三暗刻",  "小三元",     "混老頭",   "二盃口",       "純全帯幺九", "混一色",
    "清一色",       "人和",    "天和",       "地和",     "大三元",       "四暗刻",     "四暗刻単騎",
    "字一色",       "緑一色",  "清老頭",     "九蓮宝燈", "純正九蓮宝燈", "国士無双",   "国士無双１３面",
    "大四喜",       "小四喜",  "四槓子",     "ドラ",     "裏ドラ",       "赤ドラ"};
static_assert(std::size(kYakuNames) == static_cast<std::size_t>(Yaku::kCount));

// The number that ends right before `at`, or -1.
int number_before(std::string_view text, std::size_t at) {
  std::size_t first = at;
  while (first > 0 && text[first - 1] >= '0' && text[first - 1] <= '9') --first;
  if (first == at || at - first > 6) return -1;
  return std::stoi(std::string(text.substr(first, at - first)));
}

// "30符2飜2000点", "満貫2000-4000点", "跳満6000点∀": fu where they are told, and the points of all payers.
void read_value(std::string_view text, Event& event) {
  event.win.fu = kUnknownFu;
  if (const std::size_t fu = text.find("符"); fu != std::string_view::npos)
    if (const int value = number_before(text, fu); value >= 0 && value < kUnknownFu)
      event.win.fu = static_cast<std::uint8_t>(value);
  const std::size_t end = text.find("点");
  if (end == std::string_view::npos) return;
  const int last = number_before(text, end);
  if (last < 0) return;
  const std::size_t dash = text.find('-');
  const int other = dash == std::string_view::npos ? -1 : number_before(text, dash);
  const bool from_all = text.substr(end) == "点∀";
  event.points = from_all ? 3 * last : other >= 0 ? 2 * other + last : last;
}

// "立直(1飜)", "四槓子(役満)". Names in another language leave the yaku unsaid, and so unchecked.
void read_yaku(const json& info, std::size_t first, WinScore& win) {
  WinScore told;
  int han = 0;
  for (std::size_t i = first; i < info.size(); ++i) {
    if (!info[i].is_string()) return;
    const std::string_view text = info[i].get_ref<const std::string&>();
    const std::size_t open = text.rfind('('), unit = text.rfind("飜)");
    const auto* const name = std::find(std::begin(kYakuNames), std::end(kYakuNames), text.substr(0, open));
    if (open == std::string_view::npos || name == std::end(kYakuNames)) return;
    const bool yakuman = text.substr(open) == "(役満)";
    const int worth = yakuman ? 13 : unit == std::string_view::npos ? -1 : number_before(text, unit);
    if (worth < 0 || worth > 13) return;
    told.yakuman = static_cast<std::uint8_t>(told.yakuman + yakuman);
    han += worth;
    if (worth > 0) told.yaku |= std::uint64_t{1} << (name - std::begin(kYakuNames));
  }
  if (told.yaku == 0 || han > 255) return;
  win.yaku = told.yaku;
  win.yakuman = told.yakuman;
  win.han = static_cast<std::uint8_t>(han);
}

void RoundReader::add_wins(const json& result) {
  for (std::size_t i = 1; i + 1 < result.size(); i += 2) {
    const std::vector<int> deltas = numbers(result[i], "result", 4, 4);
    const json& info = result[i + 1];
    if (!info.is_array() || info.size() < 2 || !info[0].is_number_integer() || !info[1].is_number_integer())
      fail("result", "does not say who won from whom");
    const auto who = info[0].get<std::int64_t>(), from = info[1].get<std::int64_t>();
    if (who < 0 || who > 3 || from < 0 || from > 3) fail("result", "names a seat that is none");
    if (i == 1 && who == from) accept_riichi();
    Event& event = add(EventType::Hora, static_cast<int>(who));
    event.target = static_cast<std::uint8_t>(from);
    event.has_deltas = true;
    for (std::size_t p = 0; p < 4; ++p) event.deltas[p] = deltas[p];
    if (info.size() > 3 && info[3].is_string()) {
      read_value(info[3].get_ref<const std::string&>(), event);
      read_yaku(info, 4, event.win);
    }
    if ((riichi_players_ >> who & 1) == 0) continue;
    event.ura_count = static_cast<std::uint8_t>(ura_.size());
    std::copy(ura_.begin(), ura_.end(), event.ura.begin());
  }
}

void RoundReader::add_result(const json& result) {
  if (!result.is_array() || result.empty() || !result[0].is_string())
    fail("result", "is not a list that starts with a name");
  const auto& name = result[0].get_ref<const std::string&>();
  for (const std::string_view win : {"和了", "Agari", "Hora", "Ron", "Tsumo", "Win"}) {
    if (name == win) return add_wins(result);
  }
  constexpr std::pair<std::string_view, DrawReason> reasons[] = {
      {"流局", DrawReason::Exhausted},
      {"全員聴牌", DrawReason::Exhausted},
      {"全員不聴", DrawReason::Exhausted},
      {"流し満貫", DrawReason::NagashiMangan},
      {"九種九牌", DrawReason::NineOrphans},
      {"四風連打", DrawReason::FourWinds},
      {"四家立直", DrawReason::FourRiichi},
      {"四開槓", DrawReason::FourKans},
      {"四槓散了", DrawReason::FourKans},
      {"三家和了", DrawReason::TripleRon},
      {"三家和", DrawReason::TripleRon},
      // As converters of Mahjong Soul's games write them in English.
      {"Ryuukyoku", DrawReason::Exhausted},
      {"Ryukyoku", DrawReason::Exhausted},
      {"Exhaustive Draw", DrawReason::Exhausted},
      {"Nagashi Mangan", DrawReason::NagashiMangan},
      {"Mangan at Draw", DrawReason::NagashiMangan},
      {"Nine Terminal Abortion", DrawReason::NineOrphans},
      {"Four Wind Abortion", DrawReason::FourWinds},
      {"Four Riichi Abortion", DrawReason::FourRiichi},
      {"Four Kan Abortion", DrawReason::FourKans},
      {"Three Ron Abortion", DrawReason::TripleRon}};
  for (const auto& [text, reason] : reasons) {
    if (text != name) continue;
    if (reason != DrawReason::TripleRon) accept_riichi();
    Event& event = add(EventType::Ryukyoku, 0);
    event.reason = reason;
    event.has_deltas = result.size() > 1;
    if (!event.has_deltas) return;
    const std::vector<int> deltas = numbers(result[1], "result", 4, 4);
    for (std::size_t p = 0; p < 4; ++p) event.deltas[p] = deltas[p];
    return;
  }
  fail("result", fmt::format("\"{}\" is unknown", name.substr(0, 40)));
}

// The name of the room that a game was played in, empty if it is not said.
std::string room_of(const json& document) {
  const auto rule = document.find("rule");
  if (rule == document.end() || !rule->is_object()) return {};
  const auto shown = rule->find("disp");
  return shown != rule->end() && shown->is_string() ? shown->get<std::string>() : std::string();
}
// Tenhou's own rooms are named by signs, like 鳳南喰赤: the room, the length, open tanyao, red fives.
bool is_tenhou_room(const json& document) {
  const std::string room = room_of(document);
  for (const char* name : {"般", "上", "特", "鳳"})
    if (room.starts_with(name)) return true;
  return false;
}

// Mahjong Soul's, as those who convert its games write them: "Jade Room South", "玉の間南".
bool is_majsoul_room(const json& document) {
  const std::string room = room_of(document);
  for (const char* name :
       {"Bronze Room", "Silver Room", "Gold Room", "Jade Room", "Throne Room", "銅の間", "銀の間", "金の間",
        "玉の間", "王座の間", "铜之间", "银之间", "金之间", "玉之间", "王座之间"})
    if (room.find(name) != std::string::npos) return true;
  return false;
}

void read_rules(const json& document, Rules& rules) {
  const auto rule = document.find("rule");
  if (rule == document.end() || !rule->is_object()) return;
  const auto is_set = [&](const char* key) {
    const auto found = rule->find(key);
    return found != rule->end() &&
           ((found->is_number() && found->get<double>() > 0) ||
            (found->is_string() && *found != "0" && !found->get_ref<const std::string&>().empty()));
  };
  const bool all = is_set("aka");
  rules.red_fives = {all || is_set("aka51"), all || is_set("aka52"), all || is_set("aka53")};
  const std::string room = room_of(document);
  if (room.find("東") != std::string::npos || room.find("East") != std::string::npos)
    rules.length = GameLength::East;
  if (is_tenhou_room(document)) rules.open_tanyao = room.find("喰") != std::string::npos;
}

// A rule without "aka" means none, which hands that hold some belie.
void check_red_fives(const json& round, const Rules& rules, const std::string& source) {
  constexpr std::size_t kFirstHand = 4, kEnd = 16;
  if (!round.is_array()) return;
  for (std::size_t i = kFirstHand; i < std::min(kEnd, round.size()); ++i) {
    if (!round[i].is_array()) continue;
    for (const json& tile : round[i]) {
      if (!tile.is_number_integer()) continue;
      const auto number = tile.get<std::int64_t>();
      if (number < 51 || number > 53) continue;
      const std::int64_t suit = number - 51;
      if (rules.red_fives.at(static_cast<std::size_t>(suit)) > 0) continue;
      throw FormatError(
          source, -1, "rule.aka",
          fmt::format("is missing or 0, but player {} has a red five ({}); write \"aka\": 1, or "
                      "\"aka51\", \"aka52\", \"aka53\" for each suit",
                      (i - kFirstHand) / 3, number));
    }
  }
}

// One document, or one per line (a round each): then the first with the rounds of all.
json parse_documents(std::string_view text, const std::string& source) {
  json first = parse_json_or_discard<json>(text);
  if (!first.is_discarded()) return first;
  std::string problem;
  int line = 0;
  for (std::size_t at = 0; at < text.size() && problem.empty(); ++line) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view one = text.substr(at, end - at);
    at = end + 1;
    if (one.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    json document = parse_json<json>(one, fmt::format("{}:{}", source, line + 1), "JSON");
    if (line == 0) {
      first = std::move(document);
      continue;
    }
    if (!first.is_object() || !document.is_object() || !first["log"].is_array() ||
        !document["log"].is_array())
      problem = "has no \"log\"";
    else
      for (json& round : document["log"]) first["log"].push_back(std::move(round));
  }
  if (!problem.empty()) throw FormatError(fmt::format("{}:{}", source, line), -1, "JSON", problem);
  return first;
}

}  // namespace

GameLog read_tenhou_json(std::string_view text, const std::string& source, const Rules& otherwise) {
  json document = parse_documents(text, source);
  GameLog log;
  log.source = source;
  if (!document.is_object() || !document.contains("log") || !document["log"].is_array())
    throw FormatError(source, -1, "log", "is missing; expected the JSON of tenhou.net/6");
  if (room_of(document).find("三") != std::string::npos)
    throw FormatError(source, -1, "rule",
                      fmt::format("\"{}\" is a three-player game; only four-player games "
                                  "can be read",
                                  room_of(document)));
  if (is_majsoul_room(document)) {
    log.rules = Rules::majsoul();
  } else if (!is_tenhou_room(document)) {
    log.rules = otherwise;
  }
  read_rules(document, log.rules);
  if (const auto names = document.find("name");
      names != document.end() && names->is_array() && names->size() == 4)
    for (std::size_t p = 0; p < 4; ++p)
      if ((*names)[p].is_string()) log.names[p] = (*names)[p].get<std::string>();
  const auto rule = document.find("rule");
  const bool told = rule != document.end() && rule->is_object();
  for (const json& round : document["log"]) {
    if (told) check_red_fives(round, log.rules, source);
  }
  for (const json& round : document["log"]) log.rounds.push_back(RoundReader(round, source).read());
  if (log.rounds.empty()) throw FormatError(source, -1, "log", "has no rounds");
  if (const auto sc = document.find("sc"); sc != document.end() && sc->is_array() && sc->size() == 8) {
    std::array<double, 8> numbers{};
    for (std::size_t i = 0; i < 8; ++i) {
      if ((*sc)[i].is_number()) numbers[i] = (*sc)[i].get<double>();
      if (!(*sc)[i].is_number() || !(std::abs(numbers[i]) < 1e8))
        throw FormatError(source, -1, "sc", "is not a list of four scores, each with its result");
    }
    std::array<std::int32_t, 4> scores;
    std::array<double, 4> points;
    for (std::size_t p = 0; p < 4; ++p) {
      scores[p] = static_cast<std::int32_t>(numbers[2 * p]);
      points[p] = numbers[2 * p + 1];
    }
    log.complete = true;
    log.end_with(scores, points);
    if (!is_tenhou_room(document)) log.final_points.reset();
  }
  return log;
}

}  // namespace ingot::mahjong
