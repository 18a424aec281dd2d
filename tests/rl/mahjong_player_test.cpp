#include "ingot/rl/mahjong_player.h"

#include <cmath>
#include <sstream>

#include "tests/mahjong/games.h"
#include "tests/support/temporary_directory.h"
#include <gtest/gtest.h>

#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/base/parallel.h"
#include "ingot/mahjong/tracker.h"

namespace ingot {
namespace {

using mahjong::Action;
using mahjong::ActionList;
using mahjong::Table;
using test::message_of;

void expect_in(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << text;
}

// The directory of a network that knows nothing.
class NetworkPlayerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    save({.input_channels = 96, .channels = 8, .blocks = 1, .norm_groups = 4, .se_reduction = 4});
  }
  void save(const DualPoolNetConfig& config) {
    InitSource source(2);
    DualPoolNet net(source, config);
    save_dual_pool_net(path(), net);
  }
  std::string path() const { return directory_.at("net"); }
  test::TemporaryDirectory directory_;
};

TEST_F(NetworkPlayerTest, PlaysInAnArenaWithAndWithoutTemperature) {
  mahjong::ArenaOptions options;
  options.walls = 3;
  options.rules.length = mahjong::GameLength::SingleRound;
  const mahjong::Entrant rest = entrant_named("tsumogiri");
  const auto score = [&](const std::string& settings) {
    const auto network = entrant_named("model:" + path() + settings);
    return run_arena({network, rest, rest, rest}, options).entrants[0].score.mean;
  };
  EXPECT_EQ(score(""), score(",temperature=0"));
  EXPECT_EQ(score(",temperature=1"), score(",device=cpu,temperature=1"));
  const double one_thread = [&] {
    const int before = num_threads();
    set_num_threads(1);
    const double found = score(",temperature=1");
    set_num_threads(before);
    return found;
  }();
  EXPECT_EQ(one_thread, score(",temperature=1"));
}

TEST_F(NetworkPlayerTest, NamesAndNetworksThatCannotPlayAreRefusedByName) {
  const auto refused = [](const std::string& name) {
    return message_of<Error>([&] { entrant_named(name); });
  };
  expect_in(refused("model:"), "model: names no directory; write model:DIR");
  expect_in(refused("model:" + path() + ",temperature=hot"), "temperature: is 'hot'");
  expect_in(refused("model:" + path() + ",heat=1"), "'heat' in model:");
  expect_in(refused("model:" + directory_.at("none")), "is not a model directory");
  expect_in(refused("genius"), "model:DIR");
  save({.input_channels = 96, .channels = 8, .blocks = 1, .norm_groups = 4, .se_reduction = 4, .actions = 5});
  expect_in(refused("model:" + path()), "actions: is 5 in");
}

TEST_F(NetworkPlayerTest, APolicyThatIsNotANumberIsNamed) {
  const auto net = open_dual_pool_net(path());
  net->policy_conv.bias.value.data<float>()[0] = NAN;
  save_dual_pool_net(path(), *net);
  mahjong::ArenaOptions options;
  options.walls = 1;
  const auto network = entrant_named("model:" + path());
  expect_in(message_of<NonFinite>([&] {
              run_arena({network, network, network, network}, options);
            }),
            "the policy");
}

// The other side of an mjai connection: a table whose seat 1 is the client, the others simple players. It
// plays on whenever the client asks for the next line.
class MjaiServer : public std::streambuf {
 public:
  explicit MjaiServer(std::ostringstream& answers) : answers_(answers) {
    mahjong::Rules rules;
    rules.length = mahjong::GameLength::East;
    table_ = start_game(rules, mahjong::seed_from_number(8), 0, &events_);
  }
  int decisions() const { return decisions_; }
  const Table& table() const { return table_; }

 protected:
  int underflow() override {
    while (sent_ == events_.size()) {
      if (table_.over()) return traits_type::eof();
      if (table_.pub.phase == mahjong::Phase::RoundOver)
        next_round(table_, &events_);
      else
        act();
    }
    const mahjong::Event& event = events_[sent_++];
    line_ = event.type == mahjong::EventType::StartGame ? R"({"type":"start_game","id":1})"
                                                        : to_mjai(event, kSeat);
    line_ += "\n";
    setg(line_.data(), line_.data(), line_.data() + line_.size());
    return traits_type::to_int_type(line_[0]);
  }

 private:
  static constexpr int kSeat = 1;

  void act() {
    const unsigned asked = table_.to_act();
    std::array<Action, 4> chosen{};
    for (int seat = 0; seat < 4; ++seat)
      if ((asked >> seat & 1) != 0) chosen[static_cast<std::size_t>(seat)] = choose(seat);
    for (int seat = 0; seat < 4; ++seat)
      if ((asked >> seat & 1) != 0) apply(table_, seat, chosen[static_cast<std::size_t>(seat)], &events_);
  }
  Action choose(int seat) {
    const ActionList legal = legal_actions(table_, seat);
    const mahjong::Observation observation = observe(table_, seat);
    if (seat != kSeat) return mahjong::SimplePlayer().select(observation, legal);
    ++decisions_;
    std::string answer = answers_.str();
    answer = answer.substr(0, answer.size() - 1);
    answer = answer.substr(answer.rfind('\n') + 1);
    for (const Action& action : legal)
      if (to_mjai(action, observation) == answer) return action;
    ADD_FAILURE() << "not a legal action: " << answer;
    return legal[0];
  }

  std::ostringstream& answers_;
  mahjong::Events events_;
  Table table_{};
  std::size_t sent_ = 0;
  std::string line_;
  int decisions_ = 0;
};

TEST_F(NetworkPlayerTest, PlaysAWholeGameOverMjai) {
  std::ostringstream answers;
  MjaiServer server(answers);
  std::istream in(&server);
  mahjong::Rules rules;
  rules.length = mahjong::GameLength::East;
  run_mjai_client(in, answers, rules, mahjong_player("model:" + path() + ",temperature=1"), 5);
  EXPECT_TRUE(server.table().over());
  EXPECT_GT(server.decisions(), 40);
}

}  // namespace
}  // namespace ingot
