// Studies whose trials say what they search.
#include "ingot/tune/open_space.h"

#include <atomic>
#include <cmath>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/temporary_directory.h"
#include <gtest/gtest.h>

#include "ingot/base/error.h"
#include "ingot/tune/tuner.h"

namespace ingot::tune {
namespace {

const Parameter kRate{.name = "rate", .low = 1e-4, .high = 1, .log = true};
const Parameter kLayers{.name = "layers", .kind = ParameterKind::integer, .low = 1, .high = 3};
const Parameter kKind = parameter_from_json("kind", R"({"choices": ["sgd", "adam", 16, "16", null]})");

TunerOptions open_options(std::int64_t trials, const std::string& study = "") {
  return {.space = {.open = true}, .sampler = {.seed = 1}, .trials = trials, .study = study};
}

std::string params(Tuner& tuner, const Trial& trial) { return tuner.parameters(trial); }

TEST(OpenSpace, TrialsHaveTheParametersThatTheyAskedForAndNoOthers) {
  Tuner tuner(open_options(2));
  Trial first = *tuner.suggest(), second = *tuner.suggest();
  EXPECT_EQ(params(tuner, first), "{}");
  const double rate = tuner.choose(first, kRate);
  EXPECT_GE(rate, 1e-4);
  EXPECT_LE(rate, 1);
  tuner.choose(second, kLayers);
  EXPECT_EQ(params(tuner, second).find("rate"), std::string::npos);
  EXPECT_EQ(params(tuner, first).find("layers"), std::string::npos);
  EXPECT_FALSE(tuner.suggest().has_value());
}

TEST(OpenSpace, AskedAgainAParameterHasTheSameValue) {
  Tuner tuner(open_options(1));
  Trial trial = *tuner.suggest();
  const double rate = tuner.choose(trial, kRate);
  tuner.choose(trial, kLayers);
  EXPECT_EQ(tuner.choose(trial, kRate), rate);
  const Parameter elsewhere{.name = "rate", .low = 2, .high = 3, .log = true};
  EXPECT_GE(tuner.choose(trial, elsewhere), 2);
}

TEST(OpenSpace, RangesMayDifferAndKindsMayNot) {
  Tuner tuner(open_options(2));
  Trial trial = *tuner.suggest();
  tuner.choose(trial, kLayers);
  const Parameter wider{.name = "layers", .kind = ParameterKind::integer, .low = 2, .high = 9};
  EXPECT_GE(tuner.choose(trial, wider), 2);
  EXPECT_EQ(tuner.space().parameters[0].high, 9);
  EXPECT_EQ(tuner.space().parameters[0].low, 1);
  const Parameter real{.name = "layers", .low = 1, .high = 3};
  EXPECT_THROW(tuner.choose(trial, real), InvalidConfig);
  EXPECT_NO_THROW(tuner.choose(trial, kRate)) << "what was refused leaves the study as it was";
}

TEST(OpenSpace, ChoicesKeepTheirTypes) {
  EXPECT_EQ(kKind.choices, (std::vector<std::string>{"sgd", "adam", "16", "\"16\"", "null"}));
  SearchSpace space{{kKind}};
  EXPECT_EQ(space.to_json({2}), R"({"kind":16})");
  EXPECT_EQ(space.to_json({3}), R"({"kind":"16"})");
  EXPECT_THROW(parameter_from_json("kind", R"({"choices": []})"), InvalidConfig);
  EXPECT_THROW(parameter_from_json("x", R"({"type": "float", "low": "a", "high": 1})"), InvalidConfig);
  EXPECT_THROW(parameter_from_json("x", R"({"type": "float", "low": 1})"), InvalidConfig);
  EXPECT_THROW(parameter_from_json("x", "[]"), InvalidConfig);
}

TEST(OpenSpace, AStudysFileKeepsTheSpaceAndTheTrials) {
  const test::TemporaryDirectory folder;
  const std::string study = folder.at("study.db");
  std::string before;
  {
    Tuner tuner(open_options(3, study));
    Trial trial = *tuner.suggest();
    tuner.choose(trial, kKind);
    tuner.choose(trial, kRate);
    tuner.complete(trial, 1);
    before = params(tuner, trial);
  }
  Tuner again(open_options(3, study));
  ASSERT_EQ(again.trials().size(), 1U);
  EXPECT_EQ(params(again, again.trials()[0]), before);
  TunerOptions closed = open_options(3, study);
  closed.space = {{kRate}};
  EXPECT_THROW(Tuner{closed}, InvalidConfig);
}

TEST(OpenSpace, TwoConnectionsSeeWhatEitherAdds) {
  const test::TemporaryDirectory folder;
  const std::string study = folder.at("study.db");
  Tuner one(open_options(4, study)), two(open_options(4, study));
  Trial of_one = *one.suggest(), of_two = *two.suggest();
  one.choose(of_one, kRate);
  two.choose(of_two, kLayers);
  two.choose(of_two, kRate);
  one.choose(of_one, kLayers);
  one.complete(of_one, 1);
  two.complete(of_two, 2);
  for (const Trial& trial : one.trials())
    for (const double value : trial.values) EXPECT_FALSE(std::isnan(value)) << trial.number;
  EXPECT_EQ(one.space().size(), 2U);
}

TEST(OpenSpace, WhoReadsWhileAnotherAddsMissesNothing) {
  const test::TemporaryDirectory folder;
  const std::string study = folder.at("study.db");
  Tuner reader(open_options(40, study));
  std::atomic<bool> done = false;
  std::thread writer([&] {
    Tuner tuner(open_options(40, study));
    for (int i = 0; i < 40; ++i) {
      Trial trial = *tuner.suggest();
      // Beyond what the study knew, and under a new name.
      tuner.choose(trial, {.name = "x", .low = i + 0.5, .high = i + 1.0});
      tuner.choose(trial, {.name = "y" + std::to_string(i)});
      tuner.complete(trial, i);
    }
    done = true;
  });
  while (!done) EXPECT_NO_THROW(reader.trials());
  writer.join();
  const std::vector<Trial> trials = reader.trials();
  ASSERT_EQ(trials.size(), 40U);
  for (const Trial& trial : trials) {
    const std::string text = reader.parameters(trial);
    EXPECT_NE(text.find("\"x\""), std::string::npos) << text;
    EXPECT_NE(text.find("\"y" + std::to_string(trial.number) + "\""), std::string::npos) << text;
  }
}

TEST(OpenSpace, TheSearchFindsAMinimumOfConditionalParameters) {
  Tuner tuner(open_options(60));
  const Parameter x{.name = "x", .low = -2, .high = 2}, y{.name = "y", .low = -2, .high = 2};
  const Parameter kind = parameter_from_json("kind", R"({"choices": ["a", "b"]})");
  while (std::optional<Trial> trial = tuner.suggest()) {
    const bool a = tuner.choose(*trial, kind) == 0;
    const double value = a ? tuner.choose(*trial, x) - 1 : tuner.choose(*trial, y) + 1;
    tuner.complete(*trial, value * value + (a ? 0 : 1));
  }
  EXPECT_LT(tuner.best_trial()->value, 0.02);
}

TEST(OpenSpace, EqualSeedsDrawEqualValuesAndParametersDiffer) {
  const auto draw = [] {
    Tuner tuner(open_options(1));
    Trial trial = *tuner.suggest();
    Parameter one{.name = "one"}, two{.name = "two"};
    return std::pair(tuner.choose(trial, one), tuner.choose(trial, two));
  };
  EXPECT_EQ(draw(), draw());
  EXPECT_NE(draw().first, draw().second);
}

TEST(OpenSpace, AGridAndAGivenSpaceSayWhatTheyCannot) {
  TunerOptions grid = open_options(2);
  grid.sampler.type = "grid";
  EXPECT_THROW(Tuner{grid}, InvalidConfig);
  Tuner given({.space = {{kRate}}, .trials = 1});
  Trial trial = *given.suggest();
  EXPECT_THROW(given.choose(trial, kLayers), InvalidConfig);
}

}  // namespace
}  // namespace ingot::tune
