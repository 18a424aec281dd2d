#include "ingot/tune/sampler.h"

#include <cmath>
#include <limits>
#include <map>
#include <set>

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "ingot/base/config.h"
#include "ingot/base/error.h"
#include "ingot/tune/importance.h"
#include "ingot/tune/pruner.h"
#include "ingot/tune/random_values.h"

namespace ingot::tune {
namespace {

SearchSpace parse_space(const std::string& yaml) {
  SearchSpace space = read_search_space(Config::parse(yaml).root());
  space.validate();
  return space;
}

std::string failure(const std::string& yaml) {
  try {
    parse_space(yaml);
  } catch (const InvalidConfig& error) {
    return error.what();
  }
  return "nothing was thrown";
}

SearchSpace any_space() {
  SearchSpace space;
  space.parameters.push_back(
      {.name = "root", .kind = ParameterKind::categorical, .choices = {"a", "b", "c"}});
  const int count = *rc::gen::inRange(1, 5);
  for (int i = 0; i < count; ++i) {
    Parameter p{.name = "p" + std::to_string(i)};
    p.kind = *rc::gen::element(ParameterKind::real, ParameterKind::integer, ParameterKind::categorical);
    if (p.kind == ParameterKind::categorical) {
      p.choices = {"x", "y"};
    } else {
      p.low = *rc::gen::inRange(1, 50);
      p.high = p.low + *rc::gen::inRange(0, 100);
      p.log = *rc::gen::arbitrary<bool>();
      if (!p.log && p.kind == ParameterKind::real && p.high > p.low)
        p.step = *rc::gen::element(0.0, 0.25, 1.0);
    }
    if (*rc::gen::arbitrary<bool>()) {
      p.parent = 0;
      p.parent_choices = {*rc::gen::inRange<std::int64_t>(0, 3)};
    }
    space.parameters.push_back(p);
  }
  space.validate();
  return space;
}

RC_GTEST_PROP(Samplers, StayInTheSpaceAndDependOnSeedAndNumberAlone, ()) {
  const SearchSpace space = any_space();
  const std::string type = *rc::gen::element<std::string>("tpe", "random");
  SamplerOptions options{.type = type, .seed = *rc::gen::arbitrary<std::uint64_t>(), .startup_trials = 3};
  options.multivariate = *rc::gen::arbitrary<bool>();
  const auto sampler = make_sampler(options, space, Direction::maximize);
  const auto again = make_sampler(options, space, Direction::maximize);
  std::vector<Trial> trials;
  for (std::int64_t number = 0; number < 25; ++number) {
    const Values values = sampler->sample(number, trials);
    RC_ASSERT(space.contains(values));
    RC_ASSERT(space.to_json(again->sample(number, trials)) == space.to_json(values));
    const Values back = space.from_json(space.to_json(values));
    RC_ASSERT(space.contains(back));
    RC_ASSERT(space.to_json(back) == space.to_json(values));
    Trial trial{.number = number, .values = values, .value = static_cast<double>(number % 7)};
    trial.state = number % 5 == 4   ? TrialState::pruned
                  : number % 5 == 3 ? TrialState::running
                                    : TrialState::complete;
    if (trial.state == TrialState::pruned) trial.reports = {{number, 0.5}};
    trials.push_back(trial);
  }
}

TEST(Samplers, GiveEveryValueItsShareWhereTheStepDoesNotDivideTheRange) {
  const SearchSpace space =
      parse_space("{i: {type: int, low: 0, high: 11, step: 4}, x: {low: 1, high: 2, step: 0.3}}");
  const auto sampler = make_random_sampler({.type = "random"}, space);
  constexpr int kDraws = 3000;
  std::map<double, int> whole, real;
  for (std::int64_t number = 0; number < kDraws; ++number) {
    const Values values = sampler->sample(number, {});
    ++whole[values[0]];
    ++real[values[1]];
  }
  const auto chi_square = [](const std::map<double, int>& counts) {
    const double expected = double(kDraws) / static_cast<double>(counts.size());
    double sum = 0;
    for (const auto& [value, count] : counts) sum += std::pow(count - expected, 2) / expected;
    return sum;
  };
  ASSERT_EQ(whole.size(), 3U);
  ASSERT_EQ(real.size(), 4U);
  EXPECT_LT(chi_square(whole), 13.8);  // once in a thousand
  EXPECT_LT(chi_square(real), 16.3);
}

RC_GTEST_PROP(Samplers, AGridVisitsEveryPointOnce, ()) {
  const int a = *rc::gen::inRange(1, 6), b = *rc::gen::inRange(1, 6);
  SearchSpace space{
      {{.name = "kind", .kind = ParameterKind::categorical, .choices = {"x", "y"}},
       {.name = "a", .kind = ParameterKind::integer, .low = 1, .high = static_cast<double>(a)},
       {.name = "b", .kind = ParameterKind::integer, .low = 1, .high = static_cast<double>(b)}}};
  space.parameters[2].parent = 0;
  space.parameters[2].parent_choices = {1};
  const auto grid = make_grid_sampler(space);
  const std::int64_t points = a + a * b;
  std::set<std::string> seen;
  std::vector<Trial> trials;
  // Others may have been there before, who chose as they liked.
  const int before = *rc::gen::inRange(0, 10);
  for (std::int64_t number = 0; number < before; ++number) {
    trials.push_back(
        {.number = number, .values = random_values(space, Rng(static_cast<std::uint64_t>(number)))});
    seen.insert(space.to_json(trials.back().values));
  }
  while (grid->left(trials) > 0) {
    RC_ASSERT(grid->left(trials) == points - std::ssize(seen));
    const auto number = std::ssize(trials);
    trials.push_back({.number = number, .values = grid->sample(number, trials)});
    RC_ASSERT(space.contains(trials.back().values));
    RC_ASSERT(seen.insert(space.to_json(trials.back().values)).second);
  }
  RC_ASSERT(std::ssize(seen) == points);
}

TEST(Samplers, AGridOfAMillionPointsIsQuick) {
  const SearchSpace space =
      parse_space("{a: {type: int, low: 1, high: 1000}, b: {type: int, low: 1, high: 1000}}");
  const auto grid = make_grid_sampler(space);
  std::vector<Trial> trials;
  for (std::int64_t number = 0; number < 100'000; ++number) {
    trials.push_back({.number = number, .values = grid->sample(number, trials)});
  }
  EXPECT_EQ(grid->left(trials), 900'000);
}

TEST(Samplers, TpeFindsWhatRandomSearchDoesNot) {
  const SearchSpace space = parse_space("{x: {low: -5, high: 5}, rate: {low: 1e-6, high: 1, log: true}}");
  const auto best_of_search = [&](const std::string& type, std::uint64_t seed) {
    const auto sampler = make_sampler({.type = type, .seed = seed}, space, Direction::minimize);
    std::vector<Trial> trials;
    double best = INFINITY;
    for (std::int64_t number = 0; number < 60; ++number) {
      Trial trial{.number = number, .state = TrialState::complete, .values = sampler->sample(number, trials)};
      trial.value = std::pow(trial.values[0] - 2, 2) + std::pow(std::log10(trial.values[1]) + 3, 2);
      best = std::min(best, trial.value);
      trials.push_back(trial);
    }
    return best;
  };
  int wins = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed)
    wins += best_of_search("tpe", seed) < best_of_search("random", seed);
  EXPECT_GE(wins, 16);
}

TEST(SearchSpace, ChoicesKeepTheirTypesInJsonInYamlAndInAProgramsArguments) {
  const SearchSpace space =
      parse_space(R"({c: {choices: [16, "16", null, "null", true, 0.5, "a: b", [1, 2]]}})");
  const std::vector<std::string> json{"16",   R"("16")", "null",      R"("null")",
                                      "true", "0.5",     R"("a: b")", "[1,2]"};
  const std::vector<std::string> words{"16", "16", "null", "null", "true", "0.5", "a: b", "[1,2]"};
  const std::vector<std::string> yaml{"16",   R"("16")", "null",      R"("null")",
                                      "true", "0.5",     R"("a: b")", "[1,2]"};
  for (std::size_t c = 0; c < json.size(); ++c) {
    const Values values{static_cast<double>(c)};
    EXPECT_EQ(space.to_json(values), R"({"c":)" + json[c] + "}");
    EXPECT_EQ(space.from_json(space.to_json(values)), values) << json[c];
    EXPECT_EQ(space.word(0, values[0]), words[c]);
    EXPECT_EQ(space.yaml(0, values[0]), yaml[c]);
  }
}

TEST(SearchSpace, ValuesThatAStudyStoredAsTextAreStillItsChoices) {
  const SearchSpace space = parse_space("{c: {choices: [16, 32]}}");
  EXPECT_EQ(space.from_json(R"({"c": "32"})"), Values{1});
  EXPECT_TRUE(std::isnan(space.from_json(R"({"c": "64"})")[0]));
}

// The best values lie beside those that make trials fail, as the largest batch that a GPU holds does.
TEST(Samplers, TpeDoesNotGoOnWhereTrialsFail) {
  const SearchSpace space = parse_space("{x: {low: -3, high: 3}, kind: {choices: [a, b]}}");
  int failed = 0;
  double worst = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const auto sampler = make_sampler({.type = "tpe", .seed = seed}, space, Direction::minimize);
    std::vector<Trial> trials;
    double best = INFINITY;
    for (std::int64_t number = 0; number < 60; ++number) {
      Trial trial{.number = number, .state = TrialState::failed, .values = sampler->sample(number, trials)};
      if (const double x = trial.values[0]; x < 2) {
        trial.state = TrialState::complete;
        trial.value = 2 - x;
        best = std::min(best, trial.value);
      }
      failed += number >= 20 && trial.state == TrialState::failed ? 1 : 0;
      trials.push_back(trial);
    }
    worst = std::max(worst, best);
  }
  EXPECT_LT(failed, 20 * 40 / 2);
  EXPECT_LT(worst, 0.2);
}

// Trials of the objective `value`, as a study of one worker makes them.
template <class F>
std::vector<Trial> search(const SearchSpace& space, const SamplerOptions& options, F&& value,
                          std::int64_t count = 40) {
  const auto sampler = make_sampler(options, space, Direction::minimize);
  std::vector<Trial> trials;
  for (std::int64_t number = 0; number < count; ++number) {
    Trial trial{.number = number, .state = TrialState::complete, .values = sampler->sample(number, trials)};
    trial.value = value(trial.values);
    trials.push_back(trial);
  }
  return trials;
}

TEST(Samplers, AParameterOfOneValueChangesNothing) {
  const auto value = [](const Values& values) { return std::abs(values[0] - 2) + std::abs(values[1] - 3); };
  const std::string x = "x: {low: -5, high: 5}, y: {low: -5, high: 5}";
  const auto plain = search(parse_space("{" + x + "}"), {}, value);
  for (const char* fixed : {"f: {low: 2, high: 2}", "f: {type: int, low: 2, high: 2}", "f: {choices: [a]}",
                            "f: {low: 2, high: 2, log: true}"}) {
    const SearchSpace space = parse_space("{" + x + ", " + fixed + "}");
    const auto trials = search(space, {}, value);
    for (std::size_t i = 0; i < plain.size(); ++i) {
      EXPECT_EQ(trials[i].values[0], plain[i].values[0]) << fixed;
      EXPECT_EQ(trials[i].values[1], plain[i].values[1]) << fixed;
      EXPECT_TRUE(space.contains(trials[i].values)) << fixed;
    }
  }
}

TEST(Samplers, SearchTheWidestRangesThereAre) {
  for (const char* yaml : {"x: {low: 1e308, high: 1.7e308}", "x: {low: -8e307, high: 8e307}",
                           "x: {low: 1e-300, high: 1e300, log: true}"}) {
    const SearchSpace space = parse_space(yaml);
    const auto trials = search(space, {}, [](const Values& values) { return std::log(std::abs(values[0])); });
    std::set<double> different;
    for (const Trial& trial : trials) {
      EXPECT_TRUE(space.contains(trial.values)) << yaml;
      different.insert(trial.values[0]);
    }
    EXPECT_GT(different.size(), 35U) << yaml;
    const std::vector<double> shares = parameter_importance(space, trials, Direction::minimize);
    ASSERT_EQ(shares.size(), 1U) << yaml;
    EXPECT_NEAR(shares[0], 1, 1e-9) << yaml;
  }
}

TEST(SearchSpaces, SayWhichKeyIsWrongAndWhatToDo) {
  EXPECT_NE(failure("x: {low: 2, high: 1}").find("space.x.low: 2 is above high 1"), std::string::npos);
  EXPECT_NE(failure("x: {low: 0, high: 1, log: true}").find("needs low > 0"), std::string::npos);
  EXPECT_NE(failure("x: {type: int, low: 0.5, high: 3}").find("whole number"), std::string::npos);
  EXPECT_NE(failure("x: {choices: [a, a]}").find("lists 'a' twice"), std::string::npos);
  EXPECT_NE(failure("x: {type: flaot, low: 0, high: 1}").find("float"), std::string::npos);
  EXPECT_NE(failure("{c: {choices: [a, b]}, x: {low: 0, high: 1, when: {d: a}}}").find("did you mean 'c'"),
            std::string::npos);
  EXPECT_NE(failure("{c: {choices: [sgd, adam]}, x: {low: 0, high: 1, when: {c: adm}}}")
                .find("did you mean 'adam'"),
            std::string::npos);
  EXPECT_NE(failure("{}").find("is empty"), std::string::npos);
  EXPECT_NE(failure("x: {low: -1e308, high: 1e308}").find("space.x.high: 1e+308 is too far from low -1e+308"),
            std::string::npos);
  EXPECT_NE(failure("x: {low: 0, high: 1, step: 1e-20}").find("space.x.step: 1e-20 is too fine"),
            std::string::npos);
}

Trial with_reports(std::int64_t number, TrialState state, std::vector<double> values) {
  Trial trial{.number = number, .state = state};
  for (const double value : values) {
    trial.reports.push_back({static_cast<std::int64_t>(trial.reports.size()) + 1, value});
  }
  return trial;
}

TEST(Pruners, TheMedianLooksAtCompleteTrialsAtTheSameStep) {
  PrunerOptions options{.type = "median", .startup_trials = 3};
  std::vector<Trial> trials{
      with_reports(0, TrialState::complete, {5, 1}), with_reports(1, TrialState::complete, {6, 2}),
      with_reports(2, TrialState::complete, {7, 3}), with_reports(3, TrialState::pruned, {0, 0})};
  EXPECT_FALSE(should_prune(options, Direction::minimize, with_reports(9, TrialState::running, {6}), trials));
  EXPECT_TRUE(
      should_prune(options, Direction::minimize, with_reports(9, TrialState::running, {6.1}), trials));
  EXPECT_FALSE(
      should_prune(options, Direction::maximize, with_reports(9, TrialState::running, {6.1}), trials));
  // Its best so far counts, not its last.
  EXPECT_FALSE(
      should_prune(options, Direction::minimize, with_reports(9, TrialState::running, {1.5, 9}), trials));
  EXPECT_TRUE(
      should_prune(options, Direction::minimize, with_reports(9, TrialState::running, {NAN}), trials));
  options.startup_trials = 4;
  EXPECT_FALSE(
      should_prune(options, Direction::minimize, with_reports(9, TrialState::running, {99}), trials));
}

// However the losses fall: a trial goes past a rung only when it is among the best 1/η that got there.
RC_GTEST_PROP(Pruners, AshaKeepsTheBestPartOfEveryRung, ()) {
  const PrunerOptions options{.type = "asha", .min_resource = 1, .reduction_factor = 3};
  std::vector<Trial> trials;
  const int count = *rc::gen::inRange(1, 40);
  for (int number = 0; number < count; ++number) {
    const double loss = *rc::gen::inRange(0, 1000);
    Trial trial{.number = number, .state = TrialState::running};
    for (std::int64_t step = 1; step <= 9; ++step) {
      trial.reports.push_back({step, loss});
      int there = 1, ahead = 0;
      for (const Trial& other : trials) {
        if (other.reports.back().step < step) continue;
        ++there;
        ahead += other.reports.back().value < loss ? 1 : 0;
      }
      const bool rung = step == 1 || step == 3 || step == 9;
      const bool prune = should_prune(options, Direction::minimize, trial, trials);
      RC_ASSERT(prune == (rung && ahead >= std::max(1, there / 3)));
      if (!prune) continue;
      trial.state = TrialState::pruned;
      break;
    }
    trials.push_back(trial);
  }
}

TEST(Importance, TellsWhatMattersFromWhatDoesNot) {
  const SearchSpace space = parse_space(
      "{a: {low: 0, high: 1}, b: {low: 0, high: 1}, c: {choices: [u, v]}, idle: {low: 1, high: 9}}");
  const auto sampler = make_random_sampler({.type = "random"}, space);
  std::vector<Trial> trials;
  for (std::int64_t number = 0; number < 300; ++number) {
    Trial trial{.number = number, .state = TrialState::complete, .values = sampler->sample(number, {})};
    // Variances: 9/12 = 0.75, 1/12 = 0.083, 1/4 · 0.64 = 0.16: shares 0.76, 0.08, 0.16.
    trial.value = 3 * trial.values[0] + trial.values[1] + 0.8 * trial.values[2];
    trials.push_back(trial);
  }
  const std::vector<double> shares = parameter_importance(space, trials, Direction::minimize);
  ASSERT_EQ(shares.size(), 4U);
  EXPECT_NEAR(shares[0], 0.76, 0.08);
  EXPECT_NEAR(shares[1], 0.08, 0.05);
  EXPECT_NEAR(shares[2], 0.16, 0.06);
  EXPECT_LT(shares[3], 0.02);
}

// Its trials crowd at the optimum; the few that lie far from it carry the effects.
TEST(Importance, IsThatOfTheWholeSpaceInAStudyOfTpe) {
  const SearchSpace space = parse_space(
      "{a: {low: 0, high: 1}, b: {low: 0, high: 1}, idle: {low: 0, high: 1}, "
      "rate: {low: 1e-5, high: 1e-1, log: true}}");
  // Shares: 0.96, 0.03, 0, 0.01.
  const auto value = [](const Values& v) {
    return 30 * std::pow(v[0] - 0.3, 2) + 10 * std::pow(v[1] - 0.5, 2) + 0.2 * std::log10(v[3]);
  };
  constexpr std::uint64_t kStudies = 10;
  std::vector<double> mean(4);
  for (std::uint64_t seed = 0; seed < kStudies; ++seed) {
    const auto trials = search(space, {.seed = seed}, value, 150);
    const std::vector<double> shares = parameter_importance(space, trials, Direction::minimize);
    ASSERT_EQ(shares.size(), 4U);
    for (std::size_t i = 1; i < 4; ++i) EXPECT_GT(shares[0], 1.5 * shares[i]) << seed << " " << i;
    for (std::size_t i = 0; i < 4; ++i) mean[i] += shares[i] / kStudies;
  }
  // That of Optuna on such trials gives 0.77, 0.12, 0.08, 0.04 in the mean.
  EXPECT_GT(mean[0], 0.65);
  EXPECT_LT(mean[1], 0.15);
  EXPECT_LT(mean[2], 0.08);
  EXPECT_LT(mean[3], 0.12);
}

TEST(Importance, IsNotThatOfTheTrialsThatBlewUp) {
  const SearchSpace space = parse_space("{a: {low: 0, high: 1}, b: {low: 0, high: 1}}");
  for (const double absurd : {1e30, 1e308, std::numeric_limits<double>::infinity(), -1e30}) {
    auto trials = search(
        space, {.type = "random"}, [](const Values& v) { return 3 * v[0] + v[1]; }, 200);
    for (const std::size_t i : {3U, 70U, 150U}) trials[i].value = absurd * (1 + trials[i].values[1]);
    const std::vector<double> shares = parameter_importance(space, trials, Direction::minimize);
    ASSERT_EQ(shares.size(), 2U) << absurd;
    EXPECT_NEAR(shares[0], 0.9, 0.1) << absurd;
    EXPECT_NEAR(shares[1], 0.1, 0.08) << absurd;
  }
}

// Where most trials have found the optimum, what lies far from it is the effect, however small the noise is.
TEST(Importance, SeesTheFewTrialsOfABadChoice) {
  const SearchSpace space = parse_space("{c: {choices: [good, bad]}, noise: {low: 0, high: 1}}");
  auto trials = search(
      space, {.type = "random"}, [](const Values& v) { return 0.25 + 1e-7 * v[1]; }, 200);
  for (std::size_t i = 0; i < trials.size(); ++i) {
    trials[i].values[0] = i % 10 == 0 ? 1 : 0;
    if (i % 10 == 0) trials[i].value += 2;
  }
  const std::vector<double> shares = parameter_importance(space, trials, Direction::minimize);
  ASSERT_EQ(shares.size(), 2U);
  EXPECT_GT(shares[0], 0.99);
}

TEST(Importance, TellsNeighboursOfDoublesApart) {
  const double next = std::nextafter(1.0, 2.0);
  const SearchSpace space{{{.name = "x", .low = 0, .high = 1024}}};
  std::vector<Trial> trials;
  for (std::int64_t number = 0; number < 20; ++number) {
    const bool right = number % 2 == 1;
    trials.push_back({.number = number,
                      .state = TrialState::complete,
                      .values = {right ? next : 1.0},
                      .value = right ? 1.0 : 0.0});
  }
  EXPECT_EQ(parameter_importance(space, trials, Direction::minimize).size(), 1U);
}

}  // namespace
}  // namespace ingot::tune
