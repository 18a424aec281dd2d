#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <future>

#include "tests/cli/process.h"
#include "tests/support/temporary_directory.h"
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sys/socket.h>
#include <termios.h>
#include <unistd.h>

#include "ingot/base/files.h"
#include "ingot/base/json.h"

namespace ingot::testing {
namespace {

nlohmann::json json_of(const Outcome& outcome) {
  EXPECT_TRUE(outcome.errors.empty()) << outcome.errors;
  return parse_json<nlohmann::json>(outcome.output, "the test");
}

void save_game(const std::string& path) {
  const Outcome played =
      run_ingot({"mahjong", "play", "--player", "rule-based", "--length", "round", "--save", path});
  EXPECT_EQ(played.exit_code, 0) << played.errors;
}

TEST(MahjongCommand, ASignalThatEndsWatchingGivesTheTerminalBack) {
  for (const int signal : {SIGTERM, SIGHUP, SIGSEGV}) {
    bool sent = false, keys_taken = false;
    termios after{};
    const Outcome outcome = run_ingot_on_terminal(
        {"mahjong", "play", "--watch", "--step"}, [&](const std::string& output, pid_t child, int terminal) {
          tcgetattr(terminal, &after);
          if (child == 0 || sent || output.find("\x1b[?25l") == std::string::npos) return;
          keys_taken = (after.c_lflag & (ICANON | ECHO | ISIG)) == 0;
          sent = ::kill(child, signal) == 0;
        });
    EXPECT_TRUE(keys_taken);
    EXPECT_EQ(outcome.exit_code, 128 + signal);
    constexpr tcflag_t kUsual = ICANON | ECHO | ISIG;
    EXPECT_EQ(after.c_lflag & kUsual, kUsual) << "signal " << signal;
    EXPECT_NE(outcome.output.find("\x1b[?25h\x1b[?7h\x1b[?1049l"), std::string::npos) << "signal " << signal;
  }
}

TEST(MahjongCommand, ShantenAsJsonNamesTheDiscardsAndWhatTheyAccept) {
  const auto json = json_of(run_ingot({"mahjong", "shanten", "123m456p789s11223z", "--json"}));
  EXPECT_EQ(json["shanten"], 0);
  EXPECT_EQ(json["seven_pairs"], 4);
  ASSERT_EQ(json["accepts"].size(), 1U);
  EXPECT_EQ(json["accepts"][0]["discard"], "W");
  EXPECT_EQ(json["accepts"][0]["tiles"], 4);
  EXPECT_EQ(json["accepts"][0]["kinds"], (nlohmann::json{"E", "S"}));
  const auto called = json_of(run_ingot({"mahjong", "shanten", "23m99p", "--json"}));
  EXPECT_EQ(called["accepts"],
            parse_json<nlohmann::json>(R"([{"tiles": 8, "kinds": ["1m", "4m"]}])", "the test"));
  EXPECT_FALSE(called.contains("seven_pairs")) << "a hand with melds has no seven pairs";
}

TEST(MahjongCommand, TheCircumstancesOfAWinAreOptionsOfScore) {
  const auto yaku = [](std::vector<std::string> options) {
    options.insert(options.begin(), {"mahjong", "score", "234m456p678s33399p", "--win", "2m", "--json"});
    return json_of(run_ingot(options))["yaku"].get<std::vector<std::string>>();
  };
  const auto has = [](const std::vector<std::string>& names, const char* name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  EXPECT_TRUE(has(yaku({"--double-riichi", "--ippatsu"}), "double riichi"));
  EXPECT_TRUE(has(yaku({"--last-tile", "--tsumo"}), "haitei"));
  EXPECT_TRUE(has(yaku({"--last-tile"}), "houtei"));
  const auto after_kan = json_of(run_ingot({"mahjong", "score", "234m678s33399p", "--win", "2m", "--meld",
                                            "-1111z", "--rinshan", "--tsumo", "--json"}));
  EXPECT_TRUE(has(after_kan["yaku"].get<std::vector<std::string>>(), "rinshan kaihou"));
  EXPECT_TRUE(has(yaku({"--chankan"}), "chankan"));
  EXPECT_TRUE(has(yaku({"--first-turn", "--tsumo"}), "tenhou"));
  EXPECT_TRUE(has(yaku({"--first-turn", "--tsumo", "--seat-wind", "2"}), "chiihou"));
  EXPECT_EQ(run_ingot({"mahjong", "score", "234m456p678s33399p", "--win", "2m", "--rinshan"}).exit_code, 1);
  const auto ura = [](const char* circumstance) {
    return run_ingot({"mahjong", "score", "234m456p678s33399p", "--win", "2m", "--ura", "1z", circumstance});
  };
  EXPECT_NE(ura("--tsumo").errors.find("after riichi"), std::string::npos);
  EXPECT_NE(ura("--riichi").errors.find("give --dora, too"), std::string::npos);
}

TEST(MahjongCommand, AWinThatCannotBeIsRefusedInOneLine) {
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"223344m567p34588s", "--win", "2m", "--chankan"},
        {"234m567p345678s11z", "--win", "2m", "--rinshan", "--tsumo"}}) {
    std::vector<std::string> command{"mahjong", "score"};
    command.insert(command.end(), words.begin(), words.end());
    const Outcome outcome = run_ingot(command);
    EXPECT_EQ(outcome.exit_code, 1) << words[0] << outcome.output;
    EXPECT_EQ(std::ranges::count(outcome.errors, '\n'), 1) << outcome.errors;
  }
}

TEST(MahjongCommand, ASavedGameValidatesAndAnEditedOneIsNamedInJson) {
  const test::TemporaryDirectory folder;
  const std::string good = folder.at("good.mjai"), bad = folder.at("bad.mjai");
  save_game(good);
  std::ifstream in(good);
  std::ofstream out(bad);
  for (std::string line; std::getline(in, line);)
    if (line.find("\"dahai\"") == std::string::npos) out << line << '\n';
  out.close();
  const Outcome outcome = run_ingot({"mahjong", "validate", "--length", "round", good, bad, "--json"});
  EXPECT_EQ(outcome.exit_code, 1);
  const auto json = json_of(outcome);
  EXPECT_EQ(json["logs"], 2);
  EXPECT_EQ(json["exact"], 1);
  EXPECT_EQ(json["rounds"], 1);
  ASSERT_EQ(json["refused"].size(), 1U);
  EXPECT_EQ(json["refused"][0]["file"], bad);
  EXPECT_NE(json["refused"][0]["message"].get<std::string>().find("event"), std::string::npos);
  EXPECT_EQ(run_ingot({"mahjong", "validate", "--length", "round", good}).exit_code, 0);
}

TEST(MahjongCommand, ALogMayComeFromStandardInput) {
  const test::TemporaryDirectory folder;
  save_game(folder.at("game.mjai"));
  const std::string log = read_file(folder.at("game.mjai"));
  for (const char* command : {"replay", "validate"}) {
    const Outcome piped = run_ingot_with_input({"mahjong", command, "--length", "round", "-"}, log);
    EXPECT_EQ(piped.exit_code, 0) << piped.errors;
    EXPECT_EQ(piped.output,
              run_ingot({"mahjong", command, "--length", "round", folder.at("game.mjai")}).output);
  }
  EXPECT_NE(run_ingot_with_input({"mahjong", "replay", "-"}, "nothing").errors.find("standard input"),
            std::string::npos);
}

TEST(MahjongCommand, WatchingOnATerminalDrawsInPlaceAndGivesTheTerminalBack) {
  const Outcome outcome = run_ingot_on_terminal(
      {"mahjong", "play", "--watch", "--delay", "0", "--length", "round", "--seed", "3"});
  EXPECT_EQ(outcome.exit_code, 0);
  const std::size_t enter = outcome.output.find("\x1b[?1049h"), leave = outcome.output.find("\x1b[?1049l");
  ASSERT_NE(enter, std::string::npos);
  ASSERT_NE(leave, std::string::npos);
  EXPECT_GT(outcome.output.find("space pause"), enter);
  EXPECT_NE(outcome.output.find("\x1b[?25h"), std::string::npos) << "the cursor stays hidden";
  EXPECT_GT(outcome.output.find("player 0: place"), leave) << "the result stays on the screen";
}

TEST(MahjongCommand, WatchingThroughAPipeIsPlainText) {
  const Outcome outcome = run_ingot({"mahjong", "play", "--watch", "--length", "round"});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.output.find('\x1b'), std::string::npos);
  EXPECT_NE(outcome.output.find("dora indicators"), std::string::npos);
  const test::TemporaryDirectory folder;
  const std::string path = folder.at("watched.mjai");
  save_game(path);
  const Outcome replayed = run_ingot({"mahjong", "replay", "--watch", "--length", "round", path});
  EXPECT_EQ(replayed.exit_code, 0) << replayed.errors;
  EXPECT_NE(replayed.output.find("player 0: discard"), std::string::npos);
}

TEST(MahjongCommand, ADatasetIsMadeAndCountedAndACorruptLogInItNamed) {
  const test::TemporaryDirectory directory;
  const std::string games = directory.at("games");
  const Outcome made =
      run_ingot({"mahjong", "dataset", "generate", "--games", "2", "--length", "round", "-o", games});
  EXPECT_EQ(made.exit_code, 0) << made.errors;
  std::ofstream(games + "/broken.json") << "{\"type\":\"start_game\"}\n{";
  const auto stats =
      json_of(run_ingot({"mahjong", "dataset", "stats", games, "--length", "round", "--json"}));
  EXPECT_EQ(stats["games"], 2);
  EXPECT_EQ(stats["whole_games"], 2);
  EXPECT_GT(stats["decisions"].get<int>(), 40);
  EXPECT_GT(stats["actions"]["discard"]["chosen"].get<int>(), 20);
  ASSERT_EQ(stats["refused"].size(), 1U);
  EXPECT_NE(stats["refused"][0]["error"].get<std::string>().find("broken.json"), std::string::npos);
  ASSERT_EQ(stats["players"].size(), 1U);
  EXPECT_EQ(stats["players"][0]["name"], "rule-based");
  EXPECT_EQ(stats["players"][0]["games"], 8);  // four seats
  const Outcome none =
      run_ingot({"mahjong", "dataset", "stats", games, "--length", "round", "--min-games", "9"});
  EXPECT_EQ(none.exit_code, 2);
  EXPECT_NE(none.errors.find("filter: leaves nothing of 2 games"), std::string::npos) << none.errors;
  const auto sample = json_of(
      run_ingot({"mahjong", "dataset", "sample", games, "--length", "round", "--count", "1", "--json"}));
  EXPECT_TRUE(std::ranges::find(sample["legal"], sample["chosen"]) != sample["legal"].end());
}

TEST(MahjongCommand, ANetworkIsClonedPlaysAndReviewsAGame) {
  const test::TemporaryDirectory directory;
  const std::string games = directory.at("games"), model = "model:" + directory.at("bc/model");
  run_ingot({"mahjong", "dataset", "generate", "--games", "3", "--length", "round", "--player", "simple",
             "-o", games});
  std::ofstream(directory.at("bc.yaml"))
      << "phase: bc\nlength: round\nmax_steps: 2\nbatch_size: 8\nreport_to: [html]\ndevice: cpu\n"
         "validation_decisions: 8\nvalidation_split_ratio: 0.5\n"
         "network: {channels: 8, blocks: 1, norm_groups: 4, se_reduction: 4}\n"
      << "games: [" << games << "]\noutput_dir: " << directory.at("bc") << "\n";
  const auto trained = json_of(run_ingot({"mahjong", "train", directory.at("bc.yaml"), "--json"}));
  EXPECT_EQ(trained["steps"], 2);
  EXPECT_TRUE(std::filesystem::exists(directory.at("bc/report.html")));
  const auto arena = json_of(
      run_ingot({"mahjong", "arena", model, "tsumogiri", "--walls", "2", "--length", "round", "--json"}));
  EXPECT_EQ(arena["entrants"][0]["name"], model);
  EXPECT_EQ(arena["tests"].size(), 1U);
  const std::string page = directory.at("ladder.html");
  const auto ladder = json_of(run_ingot(
      {"mahjong", "ladder", directory.at("bc"), "--walls", "3", "--length", "round", "--json", "-o", page}));
  EXPECT_EQ(ladder["games"], 12);
  ASSERT_EQ(ladder["players"].size(), 4U);
  EXPECT_GE(ladder["players"][0]["ordinal"], ladder["players"][3]["ordinal"]);
  EXPECT_NE(read_file(page).find("Ratings over the walls"), std::string::npos);
  EXPECT_NE(read_file(page).find("instruction set"), std::string::npos);
  const Outcome empty = run_ingot({"mahjong", "ladder", games, "-o", page});
  EXPECT_EQ(empty.exit_code, 1);
  EXPECT_NE(empty.errors.find("holds no network that can play"), std::string::npos) << empty.errors;
  const Outcome review = run_ingot({"mahjong", "review", games + "/game-0000001.json.gz", "--length", "round",
                                    "--player", model, "-o", directory.at("review.html")});
  EXPECT_EQ(review.exit_code, 0) << review.errors;
  EXPECT_GT(std::filesystem::file_size(directory.at("review.html")), 20'000U);
  const Outcome refused =
      run_ingot({"mahjong", "review", games + "/game-0000001.json.gz", "--player", "rule-based"});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_NE(refused.errors.find("is not a network; write model:DIR"), std::string::npos) << refused.errors;
}

// A port that was free a moment ago.
std::uint16_t free_port() {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
  socklen_t size = sizeof address;
  bind(fd, reinterpret_cast<sockaddr*>(&address), size);
  getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
  close(fd);
  return ntohs(address.sin_port);
}

TEST(MahjongCommand, MjaiIsSpokenOverATcpPortAndAMalformedMessageNamed) {
  const std::uint16_t port = free_port();
  std::future<Outcome> outcome = std::async(std::launch::async, [port] {
    return run_ingot({"mahjong", "play", "--mjai", "--player", "tsumogiri", "--port", std::to_string(port)});
  });
  const sockaddr_in address{
      .sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  for (int tries = 0; tries < 400; ++tries) {
    if (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) break;
    usleep(25'000);
  }
  const std::string lines =
      "{\"type\":\"start_game\",\"id\":2}\n{\"type\":\"tsumo\",\"actor\":7,\"pai\":\"1m\"}\n";
  EXPECT_EQ(send(fd, lines.data(), lines.size(), MSG_NOSIGNAL), static_cast<ssize_t>(lines.size()));
  std::string answers;
  char buffer[256];
  for (ssize_t got = 0; (got = recv(fd, buffer, sizeof buffer, 0)) > 0;)
    answers.append(buffer, static_cast<std::size_t>(got));
  close(fd);
  EXPECT_EQ(answers, "{\"type\":\"none\"}\n");
  const Outcome ended = outcome.get();
  EXPECT_EQ(ended.exit_code, 1);
  EXPECT_NE(ended.errors.find("line 2: actor: is 7, expected 0 to 3"), std::string::npos) << ended.errors;
}

}  // namespace
}  // namespace ingot::testing
