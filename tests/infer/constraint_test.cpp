#include "ingot/infer/constraint.h"

#include <regex>

#include "tests/infer/scripted_model.h"
#include "tests/support/temporary_directory.h"
#include <gtest/gtest.h>

#include "ingot/base/error.h"
#include "ingot/infer/session.h"

namespace ingot::infer {
namespace {

using Kind = Constraint::Kind;

// A model that likes "one twz<eos>", and where it cannot have that, "a".
class ConstraintTest : public testing::Test {
 protected:
  ingot::test::TemporaryDirectory folder_;
  Session session_{{.model = ingot::test::write_scripted_model(
                        folder_.path(), ingot::test::script(ingot::test::scripted_id('x'), "one twz", 1))}};

  WrittenText write(Constraint constraint, TextOptions options = {.sampling = {.temperature = 0}}) {
    options.constraint = std::move(constraint);
    return session_.generate("x", options);
  }
};

TEST_F(ConstraintTest, TheTextIsCompleteWhereNothingCanFollow) {
  const WrittenText choice = write({.kind = Kind::choice, .choices = {"one", "zap"}});
  EXPECT_EQ(choice.text, "one");
  EXPECT_EQ(choice.generation.reason, StopReason::grammar_end);
  EXPECT_EQ(write({.kind = Kind::gbnf, .source = "root ::= \"tw\" [xyz] \"one\""}).text, "twzone");
  EXPECT_EQ(write({.kind = Kind::lark, .source = "start: \"tw\" /[xyz]/"}).text, "twz");
  EXPECT_EQ(write({.kind = Kind::json_schema, .source = R"({"type":"null"})"}).text, "null");
}

TEST_F(ConstraintTest, EndTokensComeOnlyWhereTheTextIsComplete) {
  const WrittenText twice = write({.kind = Kind::regex, .source = "(?:one twz){2}.*"});
  EXPECT_EQ(twice.text, "one twzone twz");  // the model would have ended after the first
  EXPECT_EQ(twice.generation.reason, StopReason::stop_token);
  const WrittenText longer =
      write({.kind = Kind::regex, .source = "[a-z ]+"}, {.sampling = {.temperature = 0, .min_tokens = 10}});
  EXPECT_GE(longer.generation.tokens.size(), 10U);
  const WrittenText stopped =
      write({.kind = Kind::regex, .source = "[a-z ]{30}"}, {.sampling = {.temperature = 0}, .stop = {"tw"}});
  EXPECT_EQ(stopped.text, "one ");
}

TEST_F(ConstraintTest, SpeculationAndNeighboursChangeNothing) {
  const Constraint constraint{.kind = Kind::regex, .source = "(?:(?:one|two|abc) ){8,}\\."};
  for (const double temperature : {0.0, 2.0}) {
    for (const std::uint64_t seed : {1, 2, 3}) {
      TextOptions options{.max_tokens = 100, .sampling = {.temperature = temperature, .seed = seed}};
      const WrittenText alone = write(constraint, options);
      options.speculate = 5;
      const WrittenText drafted = write(constraint, options);
      EXPECT_EQ(drafted.generation.tokens, alone.generation.tokens);
      options.constraint = constraint;
      session_.generate_all(std::vector<std::string>(3, "x"), options,
                            [&](const WrittenText& each) { EXPECT_EQ(each.text, alone.text); });
      if (alone.generation.reason == StopReason::grammar_end) {
        EXPECT_TRUE(std::regex_match(alone.text, std::regex(constraint.source))) << alone.text;
      }
    }
  }
}

TEST_F(ConstraintTest, LogprobsAreThoseOfTheModelItself) {
  TextOptions options{.sampling = {.temperature = 0}};
  options.constraint = {.kind = Kind::regex, .source = "zone"};
  Request request = session_.request(session_.encode("x"), options);
  request.logprobs = 1;
  const Generation made = session_.engine().generate(std::move(request));
  ASSERT_EQ(made.logprobs.size(), 4U);
  EXPECT_EQ(made.logprobs.front().top.front().id, ingot::test::scripted_id('o'));
  EXPECT_LT(made.logprobs.front().logprob, made.logprobs.front().top.front().logprob);
}

TEST_F(ConstraintTest, AWrongOneIsRefusedBeforeAnythingIsWritten) {
  EXPECT_THROW(write({.kind = Kind::regex, .source = "("}), InvalidConfig);
  EXPECT_THROW(write({.kind = Kind::json_schema, .source = R"({"not":{"type":"null"}})"}), InvalidConfig);
}

}  // namespace
}  // namespace ingot::infer
