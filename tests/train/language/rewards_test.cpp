#include <chrono>
#include <filesystem>

#include "tests/support/temporary_directory.h"
#include "tests/support/web_server.h"
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "ingot/base/config.h"
#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/base/json.h"
#include "ingot/train/language/rewards/json_schema.h"
#include "ingot/train/language/rewards/reward.h"

namespace ingot {
namespace {

using Json = nlohmann::ordered_json;
using test::message_of;

std::vector<double> scores(const RewardConfig& config, const std::vector<std::string>& answers,
                           const Json& record = Json::object()) {
  const std::string text = record.dump();
  std::vector<AnswerToScore> to_score;
  for (const std::string& answer : answers) to_score.push_back({"the prompt", answer, text});
  return make_reward(config)->score(to_score);
}

TEST(Rewards, ARightNumberIsRightInEveryForm) {
  for (const auto& [answer, right] : std::vector<std::pair<std::string, std::string>>{
           {"So it is 42.", "42"},
           {"It costs $1,234.50 in all.", "1234.5"},
           {"#### 18", "She has 9 * 2 = 18\n#### 18"},
           {"first 3, then \\boxed{7} and no 8", "7"},
           {"\\boxed{\\frac{1}{2}}", "0.5"},
           {"the result is 1/4", "0.25"},
           {"it is -3", "-3"},
           {"50%", "50"},
           {"\\boxed{x+1}", "x + 1"},
           {"\\boxed{\\frac{3}{\\sqrt{2}}}", "\\boxed{\\dfrac{3}{\\sqrt{2}}}"},
           {"the answer is Paris.", "Paris"}})
    EXPECT_TRUE(is_right_answer(answer, right)) << answer << " / " << right;
  for (const auto& [answer, right] :
       std::vector<std::pair<std::string, std::string>>{{"So it is 42, not 43", "42"},
                                                        {"", "42"},
                                                        {"no number", "42"},
                                                        {"\\boxed{8} though 7", "7"},
                                                        {"421", "42"},
                                                        {"3", "-3"},
                                                        {"range 5-3", "-3"},
                                                        {"1/0", "0"},
                                                        {"anything", ""}})
    EXPECT_FALSE(is_right_answer(answer, right)) << answer << " / " << right;
}

TEST(Rewards, PatternsJsonAndAnswersGiveOneOrNothing) {
  EXPECT_EQ(scores({.type = "regex", .pattern = R"(\A<b>.+</b>\z)"}, {"<b>x</b>", "a <b>x</b>"}),
            (std::vector<double>{1, 0}));
  EXPECT_EQ(scores({.type = "json"}, {R"({"a": 1})", "```json\n[1]\n```", "{a}", "12", ""}),
            (std::vector<double>{1, 1, 0, 0, 0}));
  EXPECT_EQ(scores({.type = "math", .answer = "solution"}, {"it is 4", "5"}, {{"solution", 4}}),
            (std::vector<double>{1, 0}));
  EXPECT_NE(message_of<RewardFailure>([] {
              scores({.type = "math"}, {"4"}, {{"solution", 4}});
            }).find("no 'answer'"),
            std::string::npos);
}

TEST(Rewards, ACommandGetsJsonAndGivesNumbers) {
  RewardConfig config{.type = "command"};
  config.command = "while read line; do case $line in *good*) echo 1.5;; *) echo -2;; esac; done";
  EXPECT_EQ(scores(config, {"good", "bad", "so good"}), (std::vector<double>{1.5, -2, 1.5}));
  config.command = "grep -c '\"record\":{\"n\":3},*' ";
  EXPECT_EQ(scores(config, {"x"}, {{"n", 3}}), std::vector<double>{1});
}

TEST(Rewards, ACommandThatFailsLiesOrHangsIsOneError) {
  const auto failure = [](const std::string& command) {
    RewardConfig config{.type = "command", .command = command, .seconds = 0.3};
    std::string message;
    try {
      scores(config, {"one", "two"});
    } catch (const RewardFailure& error) {
      message = std::to_string(error.answer) + " " + error.what();
    }
    return message;
  };
  const auto expect = [](const std::string& message, const std::string& part) {
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  expect(failure("echo 1; echo broken >&2; exit 3"),
         "1 the command ended (exit status 3) after 1 of 2 numbers: broken");
  expect(failure("echo 1; echo good"), "1 the command wrote 'good'");
  expect(failure("echo nan; echo 1"), "0 the command wrote 'nan'");
  const auto begin = std::chrono::steady_clock::now();
  expect(failure("echo 1; sleep 100"), "1 the command gave 1 of 2 numbers in 0.3 s");
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
}

TEST(Rewards, AServerScoresAllAnswersOfAStepAtOnce) {
  test::WebServer server;
  const auto answer = [&](const std::string& body) {
    std::filesystem::create_directories(server.directory() + "/post");
    write_file_atomically(server.directory() + "/post/score", body);
    return RewardConfig{.type = "http", .url = server.address() + "/post/score", .seconds = 20};
  };
  EXPECT_EQ(scores(answer("[1, 0.5]"), {"a", "\"b\""}, {{"n", 3}}), (std::vector<double>{1, 0.5}));
  const Json posted =
      parse_json<Json>(parse_json<Json>(server.log(), "log").at(0).at("body").get<std::string>(), "body");
  EXPECT_EQ(posted["completions"], Json::parse(R"(["a", "\"b\""])"));
  EXPECT_EQ(posted["prompts"], Json::parse(R"(["the prompt", "the prompt"])"));
  EXPECT_EQ(posted["records"], Json::parse(R"([{"n": 3}, {"n": 3}])"));
  server.fault("/post/score", "status", 2, "503");
  EXPECT_EQ(scores(answer(R"({"rewards": [2, -1]})"), {"a", "b"}), (std::vector<double>{2, -1}));
  for (const char* wrong : {"[1]", "{}", "good", "[1, \"2\"]", "[1, 1e999]"})
    EXPECT_THROW(scores(answer(wrong), {"a", "b"}), RewardFailure) << wrong;
  RewardConfig missing = answer("[1]");
  missing.url += "/none";
  EXPECT_THROW(scores(missing, {"a"}), RewardFailure);
}

TEST(Rewards, ConfigurationsSayWhatIsMissing) {
  const auto read = [](const std::string& entry) {
    const Config file = Config::parse("rewards: [" + entry + "]");
    return read_reward(file.root().sections("rewards").front());
  };
  EXPECT_EQ(read("{type: regex, pattern: a, weight: 2}").weight, 2);
  EXPECT_NE(message_of<InvalidConfig>([&] { read("{type: regex}"); }).find("pattern"), std::string::npos);
  EXPECT_NE(message_of<InvalidConfig>([&] { read("{type: rgex}"); }).find("did you mean 'regex'"),
            std::string::npos);
  EXPECT_THROW(read("{type: http, url: localhost}"), InvalidConfig);
  EXPECT_THROW(make_reward({.type = "regex", .pattern = "("}), InvalidConfig);
  EXPECT_THROW(make_reward({.type = "json_schema", .schema = "{"}), InvalidConfig);
  EXPECT_THROW(make_reward({.type = "json_schema", .schema = R"({"dependentRequired": {}})"}), InvalidConfig);
}

bool valid(const std::string& schema, const std::string& value) {
  return JsonSchema(schema, "schema").problem(parse_json<Json>(value, "value")).empty();
}

TEST(JsonSchema, KeywordsHold) {
  const std::string call = R"({"type": "object", "required": ["name", "n"], "additionalProperties": false,
      "properties": {"name": {"enum": ["add", "sub"]}, "n": {"type": "array", "minItems": 2, "items": {"type": "number"}}}})";
  EXPECT_TRUE(valid(call, R"({"name": "add", "n": [1, 2.5]})"));
  for (const char* wrong :
       {R"({"name": "mul", "n": [1, 2]})", R"({"name": "add"})", R"({"name": "add", "n": [1]})",
        R"({"name": "add", "n": [1, "2"]})", R"({"name": "add", "n": [1, 2], "x": 0})", "[]"})
    EXPECT_FALSE(valid(call, wrong)) << wrong;
  EXPECT_TRUE(valid(R"({"type": "integer", "minimum": 1, "multipleOf": 0.5})", "2.0"));
  EXPECT_FALSE(valid(R"({"exclusiveMaximum": 3})", "3"));
  EXPECT_TRUE(valid(R"({"maxLength": 2})", R"("äö")"));
  EXPECT_FALSE(valid(R"({"pattern": "\\A[a-z]+\\z"})", R"("a1")"));
  EXPECT_TRUE(valid(R"({"anyOf": [{"type": "null"}, {"type": "string"}]})", "null"));
  EXPECT_FALSE(valid(R"({"oneOf": [{"minimum": 1}, {"maximum": 5}]})", "3"));
  EXPECT_FALSE(valid(R"({"not": {"const": 1}})", "1.0"));
  EXPECT_FALSE(valid(R"({"if": {"type": "string"}, "then": {"minLength": 2}, "else": {"minimum": 2}})", "1"));
  EXPECT_FALSE(valid(R"({"uniqueItems": true})", R"([{"a": 1, "b": 2}, {"b": 2, "a": 1}])"));
  EXPECT_TRUE(valid(R"({"prefixItems": [{"type": "string"}], "items": {"type": "number"}})", R"(["a", 1])"));
  EXPECT_FALSE(valid(R"({"patternProperties": {"\\Ax_": {"type": "number"}}})", R"({"x_a": "no"})"));
  EXPECT_FALSE(valid(R"({"contains": {"const": 3}})", "[1, 2]"));
}

TEST(JsonSchema, ReferencesAreFollowedAndMayRecur) {
  const std::string tree = R"({"$ref": "#/$defs/node", "$defs": {"node": {"type": "object", "required": ["v"],
      "properties": {"v": {"type": "integer"}, "next": {"$ref": "#/$defs/node"}}}}})";
  EXPECT_TRUE(valid(tree, R"({"v": 1, "next": {"v": 2}})"));
  EXPECT_EQ(JsonSchema(tree, "schema").problem(parse_json<Json>(R"({"v": 1, "next": {"v": "x"}})", "value")),
            "$.next.v: is string, not \"integer\"");
  EXPECT_FALSE(valid(R"({"$ref": "#"})", "1")) << "without an end";
  EXPECT_THROW(JsonSchema(R"({"$ref": "#/$defs/none"})", "schema"), InvalidConfig);
  EXPECT_THROW(valid(R"({"type": 5})", "1"), InvalidConfig);
}

}  // namespace
}  // namespace ingot
