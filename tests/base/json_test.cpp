#include "ingot/base/json.h"

#include <cstdint>
#include <optional>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "ingot/base/error.h"
#include "ingot/base/json_number.h"

namespace ingot {
namespace {

TEST(Json, WhatIsNoJsonIsAnErrorThatNamesSourceFieldAndByte) {
  try {
    parse_json<nlohmann::json>(R"({"a": 1,})", "some.json", "line 3", 100);
    FAIL() << "a comma too many was accepted";
  } catch (const FormatError& error) {
    EXPECT_EQ(error.path, "some.json");
    EXPECT_EQ(error.field, "line 3");
    EXPECT_EQ(error.offset, 109);
    EXPECT_EQ(std::string(error.what()).find("json.exception"), std::string::npos) << error.what();
  }
}

TEST(Json, NumbersBeyondEveryDoubleAreAnErrorOfTheSameKind) {
  EXPECT_THROW(parse_json<nlohmann::json>("[1e999]", "some.json"), FormatError);
  EXPECT_THROW(parse_json<nlohmann::ordered_json>("[1e999]", "some.json"), FormatError);
  EXPECT_TRUE(parse_json_or_discard<nlohmann::json>("[1e999]").is_discarded());
}

TEST(Json, NestingIsBounded) {
  const auto nested = [](int depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  EXPECT_NO_THROW(parse_json<nlohmann::json>(nested(kMaxJsonDepth), "x"));
  EXPECT_NO_THROW(parse_json<nlohmann::json>("[\"" + std::string(1000, '[') + "\\\"[\"]", "x"));
  EXPECT_THROW(parse_json<nlohmann::json>(nested(kMaxJsonDepth + 1), "x"), FormatError);
  EXPECT_TRUE(parse_json_or_discard<nlohmann::json>(nested(1'000'000)).is_discarded());
}

// A value of three bytes takes ninety in memory.
TEST(Json, SmallValuesMayNotTakeManyTimesTheirText) {
  std::string many = "[";
  for (int i = 0; i < 8'000'000; ++i) many += "[],";
  EXPECT_TRUE(parse_json_or_discard<nlohmann::json>(many + "0]").is_discarded());
  EXPECT_THROW(parse_json<nlohmann::json>(many + "0]", "x"), FormatError);
  EXPECT_NO_THROW(parse_json<nlohmann::json>(many.substr(0, 300'001) + "0]", "x"));
}

TEST(Json, WholeNumbersAreNotCutFromOthers) {
  const auto whole = [](const char* text) { return whole_number(parse_json<nlohmann::json>(text, "x")); };
  EXPECT_EQ(whole("64"), 64);
  EXPECT_EQ(whole("-64.0"), -64);
  EXPECT_EQ(whole("-9223372036854775808"), INT64_MIN);
  for (const char* other :
       {"64.7", "1e308", "9223372036854775808", "9007199254740994.0", "\"64\"", "null", "true"})
    EXPECT_EQ(whole(other), std::nullopt) << other;
}

TEST(Json, WhatIsNoUtf8IsReplacedWhenWritten) {
  EXPECT_EQ(dump_json(nlohmann::json("a\xff")), "\"a\xEF\xBF\xBD\"");
}

TEST(Json, TextIsWrittenAsItIs) {
  EXPECT_EQ(dump_json(nlohmann::json("\x1b\u200f\u0633")), "\"\\u001b\u200f\u0633\"");
}

}  // namespace
}  // namespace ingot
