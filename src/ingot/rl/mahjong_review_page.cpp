#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/base/json.h"
#include "ingot/mahjong/policy.h"
#include "ingot/rl/mahjong_review.h"
#include "ingot/rl/review/assets.h"

namespace ingot {
namespace {

using Json = nlohmann::ordered_json;
using mahjong::EventType;
using mahjong::Seat;

// Flags of a river's tile in the page's data.
constexpr int kDrawn = 64, kRiichi = 128, kCalled = 256;

// Thousandths, which is what the page shows.
Json share(float value) { return std::round(static_cast<double>(value) * 1000) / 1000; }

template <class List>
Json shares(const List& values) {
  Json list = Json::array();
  for (const float value : values) list.push_back(share(value));
  return list;
}

Json melds_json(const Seat& seat) {
  Json melds = Json::array();
  for (const mahjong::Meld& meld : seat.meld_span()) {
    Json tiles = Json::array({meld.called});
    for (const mahjong::Tile tile : meld.consumed)
      if (tile != mahjong::kNoTile) tiles.push_back(tile);
    melds.push_back(std::move(tiles));
  }
  return melds;
}

Json rivers_json(const mahjong::PublicState& pub) {
  Json rivers = Json::array({Json::array(), Json::array(), Json::array(), Json::array()});
  for (std::size_t i = 0; i < pub.river_size; ++i) {
    const mahjong::RiverTile& one = pub.river[i];
    rivers[static_cast<std::size_t>(one.player())].push_back(one.tile() + (one.tsumogiri() ? kDrawn : 0) +
                                                             (one.riichi() ? kRiichi : 0) +
                                                             (one.called() ? kCalled : 0));
  }
  return rivers;
}

Json frame_json(const ReviewFrame& frame) {
  const mahjong::PublicState& pub = frame.table.pub;
  Json hands = Json::array(), melds = Json::array(), scores = Json::array();
  int riichi = 0;
  for (std::size_t p = 0; p < 4; ++p) {
    hands.push_back(frame.table.own[p].hand.tiles());
    melds.push_back(melds_json(pub.seats[p]));
    scores.push_back(pub.seats[p].score);
    if (pub.seats[p].riichi != mahjong::RiichiState::None) riichi |= 1 << p;
  }
  Json indicators = Json::array();
  for (const mahjong::Tile tile : pub.indicator_span()) indicators.push_back(tile);
  const mahjong::Tile drawn = frame.table.own[static_cast<std::size_t>(frame.player)].drawn;
  return {{"r", frame.round},
          {"p", frame.player},
          {"a", to_string(frame.action)},
          {"t", frame.action.tile == mahjong::kNoTile ? -1 : int{frame.action.tile}},
          {"d", drawn == mahjong::kNoTile ? -1 : int{drawn}},
          {"h", std::move(hands)},
          {"m", std::move(melds)},
          {"v", rivers_json(pub)},
          {"o", std::move(indicators)},
          {"s", std::move(scores)},
          {"q", pub.phase == mahjong::Phase::Reaction ? int{pub.actor} : -1},
          {"k", pub.sticks},
          {"l", pub.live_left},
          {"i", riichi},
          {"x", frame.decision}};
}

Json decision_json(const ReviewedDecision& d) {
  Json policy = Json::array();
  for (const auto& [action, probability] : d.policy)
    policy.push_back({mahjong::policy_name(action), share(probability), action});
  return {{"s", d.seat},
          {"r", d.round},
          {"f", d.frame},
          {"c", d.chosen},
          {"n", mahjong::policy_name(d.chosen)},
          {"p", std::move(policy)},
          {"v", std::lround(d.value)},
          {"w", shares(d.places)},
          {"t", shares(d.tenpai)},
          {"g", shares(d.danger)},
          {"e", d.agrees() ? Json(0) : share(static_cast<float>(d.cost()))}};
}

std::string result_text(const mahjong::Event& event, const std::array<std::string, 4>& names) {
  const auto name = [&](std::uint8_t seat) {
    return names[seat].empty() ? fmt::format("seat {}", seat) : names[seat];
  };
  if (event.type == EventType::Ryukyoku) return "draw";
  const std::string points = event.points > 0 ? fmt::format(" for {}", event.points) : "";
  if (event.actor == event.target) return fmt::format("{} wins by tsumo{}", name(event.actor), points);
  return fmt::format("{} wins on {}'s discard{}", name(event.actor), name(event.target), points);
}

Json round_json(const mahjong::LogRound& round, const std::array<std::string, 4>& names) {
  const mahjong::Event& start = round.events.front();
  std::string result;
  std::array<std::int32_t, 4> deltas{};
  for (const mahjong::Event& event : round.events) {
    if (event.type != EventType::Hora && event.type != EventType::Ryukyoku) continue;
    result += (result.empty() ? "" : "; ") + result_text(event, names);
    for (std::size_t p = 0; p < 4; ++p) deltas[p] += event.deltas[p];
  }
  constexpr std::array<const char*, 4> kWinds = {"East", "South", "West", "North"};
  std::string name = fmt::format("{} {}", kWinds[start.round / 4U % 4U], start.round % 4 + 1);
  if (start.honba > 0) name += fmt::format(", {} honba", start.honba);
  return {{"name", name}, {"dealer", start.dealer}, {"result", result}, {"deltas", deltas}};
}

void put(std::string& page, std::string_view mark, std::string_view text) {
  page.replace(page.find(mark), mark.size(), text);
}

// JSON inside <script>: a name with "</script>" in it must not end it.
std::string script_json(const Json& json) {
  std::string text;
  for (const char c : dump_json(json)) {
    if (c == '<')
      text += "\\u003c";
    else
      text += c;
  }
  return text;
}

}  // namespace

std::string review_page(const GameReview& review, int seat) {
  Json frames = Json::array(), decisions = Json::array(), rounds = Json::array();
  for (const ReviewFrame& frame : review.frames) frames.push_back(frame_json(frame));
  for (const ReviewedDecision& decision : review.decisions) decisions.push_back(decision_json(decision));
  for (const mahjong::LogRound& round : review.rounds) rounds.push_back(round_json(round, review.names));
  const Json data{{"source", review.source},
                  {"player", review.player},
                  {"names", review.names},
                  {"seat", seat},
                  {"rounds", std::move(rounds)},
                  {"frames", std::move(frames)},
                  {"decisions", std::move(decisions)}};
  std::string page(review_assets::page());
  put(page, "/*{{style}}*/", review_assets::style());
  put(page, "/*{{script}}*/", review_assets::script());
  put(page, "{\"data\":0}", script_json(data));
  return page;
}

}  // namespace ingot
