#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "tests/mahjong/data.h"
#include "tests/mahjong/games.h"
#include "tests/support/source_dir.h"
#include <fmt/core.h>
#include <gtest/gtest.h>

#include "ingot/mahjong/log.h"
#include "ingot/mahjong/tracker.h"

namespace ingot::mahjong {
namespace {

TEST(Mjai, WrittenGamesReplayToTheSameEnd) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const GameLog log = read_mjai(random_game_mjai(seed), "random");
    EXPECT_TRUE(log.complete.value());
    const ReplayCounts counts = replay(log);
    EXPECT_EQ(static_cast<std::size_t>(counts.rounds), log.rounds.size());
  }
}

// mjai's first form, which the servers of those years and their players still write.
TEST(Mjai, RoundsThatDoNotSayTheirScoresGoOnWithThose) {
  std::istringstream lines(random_game_mjai(7));
  std::string text, line;
  SeatTracker tracker(Rules::tenhou(), 2);
  std::vector<std::int32_t> told, followed;
  while (std::getline(lines, line)) {
    Event event = parse_mjai(line);
    if (event.type == EventType::StartKyoku) {
      told.push_back(event.scores[2]);
      event.has_scores = false;
      line = to_mjai(event);
      EXPECT_EQ(line.find("scores"), std::string::npos) << line;
    }
    tracker.on(event);
    if (event.type == EventType::StartKyoku) followed.push_back(tracker.observation().pub.seats[2].score);
    text += line + "\n";
  }
  EXPECT_GT(told.size(), 3U);
  EXPECT_EQ(followed, told);
  EXPECT_EQ(static_cast<std::size_t>(replay(read_mjai(text, "old")).rounds), told.size());
}

TEST(Mjai, EventsSurviveTheRoundTripAsText) {
  std::istringstream lines(random_game_mjai(3));
  std::string line;
  while (std::getline(lines, line)) {
    const Event event = parse_mjai(line);
    if (event.type == EventType::Hora || event.type == EventType::Ryukyoku)
      continue;  // the score is not read back
    EXPECT_EQ(to_mjai(event), line);
  }
}

TEST(Mjai, AViewerIsNotShownOthersTiles) {
  std::istringstream lines(random_game_mjai(3));
  std::string line;
  while (std::getline(lines, line)) {
    const Event event = parse_mjai(line);
    const std::string shown = to_mjai(event, 2);
    if (event.type == EventType::Tsumo) EXPECT_EQ(shown.find("\"?\"") != std::string::npos, event.actor != 2);
    if (event.type == EventType::StartKyoku) {
      const Event back = parse_mjai(shown);
      for (std::size_t p = 0; p < 4; ++p) EXPECT_EQ(back.hands[p][0] == kNoTile, p != 2);
    }
  }
}

TEST(Mjai, HostileLinesAreRefusedWithPlaceAndField) {
  const struct {
    const char *line, *says;
  } cases[] = {
      {"", "JSON"},
      {"{", "JSON"},
      {"[1,2]", "not a JSON object"},
      {R"({"type":3})", "type"},
      {R"({"type":"tsumo"})", "actor"},
      {R"({"type":"tsumo","actor":4,"pai":"1m"})", "expected 0 to 3"},
      {R"({"type":"tsumo","actor":1,"pai":"0m"})", "pai"},
      {R"({"type":"dahai","actor":1,"pai":"?","tsumogiri":true})", "pai"},
      {R"({"type":"dahai","actor":1,"pai":"1m","tsumogiri":1})", "tsumogiri"},
      {R"({"type":"chi","actor":1,"target":0,"pai":"1m","consumed":["2m"]})", "consumed"},
      {R"({"type":"kita","actor":1})", "not a mjai event"},
      {R"({"type":"hora","actor":1,"target":1,"deltas":[1,2,3]})", "deltas"},
      {R"({"type":"tsumo","actor":18446744073709551615,"pai":"1m"})", "actor"},
  };
  for (const auto& one : cases) {
    try {
      parse_mjai(one.line, "x.json:7");
      ADD_FAILURE() << one.line;
    } catch (const FormatError& error) {
      EXPECT_NE(std::string(error.what()).find(one.says), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find("x.json:7"), std::string::npos) << error.what();
    }
  }
  EXPECT_THROW(parse_mjai(std::string(100000, '[')), FormatError);
}

TEST(Mjai, NewerFieldsAreLeftAlone) {
  EXPECT_EQ(parse_mjai(R"({"type":"tsumo","actor":1,"pai":"5mr","meta":{"q":[1,2]}})").tile, 34);
}

TEST(Mjai, AnEditedLogIsRefusedAtTheFirstImpossibleEvent) {
  const std::string text = random_game_mjai(11);
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  int refused = 0, tried = 0;
  for (std::size_t drop = 2; drop + 1 < lines.size(); drop += 37) {
    std::string cut;
    for (std::size_t i = 0; i < lines.size(); ++i)
      if (i != drop) cut += lines[i] + "\n";
    ++tried;
    try {
      replay(read_mjai(cut, "cut"));
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_EQ(refused, tried);
}

TEST(Archive, GzipFilesAreReadAndBombsRefused) {
  const std::string path = testing::TempDir() + "ingot_mahjong_test.json.gz";
  const std::string text = random_game_mjai(1);
  write_log(path, text);
  EXPECT_EQ(read_maybe_gzip(path), text);
  EXPECT_NO_THROW(replay(read_log(path)));
  EXPECT_THROW(read_maybe_gzip(path, 1000), FormatError);
  std::ifstream whole(path, std::ios::binary);
  std::stringstream bytes;
  bytes << whole.rdbuf();
  std::ofstream(path, std::ios::binary) << bytes.str().substr(0, bytes.str().size() / 2);
  EXPECT_THROW(read_maybe_gzip(path), FormatError);
  std::filesystem::remove(path);
  EXPECT_THROW(read_maybe_gzip(path), IoError);
}

TEST(Archive, TheFuzzersCorpusIsReadOrRefused) {
  int files = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(test::source_dir() + "/tests/fuzz/corpus/mahjong_log")) {
    ++files;
    try {
      replay(read_log(entry.path()));
    } catch (const Error&) {
    }
  }
  EXPECT_GT(files, 0);
}

// A single round written by hand: South (seat 1) wins by ron after a chi, a pon and a kan of its own.
constexpr const char* kTenhouRound =
    R"({"title":["",""],"name":["A","B","C","D"],"rule":{"disp":"般南喰赤","aka":1},"log":[[
[0,0,0],[25000,25000,25000,25000],[41],[],
[11,12,13,14,15,16,17,18,19,21,21,42,43],[22,31],[43,42],
[23,24,25,26,27,28,29,31,32,33,44,44,45],[37],[45],
[11,11,12,12,13,13,14,14,37,38,39,41,45],["c334546"],[41],
[21,22,23,24,34,35,36,38,39,42,43,46,46],[47],["r47"],
["流局"]]]})";

TEST(TenhouJson, ARoundWhoseEntriesFitInNoOrderIsRefused) {
  EXPECT_THROW(read_tenhou_json(kTenhouRound, "round.json"), FormatError);
}

// Three players win by one discard; who is liable pays for big three dragons alone; four concealed triplets
// with a single wait count twice.
TEST(TenhouJson, GamesOfMahjongSoulReplayByItsRules) {
  for (const char* name : {"ms_triple_ron_t6", "ms_pao_t6", "ms_suuankou_tanki_t6"}) {
    const GameLog log = read_log(fmt::format("{}/tests/mahjong/majsoul/{}.json", test::source_dir(), name));
    EXPECT_EQ(log.rules.multiple_ron, Rules::majsoul().multiple_ron);
    EXPECT_NO_THROW(replay(log)) << name;
  }
}

TEST(TenhouJson, HostileDocumentsAreRefused) {
  for (const char* text : {"", "{}", "[]", R"({"log":[]})", R"({"log":[[]]})",
                           R"({"log":[[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17]]})",
                           R"({"log":[[[0,0,0],[1,2,3,4],[99],[],[],[],[],[],[],[],[],[],[],[],[],[],[]]]})"})
    EXPECT_THROW(read_tenhou_json(text, "x"), FormatError) << text;
}

// Fu, points and yaku of a win as tenhou.net/6 has them, for yaku worth the same open and closed, and closed
// ones.
std::string value_texts(const Event& e) {
  static const std::map<Yaku, const char*> names = {{Yaku::MenzenTsumo, "門前清自摸和"},
                                                    {Yaku::Riichi, "立直"},
                                                    {Yaku::Ippatsu, "一発"},
                                                    {Yaku::Pinfu, "平和"},
                                                    {Yaku::Tanyao, "断幺九"},
                                                    {Yaku::Iipeikou, "一盃口"},
                                                    {Yaku::SeatEast, "自風 東"},
                                                    {Yaku::RoundSouth, "場風 南"},
                                                    {Yaku::Haku, "役牌 白"},
                                                    {Yaku::Hatsu, "役牌 發"},
                                                    {Yaku::Chun, "役牌 中"},
                                                    {Yaku::Chiitoitsu, "七対子"},
                                                    {Yaku::Toitoi, "対々和"},
                                                    {Yaku::Rinshan, "嶺上開花"},
                                                    {Yaku::Chankan, "槍槓"}};
  if (e.win.base == 0) return "";  // read from a log rather than won at a table
  const Payment pay = payment_for(e.win.base, false);
  std::string text = e.win.base >= 2000 ? ",\"満貫" : fmt::format(",\"{}符{}飜", e.win.fu, e.win.han);
  if (e.actor != e.target)
    text += fmt::format("{}点\"", e.points);
  else if (e.points == 2 * pay.from_non_dealer + pay.from_dealer)
    text += fmt::format("{}-{}点\"", pay.from_non_dealer, pay.from_dealer);
  else
    text += fmt::format("{}点∀\"", e.points / 3);
  std::uint64_t left = e.win.yaku & ((std::uint64_t{1} << static_cast<int>(Yaku::Dora)) - 1);
  std::string list;
  const auto add = [&](const char* name, int han) { list += fmt::format(",\"{}({}飜)\"", name, han); };
  for (const auto& [yaku, name] : names) {
    if (!e.win.has(yaku)) continue;
    left &= ~(std::uint64_t{1} << static_cast<int>(yaku));
    add(name, yaku_han(yaku, false));
  }
  if (e.win.dora > 0) add("ドラ", e.win.dora);
  if (e.win.ura > 0) add("裏ドラ", e.win.ura);
  if (e.win.red > 0) add("赤ドラ", e.win.red);
  return left == 0 ? text + list : text;  // other yaku: names as in another language, which are not checked
}

// What a table did, written in the form of tenhou.net/6.
std::string to_tenhou_json(const Events& events) {
  const auto code = [](Tile tile) {
    return is_red(tile) ? 51 + tile - 34 : 10 * (tile / 9 + 1) + tile % 9 + 1;
  };
  const auto text = [&](Tile tile) { return std::to_string(code(tile)); };
  std::array<std::vector<std::string>, 4> draws, discards;
  std::array<std::array<std::size_t, kKinds>, 4> pon_place{};
  std::string dora, ura, head, hands[4], result, reach;
  for (const Event& e : events) {
    auto& mine = discards[e.actor];
    const int from = (e.target - e.actor + 4) % 4;
    switch (e.type) {
      case EventType::StartKyoku: {
        head = "[" + std::to_string(e.round) + "," + std::to_string(e.honba) + "," +
               std::to_string(e.sticks) + "],[";
        for (std::size_t p = 0; p < 4; ++p) {
          head += (p ? "," : "") + std::to_string(e.scores[p]);
          for (std::size_t i = 0; i < 13; ++i) hands[p] += (i ? "," : "") + text(e.hands[p][i]);
        }
        head += "]";
        dora = text(e.tile);
        break;
      }
      case EventType::Tsumo:
        draws[e.actor].push_back(text(e.tile));
        break;
      case EventType::Dora:
        dora += "," + text(e.tile);
        break;
      case EventType::Reach:
        reach = "r";
        break;
      case EventType::Dahai:
        if (reach.empty())
          mine.push_back(e.tsumogiri ? "60" : text(e.tile));
        else
          mine.push_back("\"r" + (e.tsumogiri ? std::string("60") : text(e.tile)) + "\"");
        reach.clear();
        break;
      case EventType::Chi:
        draws[e.actor].push_back("\"c" + text(e.tile) + text(e.consumed[0]) + text(e.consumed[1]) + "\"");
        break;
      case EventType::Pon:
      case EventType::Daiminkan: {
        const bool kan = e.type == EventType::Daiminkan;
        const std::size_t before = from == 3 ? 0 : from == 2 ? 1 : kan ? 3 : 2, count = kan ? 3 : 2;
        std::string call = "\"";
        for (std::size_t i = 0; i <= count; ++i) {
          if (i == before) call += (kan ? "m" : "p") + text(e.tile);
          if (i < count) call += text(e.consumed[i]);
        }
        draws[e.actor].push_back(call + "\"");
        if (kan) mine.push_back("0");
        pon_place[e.actor][kind_of(e.tile)] = before;
        break;
      }
      case EventType::Ankan:
        mine.push_back("\"" + text(e.consumed[0]) + text(e.consumed[1]) + text(e.consumed[2]) + "a" +
                       text(e.consumed[3]) + "\"");
        break;
      case EventType::Kakan: {
        std::string call = "\"";
        for (std::size_t i = 0; i < 3; ++i) {
          if (i == pon_place[e.actor][kind_of(e.tile)]) call += "k" + text(e.tile);
          call += text(e.consumed[i]);
        }
        mine.push_back(call + "\"");
        break;
      }
      case EventType::Hora:
      case EventType::Ryukyoku: {
        const char* names[] = {"",         "流局",     "流し満貫", "九種九牌",
                               "四風連打", "四家立直", "四開槓",   "三家和了"};
        if (result.empty())
          result = std::string("[\"") +
                   (e.type == EventType::Hora ? "和了" : names[static_cast<int>(e.reason)]) + "\"";
        result += ",[";
        for (std::size_t p = 0; p < 4; ++p) result += (p ? "," : "") + std::to_string(e.deltas[p]);
        result += "]";
        if (e.type == EventType::Hora)
          result += ",[" + std::to_string(e.actor) + "," + std::to_string(e.target) + "," +
                    std::to_string(e.actor) + value_texts(e) + "]";
        if (e.ura_count > 0) {
          ura.clear();
          for (std::size_t i = 0; i < e.ura_count; ++i) ura += (i ? "," : "") + text(e.ura[i]);
        }
        break;
      }
      default:
        break;
    }
  }
  const auto join = [](const std::vector<std::string>& list) {
    std::string all;
    for (const auto& one : list) all += (all.empty() ? "" : ",") + one;
    return "[" + all + "]";
  };
  std::string out = "[" + head + ",[" + dora + "],[" + ura + "]";
  for (std::size_t p = 0; p < 4; ++p)
    out += ",[" + hands[p] + "]," + join(draws[p]) + "," + join(discards[p]);
  return out + "," + result + "]]";
}

TEST(TenhouJson, RoundsOfRandomGamesAreReadBackAndReplayed) {
  int rounds = 0;
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    const GameLog game = read_mjai(random_game_mjai(seed), "random");
    std::string text;
    for (const LogRound& round : game.rounds)
      text += (text.empty() ? "" : ",") + to_tenhou_json(round.events);
    const GameLog log =
        read_tenhou_json(R"({"rule":{"disp":"般南喰赤","aka":1},"log":[)" + text + "]}", "random");
    ASSERT_EQ(log.rounds.size(), game.rounds.size());
    rounds += replay(log).rounds;
  }
  EXPECT_GT(rounds, 200);
}

TEST(TenhouJson, RealGamesAreReadBackAndReplayed) {
  std::error_code none;
  int games = 0;
  for (const auto& entry : std::filesystem::directory_iterator(data_path("tenhou"), none)) {
    const GameLog game = read_log(entry.path());
    std::string text;
    for (const LogRound& round : game.rounds)
      text += (text.empty() ? "" : ",") + to_tenhou_json(round.events);
    const GameLog log =
        read_tenhou_json(R"({"rule":{"disp":"鳳南喰赤","aka":1},"log":[)" + text + "]}", "real");
    EXPECT_EQ(replay(log).actions, replay(game).actions);
    ++games;
  }
  if (games == 0) GTEST_SKIP() << "no test data: tenhou/*.mjlog";
}

// A round in which the dealer wins on its first discard's answer, with the value and yaku given.
std::string won_round(const std::string& value) {
  return R"({"rule":{"disp":"般南喰赤","aka":1},"log":[[[0,0,0],[25000,25000,25000,25000],[43],[],)"
         R"([11,12,13,14,15,16,17,18,19,21,21,37,38],[47],[60],)"
         R"([12,15,18,22,25,28,32,39,41,42,44,45,46],[36],[60],)"
         R"([12,15,18,22,25,28,32,39,41,42,44,45,46],[],[],)"
         R"([13,16,19,23,26,29,33,34,41,42,44,45,46],[],[],)"
         R"(["和了",[5800,-5800,0,0],[0,1,0,)" +
         value + "]]]]}";
}

TEST(TenhouJson, WinsMayBeNamedInEnglish) {
  const std::string text = won_round(R"_("30符3飜5800点","平和(1飜)","一気通貫(2飜)")_");
  for (const std::string word : {"Agari", "Ron", "Hora"}) {
    std::string english = text;
    english.replace(english.find("和了"), std::string("和了").size(), word);
    EXPECT_NO_THROW(replay(read_tenhou_json(english, "english.json"))) << word;
  }
}

TEST(TenhouJson, LinksToTheViewerHoldDocuments) {
  const std::string text = won_round(R"_("30符3飜5800点","平和(1飜)","一気通貫(2飜)")_");
  std::string encoded;
  for (const char c : text) encoded += c == '"' ? "%22" : c == '{' ? "%7B" : std::string(1, c);
  for (const std::string& json : {text, encoded}) {
    const GameLog log = parse_log("https://tenhou.net/6/#json=" + json + "&ts=0\n", "link.txt");
    EXPECT_EQ(log.rounds.size(), 1U);
    EXPECT_NO_THROW(replay(log));
  }
  EXPECT_THROW(parse_log("https://tenhou.net/0/?log=2019010100gm-00a9-0000-00000000&tw=0", "link.txt"),
               FormatError);
}

TEST(TenhouJson, TheTextsOfAWinAreChecked) {
  const struct {
    const char *value, *says;
  } cases[] = {
      {R"_("30符3飜5800点","平和(1飜)","一気通貫(2飜)")_", "accepted"},
      {R"_("30符3飜5800点","Pinfu(1飜)","Ittsu(2飜)")_", "accepted"},  // a language that is not read
      {R"_("30符3飜5800点","平和(1飜)","立直(1飜)","一気通貫(2飜)")_",
       "yaku riichi, pinfu, ittsu; expected pinfu"},
      {R"_("30符3飜5800点","平和(1飜)","一気通貫(1飜)")_", "2 han, expected 3"},
      {R"_("40符3飜5800点","平和(1飜)","一気通貫(2飜)")_", "40 fu, expected 30"},
      {R"_("30符3飜7700点","平和(1飜)","一気通貫(2飜)")_", "7700 points, expected 5800"},
      {R"_("満貫12000点")_", "12000 points"},
  };
  for (const auto& one : cases) {
    std::string said = "accepted";
    try {
      replay(read_tenhou_json(won_round(one.value), "round.json"));
    } catch (const FormatError& error) {
      said = error.what();
    }
    EXPECT_NE(said.find(one.says), std::string::npos) << one.value << ": " << said;
  }
}

TEST(TenhouJson, ResultsAndRoomsAreReadAndChecked) {
  const auto with = [](const std::string& more) {
    std::string text = won_round(R"("30符3飜5800点")");
    return "{" + more + text.substr(text.find(R"(,"log")"));
  };
  const auto log_of = [&](const std::string& more) { return read_tenhou_json(with(more), "room.json"); };
  EXPECT_TRUE(log_of(R"("rule":{"disp":"鳳南喰赤","aka":1})").rules.open_tanyao);
  EXPECT_FALSE(log_of(R"("rule":{"disp":"般南","aka":0})").rules.open_tanyao);
  EXPECT_TRUE(log_of(R"("rule":{"disp":"Gold Room","aka":1})").rules.open_tanyao);
  EXPECT_THROW(log_of(R"("rule":{"disp":"三鳳南喰赤","aka":1})"), FormatError);
  EXPECT_THROW(log_of(R"("sc":[1,2,"x",4,5,6,7,8])"), FormatError);
  const char* result = R"("sc":[27200,7.2,21500,-18.5,8700,-41.3,42600,52.7])";
  EXPECT_FALSE(log_of(result).final_points.has_value()) << "other platforms' uma is not known";
  EXPECT_TRUE(log_of(std::string(result) + R"(,"rule":{"disp":"鳳南喰赤"})").final_points.has_value());
}

TEST(TenhouJson, ARedFiveOfARuleWithoutThemNamesTheKey) {
  std::string text = won_round(R"("30符3飜5800点")");
  text.replace(text.find(R"(,"aka":1)"), 8, "");
  EXPECT_NO_THROW(read_tenhou_json(text, "plain.json"));
  text.replace(text.find("[12,15,18"), 3, "[51");
  try {
    read_tenhou_json(text, "red.json");
    FAIL() << "was read";
  } catch (const FormatError& error) {
    EXPECT_NE(std::string(error.what()).find("rule.aka"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("player 1 has a red five (51)"), std::string::npos);
  }
}

TEST(TenhouJson, OneDocumentPerLineIsOneGame) {
  const std::string round = won_round(R"("30符3飜5800点")");
  EXPECT_EQ(read_tenhou_json(round + "\n" + round + "\n", "lines").rounds.size(), 2U);
  EXPECT_THROW(read_tenhou_json(round + "\n{\n", "lines"), FormatError);
  EXPECT_THROW(read_tenhou_json(round + "\n[]\n", "lines"), FormatError);
}

}  // namespace
}  // namespace ingot::mahjong
