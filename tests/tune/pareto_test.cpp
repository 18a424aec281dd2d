// Studies of several objectives.
#include "ingot/tune/pareto.h"

#include <cmath>
#include <set>

#include "tests/support/temporary_directory.h"
#include <gtest/gtest.h>

#include "ingot/base/error.h"
#include "ingot/tune/tuner.h"

namespace ingot::tune {
namespace {

const std::vector<Goal> kGoals{{"loss", Direction::minimize}, {"accuracy", Direction::maximize}};

std::vector<Trial> trials_of(const std::vector<std::vector<double>>& objectives) {
  std::vector<Trial> trials;
  for (const auto& values : objectives) {
    Trial& trial = trials.emplace_back();
    trial.number = std::ssize(trials) - 1;
    trial.state = TrialState::complete;
    trial.value = values[0];
    trial.objectives = values;
  }
  return trials;
}

TEST(Pareto, SortsTrialsIntoFrontsAndThoseThatStandApartFirst) {
  // 0, 1, 2, 5 dominate each other nowhere; 3 is behind 1, 4 behind 3; 6 equals 1.
  std::vector<Trial> trials =
      trials_of({{1, 0.5}, {2, 0.8}, {4, 0.9}, {3, 0.8}, {3, 0.7}, {1.9, 0.79}, {2, 0.8}});
  trials.push_back({.number = 7, .state = TrialState::failed});
  const auto fronts = pareto_fronts(trials, kGoals);
  ASSERT_EQ(fronts.size(), 3U);
  EXPECT_EQ(std::set<std::size_t>(fronts[0].begin(), fronts[0].end()),
            (std::set<std::size_t>{0, 1, 2, 5, 6}));
  EXPECT_EQ((std::set<std::size_t>{fronts[0][0], fronts[0][1]}), (std::set<std::size_t>{0, 2}));  // the ends
  EXPECT_EQ(fronts[1], (std::vector<std::size_t>{3}));
  EXPECT_EQ(fronts[2], (std::vector<std::size_t>{4}));
  std::vector<std::int64_t> numbers;
  for (const Trial& trial : pareto_front(trials, kGoals)) numbers.push_back(trial.number);
  EXPECT_EQ(numbers, (std::vector<std::int64_t>{0, 5, 1, 6, 2}));
}

TEST(Pareto, AStudyOfTwoObjectivesComesNearTheFrontAndGoesOn) {
  const test::TemporaryDirectory directory;
  // The front is x in [0, 1] with y = 0, where the objectives are x² and (x − 1)².
  TunerOptions options{.space = {{{.name = "x", .low = -2, .high = 2}, {.name = "y", .low = 0, .high = 2}}},
                       .goals = {{"left", Direction::minimize}, {"right", Direction::minimize}},
                       .trials = 40,
                       .study = directory.at("study.db")};
  const auto run = [&] {
    Tuner tuner(options);
    while (auto trial = tuner.suggest()) {
      const double x = trial->values[0], y = trial->values[1];
      tuner.complete(*trial, {x * x + y, (x - 1) * (x - 1) + y});
    }
    return tuner.best_trials();
  };
  EXPECT_GE(run().size(), 3U);
  options.trials = 120;
  const std::vector<Trial> front = run();
  EXPECT_GE(front.size(), 8U);
  double distance = 0;
  for (const Trial& trial : front) {
    EXPECT_EQ(trial.objectives.size(), 2U);
    distance += trial.values[1] / static_cast<double>(front.size());
  }
  EXPECT_LT(distance, 0.25);  // of random points 1
}

TEST(Pareto, WhatOneValueIsNeededForIsRefused) {
  TunerOptions options{.space = {{{.name = "x", .low = 0, .high = 1}}}, .goals = kGoals, .trials = 2};
  {
    Tuner tuner(options);
    auto trial = tuner.suggest();
    EXPECT_THROW(tuner.complete(*trial, 1.0), InvalidConfig);
    tuner.complete(*trial, {1, std::nan("")});
    EXPECT_EQ(tuner.trials()[0].state, TrialState::failed);
  }
  options.pruner.type = "median";
  EXPECT_THROW(Tuner tuner(options), InvalidConfig);
  options.pruner.type = "none";
  options.goals[1].name = "loss";
  EXPECT_THROW(Tuner tuner(options), InvalidConfig);
}

}  // namespace
}  // namespace ingot::tune
