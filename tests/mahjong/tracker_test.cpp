#include "ingot/mahjong/tracker.h"

#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "ingot/mahjong/encoder.h"
#include "ingot/mahjong/log.h"

namespace ingot::mahjong {
namespace {

TEST(SeatTracker, KnowsFromTheEventsWhatTheTableWouldShow) {
  EncoderOptions options;
  options.context = true;
  std::vector<float> from_table(static_cast<std::size_t>(options.channels()) * kKinds),
      from_events(from_table.size());
  int compared = 0;
  for (const char* name : {"tenhou", "majsoul"}) {
    const Rules rules = Rules::named(name);
    for (std::uint64_t seed = 0; seed < 15; ++seed) {
      std::vector<SeatTracker> trackers;
      for (int p = 0; p < 4; ++p) trackers.emplace_back(rules, p);
      Events events;
      std::size_t told = 0;
      Table table = start_game(rules, seed_from_number(seed), 0, &events);
      ChaCha8 random(game_seed(table.session, 3));
      while (!table.over()) {
        for (; told < events.size(); ++told)  // through the text, so that hidden tiles cannot leak in
          for (int p = 0; p < 4; ++p)
            trackers[static_cast<std::size_t>(p)].on(parse_mjai(to_mjai(events[told], p)));
        if (table.pub.phase == Phase::RoundOver) {
          next_round(table, &events);
          continue;
        }
        for (int p = 0; p < 4; ++p) {
          if (table.pub.phase != Phase::Turn && (table.to_act() >> p & 1) == 0) continue;
          const SeatTracker& tracker = trackers[static_cast<std::size_t>(p)];
          const ActionList want = legal_actions(table, p), got = tracker.legal();
          ASSERT_EQ(got.size(), want.size()) << seed << " event " << told;
          for (const Action& action : want) ASSERT_TRUE(got.contains(action)) << to_string(action);
          encode(observe(table, p), from_table, options);
          encode(tracker.observation(), from_events, options);
          ASSERT_EQ(from_table, from_events) << seed << " event " << told;
          ++compared;
        }
        // Everyone asked answers before the next events are told.
        unsigned asked = table.to_act();
        for (int p = 0; p < 4; ++p)
          if ((asked >> p & 1) != 0 && (table.to_act() >> p & 1) != 0) {
            const ActionList mine = legal_actions(table, p);
            apply(table, p, mine[random.below(static_cast<std::uint32_t>(mine.size()))], &events);
          }
      }
    }
  }
  EXPECT_GT(compared, 20000);
}

TEST(MjaiClient, AnswersEveryEventWithALegalAction) {
  Events events;
  Table table = start_game(Rules::tenhou(), seed_from_number(6), 0, &events);
  std::ostringstream input;
  input << R"({"type":"start_game","id":0,"names":["a","b","c","d"]})" << '\n';
  for (std::size_t i = 1; i < events.size(); ++i) input << to_mjai(events[i], 0) << '\n';
  std::istringstream in(input.str());
  std::ostringstream out;
  run_mjai_client(in, out, Rules::tenhou(), player_named("tsumogiri"), 1);
  std::istringstream answers(out.str());
  std::string line, last;
  int count = 0;
  while (std::getline(answers, line)) {
    ++count;
    last = line;
  }
  EXPECT_EQ(count, static_cast<int>(events.size()));
  const Event answer = parse_mjai(last);
  EXPECT_EQ(answer.type, EventType::Dahai);
  EXPECT_TRUE(legal_actions(table, 0).contains(Action::discard(answer.tile, answer.tsumogiri)));
}

TEST(MjaiClient, AnswersTheLastOfSeveralEventsInAnArray) {
  Events events;
  Table table = start_game(Rules::tenhou(), seed_from_number(6), 0, &events);
  std::string input = "[{\"type\":\"start_game\",\"id\":0}]\n[";
  for (std::size_t i = 1; i < events.size(); ++i)
    input += (i > 1 ? "," : "") + to_mjai(events[i], 0) + (i + 1 == events.size() ? "]\n" : "");
  std::istringstream in(input + R"([{"type":"end_game"}])");
  std::ostringstream out;
  run_mjai_client(in, out, Rules::tenhou(), player_named("tsumogiri"), 1);
  std::istringstream answers(out.str());
  std::vector<std::string> lines;
  for (std::string line; std::getline(answers, line);) lines.push_back(line);
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_EQ(lines[0], R"({"type":"none"})");
  const Event answer = parse_mjai(lines[1]);
  EXPECT_TRUE(legal_actions(table, 0).contains(Action::discard(answer.tile, answer.tsumogiri)));
  EXPECT_EQ(lines[2], R"({"type":"none"})");
}

TEST(MjaiClient, RefusesWhatCannotBe) {
  std::ostringstream out;
  for (const char* lines :
       {"[]", "[{\"type\":\"start_game\",\"id\":1}", R"([{"type":"tsumo","actor":0,"pai":"1m"}])", "[3]",
        R"({"type":"tsumo","actor":0,"pai":"1m"})", "nonsense", R"({"type":"start_game","id":9})",
        "{\"type\":\"start_game\",\"id\":1}\n{\"type\":\"dahai\",\"actor\":0,\"pai\":\"1m\",\"tsumogiri\":"
        "true}"}) {
    std::istringstream in(lines);
    EXPECT_THROW(run_mjai_client(in, out, Rules::tenhou(), player_named("tsumogiri"), 1), FormatError)
        << lines;
  }
}

}  // namespace
}  // namespace ingot::mahjong
