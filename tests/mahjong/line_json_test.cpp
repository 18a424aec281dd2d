#include "ingot/mahjong/line_json.h"

#include <random>

#include "tests/mahjong/games.h"
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "ingot/base/error.h"
#include "ingot/base/json.h"

namespace ingot::mahjong {
namespace {

bool accepts(const std::string& line) {
  try {
    return LineJson(line, "test").root().operator bool();
  } catch (const FormatError&) {
    return false;
  }
}

nlohmann::json whole(LineJson::Value value) {
  if (value.is_text()) return value.text();
  if (value.is_bool()) return value.flag();
  if (value.is_integer()) return value.integer();
  if (!value.is_list()) return nullptr;
  nlohmann::json list = nlohmann::json::array();
  for (LineJson::Value one = value.first(); one; one = one.next()) list.push_back(whole(one));
  return list;
}

TEST(LineJson, ReadsWhatTheJsonLibraryReads) {
  const std::string line =
      R"( {"a":[1,-20,"x",[],{"b":[true,false]}],"name":"\u3042 \"q\" é","big":123456789012345678,"a":[7]} )";
  const LineJson json(line, "test");
  const nlohmann::json expected = parse_json<nlohmann::json>(line, "test");
  for (const char* key : {"a", "name", "big"}) EXPECT_EQ(whole(json.root().find(key)), expected[key]) << key;
  EXPECT_FALSE(json.root().find("c"));
  EXPECT_EQ(json.root().size(), 4U);
  EXPECT_FALSE(LineJson("[1.5]", "test").root().first().is_integer());
  EXPECT_EQ(LineJson("[1.5e3,2]", "test").root().first().excerpt(), "1500.0");
}

TEST(LineJson, AcceptsExactlyWhatTheJsonLibraryAccepts) {
  for (const char* line :
       {"",         " ",         "{",     "}",    "[]",      "[1,]",       "[,1]",
        "{\"a\":}", "{\"a\" 1}", "{a:1}", "nul",  "null",    "nulll",      "01",
        "-",        "-0",        "1.",    "1.5",  ".5",      "1e5",        "1e",
        "1e999",    "+1",        "\"",    "\"\\", "\"\\q\"", "\"\\u12\"",  "\"\\ud800\"",
        "\"\xff\"", "\"\x01\"",  "[1 2]", "[1]x", "[[]]",    "{\"a\":1,}", "123456789012345678901234567890"})
    EXPECT_EQ(accepts(line), !parse_json_or_discard<nlohmann::json>(line).is_discarded()) << line;
  std::mt19937 random(3);
  std::string text = to_mjai(simple_game(4), {"ann", "b\"o", "\xE3\x81\x82", ""});
  text.resize(text.find('\n', 20'000));
  const std::string bytes = "{}[]\",:\\ 0123456789.eE+-tfnu\x80\n";
  int good = 0, bad = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    for (int mutation = 0; mutation < 12; ++mutation) {
      std::string line = text.substr(begin, end - begin);
      for (int change = 0; change < mutation % 3; ++change)
        line[random() % line.size()] = bytes[random() % bytes.size()];
      const bool valid = !parse_json_or_discard<nlohmann::json>(line).is_discarded();
      ASSERT_EQ(accepts(line), valid) << line;
      ++(valid ? good : bad);
    }
    begin = end + 1;
  }
  EXPECT_GT(good, 500);
  EXPECT_GT(bad, 200);
}

TEST(LineJson, NestsSixteenDeepAndNoDeeper) {
  EXPECT_TRUE(accepts(std::string(16, '[') + std::string(16, ']')));
  EXPECT_FALSE(accepts(std::string(17, '[') + std::string(17, ']')));
  EXPECT_FALSE(accepts(std::string(100'000, '[')));
}

}  // namespace
}  // namespace ingot::mahjong
