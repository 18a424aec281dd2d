#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/mahjong/data.h"
#include <gtest/gtest.h>

#include "ingot/base/error.h"
#include "ingot/mahjong/log.h"

namespace ingot::mahjong {
namespace {

std::string read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream all;
  all << in.rdbuf();
  return all.str();
}

std::vector<std::filesystem::path> games() {
  std::vector<std::filesystem::path> paths;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(data_path("tenhou"), none))
    if (entry.path().extension() == ".mjlog") paths.push_back(entry.path());
  return paths;
}

TEST(Replay, EveryTenhouGameIsReproducedExactly) {
  const auto paths = games();
  if (paths.empty()) GTEST_SKIP() << "no test data: tenhou/*.mjlog";
  ReplayCounts all;
  for (const auto& path : paths) {
    SCOPED_TRACE(path.filename());
    try {
      const GameLog log = read_mjlog(read_file(path), path.filename());
      for (const LogRound& round : log.rounds) EXPECT_TRUE(round.wall.has_value());
      const ReplayCounts counts = replay(log);
      all.rounds += counts.rounds;
      all.actions += counts.actions;
      all.wins += counts.wins;
      all.draws += counts.draws;
    } catch (const Error& error) {
      ADD_FAILURE() << error.what();
    }
  }
  EXPECT_GE(all.rounds, 100);
  EXPECT_GE(all.wins, 100);
  EXPECT_GE(all.draws, 10);
  std::printf("%d rounds, %d actions, %d wins, %d draws\n", all.rounds, all.actions, all.wins, all.draws);
}

// What is said of an edited or broken log, by replacing the first `from` of a real one.
std::string problem_after(const std::string& from, const std::string& to) {
  const auto paths = games();
  std::string xml = read_file(data_path("tenhou/game_01.mjlog"));
  const std::size_t at = xml.find(from);
  if (at == std::string::npos) return "not found: " + from;
  xml.replace(at, from.size(), to);
  try {
    replay(read_mjlog(xml, "game.mjlog"));
    return "accepted";
  } catch (const FormatError& error) {
    return error.what();
  }
}

TEST(Replay, AnEditedLogIsRefusedWithFileEventAndReason) {
  if (games().empty()) GTEST_SKIP() << "no test data: tenhou/*.mjlog";
  const struct {
    const char *from, *to, *says;
  } cases[] = {
      {"<D114/>", "<D113/>", "player 0 does not hold tile 113"},
      {"<T100/>", "<T101/>", "tile 101 was dealt, drawn or turned over before"},
      {"hai0=\"133,", "hai0=\"132,", "not what the seed deals"},
      {"<U84/>", "<W84/>", "player 1 does not hold tile 84"},
      {"ten=\"50,1600,0\"", "ten=\"40,1300,0\"", "fu, expected 50"},
      {"yaku=\"1,1,53,0\"", "yaku=\"1,1,2,1\"", "yaku"},
      {"sc=\"270,0,230,39,240,0,240,-19\"", "sc=\"270,0,230,49,240,0,240,-29\"", "payments"},
      {"<REACH who=\"1\" step=\"1\"/>", "", "(reach_accepted)"},
      {"<REACH who=\"1\" step=\"1\"/>", "<REACH who=\"2\" step=\"1\"/>", "acts on the turn of"},
      {"<N who=\"0\" m=\"50795\" />", "<N who=\"0\" m=\"50796\" />", "calls tile 87, but 132 was discarded"},
      {"seed=\"0,1,0,3,1,124\"", "seed=\"0,2,0,3,1,124\"", "honba 2"},
      {"<T100/>", "<T100/><NEW a=\"1\"/>", "<NEW>"},
      {"<T100/>", "<T136/>", "136 is not a tile"},
      {"</mjloggm>", "", "XML"},
      {"owari=\"", "owari=\"1", "final scores"},
      {"machi=\"50\"", "machi=\"50\" newer=\"field\"", "accepted"},
  };
  for (const auto& one : cases)
    EXPECT_NE(problem_after(one.from, one.to).find(one.says), std::string::npos)
        << one.from << " -> " << one.to << ": " << problem_after(one.from, one.to);
}

TEST(Replay, ALogCutAfterAnyElementIsRefusedOrUnfinished) {
  if (games().empty()) GTEST_SKIP() << "no test data: tenhou/*.mjlog";
  const std::string xml = read_file(data_path("tenhou/game_09.mjlog"));
  const std::size_t first = xml.find("<INIT");
  int refused = 0, all = 0;
  for (std::size_t end = xml.find("/>", first); end != std::string::npos;
       end = xml.find("/>", end + 1), ++all) {
    try {
      replay(read_mjlog(xml.substr(0, end + 2) + "</mjloggm>", "cut"));
    } catch (const FormatError&) {
      ++refused;
    }
  }
  EXPECT_GT(all, 200);
  EXPECT_GE(refused, all - 20);  // a cut after the end of a round leaves a playable beginning
}

}  // namespace
}  // namespace ingot::mahjong
