#include "ingot/train/loss_watch.h"

#include <algorithm>
#include <cmath>

#include "tests/support/temporary_directory.h"
#include "tests/train/table_task.h"
#include <gtest/gtest.h>

#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/train/trainer.h"

// What a run does about a loss that rises or no longer falls.
namespace ingot {
namespace {

using test::TableTask;

std::vector<std::vector<float>> weights_of(TrainTask& task) {
  std::vector<std::vector<float>> weights;
  for (const Parameter* parameter : parameters(task.model()))
    weights.push_back(parameter->value.detach().to_vector<float>());
  return weights;
}

std::vector<std::int64_t> steps_of(const std::vector<EventRecord>& events) {
  std::vector<std::int64_t> steps;
  for (const EventRecord& event : events) steps.push_back(event.step);
  return steps;
}

// A loss that swings a little around 2, and what the steps named have in its place.
std::vector<EventRecord> note_steps(LossWatch& watch, std::int64_t first, std::int64_t last,
                                    const std::vector<std::int64_t>& spikes, double loss = 4,
                                    double norm = 1) {
  std::vector<EventRecord> events;
  for (std::int64_t step = first; step <= last; ++step) {
    const bool spike = std::ranges::find(spikes, step) != spikes.end();
    const double swing = step % 2 == 0 ? 0.1 : -0.1;
    const auto more =
        watch.note({.step = step, .loss = spike ? loss : 2 + swing, .grad_norm = spike ? norm : 1 + swing});
    events.insert(events.end(), more.begin(), more.end());
  }
  return events;
}

class LossWatchTest : public ::testing::Test {
 protected:
  TrainerOptions options(const std::string& output, const LossWatchConfig& watch) const {
    return {.total_steps = 130,
            .loss_watch = watch,
            .checkpoints = CheckpointDirectory(directory_.at(output)),
            .save_steps = 20};
  }
  RunInfo info(const std::string& output) const { return {.output_dir = directory_.at(output)}; }

  const test::TemporaryDirectory directory_;
};

TEST_F(LossWatchTest, WhatIsNotAskedForChangesNoBit) {
  TableTask plain({.garbage_step = 60}), watched({.garbage_step = 60});
  Trainer(plain, {.total_steps = 130}).run();
  Trainer trainer(watched, {.total_steps = 130, .loss_watch = {.threshold = 1e6, .plateau_steps = 40}});
  trainer.run();
  EXPECT_EQ(weights_of(plain), weights_of(watched));
  TableTask calm({}), guarded({});
  Trainer(calm, {.total_steps = 130}).run();
  Trainer guard(guarded, {.total_steps = 130, .loss_watch = {.reduces_on_spikes = true}});
  guard.run();
  EXPECT_TRUE(guard.history().events().empty());
  EXPECT_EQ(weights_of(calm), weights_of(guarded));
}

TEST_F(LossWatchTest, ASpikeHalvesTheLearningRateForFiftySteps) {
  TableTask task({.garbage_step = 60});
  Trainer trainer(task, {.total_steps = 130, .loss_watch = {.reduces_on_spikes = true}});
  EXPECT_EQ(trainer.run(), TrainEnd::finished);
  ASSERT_EQ(steps_of(trainer.history().events()), (std::vector<std::int64_t>{60}));
  EXPECT_EQ(trainer.history().events()[0].kind, "loss_spike");
  EXPECT_NE(trainer.history().events()[0].text.find("halved in steps 62 to 111 (reduction 1 of 5)"),
            std::string::npos)
      << trainer.history().events()[0].text;
  for (const StepRecord& step : trainer.history().steps())
    EXPECT_EQ(step.learning_rate, step.step >= 62 && step.step <= 111 ? 0.025 : 0.05) << step.step;
}

TEST_F(LossWatchTest, ResumingAmongReducedStepsGivesTheSameBits) {
  const LossWatchConfig watch{
      .reduces_on_spikes = true, .plateau_steps = 30, .plateau_action = PlateauAction::reduce};
  TableTask whole({.garbage_step = 60}), unguarded({.garbage_step = 60});
  Trainer expected(whole, options("whole", watch));
  expected.run();
  Trainer(unguarded, {.total_steps = 130}).run();
  EXPECT_NE(weights_of(whole), weights_of(unguarded));
  for (const int killed_after : {61, 85, 113}) {  // resumed at 60, where the spike is, 80 and 100
    const std::string output = std::to_string(killed_after);
    {
      TableTask first({.garbage_step = 60});
      Trainer killed(first, options(output, watch));
      for (int i = 0; i < killed_after; ++i) killed.step();
    }
    TableTask second({.garbage_step = 60});
    Trainer resumed(second, options(output, watch));
    resumed.resume(*options(output, watch).checkpoints->newest());
    resumed.run();
    EXPECT_EQ(weights_of(second), weights_of(whole)) << killed_after;
  }
}

TEST_F(LossWatchTest, TheThirdSpikeCountsForTheRestOfTheRunAndTheSixthIsLeft) {
  LossWatch watch({.reduces_on_spikes = true});
  const std::vector<std::int64_t> spikes{30, 60, 100, 120, 180, 240, 300, 360};
  // 30 is before there is a mean, 100 among the steps that are reduced for 60.
  EXPECT_EQ(steps_of(note_steps(watch, 1, 400, spikes)), (std::vector<std::int64_t>{60, 120, 180, 240, 300}));
  EXPECT_EQ(watch.lr_factor(61), 1);
  EXPECT_EQ(watch.lr_factor(62), 0.5);
  EXPECT_EQ(watch.lr_factor(112), 1);
  EXPECT_EQ(watch.lr_factor(122), 0.5);
  EXPECT_EQ(watch.lr_factor(181), 1);
  EXPECT_EQ(watch.lr_factor(1000), 0.125);
}

TEST_F(LossWatchTest, ASpikeIsThreeDeviationsAndHalfANatOrTenTimesTheNorm) {
  const auto spikes = [](double loss, double norm) {
    LossWatch watch({.reduces_on_spikes = true});
    const auto events = note_steps(watch, 1, 120, {110}, loss, norm);
    return events.empty() ? "" : events[0].kind;
  };
  EXPECT_EQ(spikes(2.45, 1), "") << "4.5 deviations, but not 0.5 more";
  EXPECT_EQ(spikes(2.55, 1), "loss_spike");
  EXPECT_EQ(spikes(2, 9.5), "");
  EXPECT_EQ(spikes(2, 10.5), "gradient_spike");
  LossWatch noisy({.reduces_on_spikes = true});
  std::vector<EventRecord> events;
  for (std::int64_t step = 1; step <= 200; ++step)
    for (const EventRecord& e : noisy.note({.step = step, .loss = step % 2 == 0 ? 1.0 : 3.0, .grad_norm = 1}))
      events.push_back(e);
  EXPECT_TRUE(events.empty()) << "0.5 above the mean, but one deviation";
}

TEST_F(LossWatchTest, APlateauIsToldLowersTheRateOrEndsTheRun) {
  const auto run = [&](PlateauAction action, double learning_rate, std::int64_t steps) {
    TableTask task({.learning_rate = learning_rate});
    Trainer trainer(task,
                    {.total_steps = steps, .loss_watch = {.plateau_steps = 6, .plateau_action = action}});
    const TrainEnd end = trainer.run();
    return std::tuple(end, steps_of(trainer.history().events()),
                      task.optimizer().learning_rate(trainer.progress().step));
  };
  using Steps = std::vector<std::int64_t>;
  EXPECT_EQ(run(PlateauAction::warn, 0, 20), std::tuple(TrainEnd::finished, Steps({12, 18}), 0.0));
  EXPECT_EQ(run(PlateauAction::stop, 0, 20), std::tuple(TrainEnd::stopped_early, Steps({12}), 0.0));
  // The rate is so small that no weight changes by much, and is halved twice.
  EXPECT_EQ(run(PlateauAction::reduce, 1e-12, 20), std::tuple(TrainEnd::finished, Steps({12, 18}), 0.25e-12));
  EXPECT_EQ(run(PlateauAction::stop, 0.05, 60), std::tuple(TrainEnd::finished, Steps(), 0.05)) << "it learns";
}

TEST_F(LossWatchTest, ARunThatAPlateauEndedHasNothingLeftToDo) {
  const LossWatchConfig watch{.plateau_steps = 6, .plateau_action = PlateauAction::stop};
  TableTask first({.learning_rate = 0});
  EXPECT_EQ(Trainer(first, options("run", watch)).run(), TrainEnd::stopped_early);
  const SavedCheckpoint saved = *options("run", watch).checkpoints->newest();
  TableTask second({.learning_rate = 0}), third({.learning_rate = 0});
  Trainer ended(second, options("run", watch)), on(third, options("run", {}));
  ended.resume(saved);
  EXPECT_FALSE(ended.step());
  on.resume(saved);
  EXPECT_TRUE(on.step()) << "nothing asks for an end any more";
}

TEST_F(LossWatchTest, ALossAboveTheThresholdForItsPatienceEndsTheRunAndKeepsWhatWasBefore) {
  const LossWatchConfig watch{.threshold = 3, .patience = 3};
  TableTask task({.garbage_step = 30, .garbage_steps = 5, .earlier_garbage_step = 10});
  TrainerOptions o = options("run", watch);
  o.save_total_limit = 1;
  Trainer trainer(task, o, info("run"), {.reporters = make_reporters({"jsonl", "html"})});
  EXPECT_EQ(trainer.run(), TrainEnd::loss_too_high);
  EXPECT_EQ(name(TrainEnd::loss_too_high), "loss too high");
  EXPECT_EQ(trainer.progress().step, 32) << "one step with a high loss, at 10, is none of three in a row";
  std::vector<std::int64_t> saved;
  for (const CheckpointEntry& entry : o.checkpoints->list()) saved.push_back(entry.step);
  EXPECT_EQ(saved, (std::vector<std::int64_t>{20, 32}));
  const std::vector<EventRecord> events = read_history(directory_.at("run"), 32).events();
  ASSERT_EQ(steps_of(events), (std::vector<std::int64_t>{32}));
  EXPECT_EQ(events[0].kind, "loss_too_high");
  for (const char* part : {"loss_watchdog_threshold 3 in 3 steps", "Lower learning_rate", "before step 30"})
    EXPECT_NE(events[0].text.find(part), std::string::npos) << events[0].text;
  const std::string report = read_file(directory_.at("run/report.html"));
  EXPECT_NE(report.find("What was done about the loss"), std::string::npos);
  EXPECT_NE(report.find("loss too high"), std::string::npos);
}

// Of which each next checkpoint would have deleted the one before.
TEST_F(LossWatchTest, CheckpointsFromBeforeALossAboveTheThresholdOutliveThoseOfThePatience) {
  TableTask task({.garbage_step = 30, .garbage_steps = 5, .earlier_garbage_step = 10});
  TrainerOptions o = options("run", {.threshold = 3, .patience = 3});
  o.save_steps = o.save_total_limit = 1;
  Trainer trainer(task, o, info("run"));
  EXPECT_EQ(trainer.run(), TrainEnd::loss_too_high);
  std::vector<std::int64_t> saved;
  for (const CheckpointEntry& entry : o.checkpoints->list()) saved.push_back(entry.step);
  EXPECT_EQ(saved, (std::vector<std::int64_t>{29, 30, 31, 32}));
  ASSERT_EQ(trainer.history().events().size(), 1U);
  const std::string& text = trainer.history().events()[0].text;
  EXPECT_NE(text.find(o.checkpoints->path(29) + " is the last checkpoint before step 30"), std::string::npos)
      << text;
}

TEST(PlateauAction, IsNamedInAnError) {
  EXPECT_THROW(static_cast<void>(parse_plateau_action("halve")), InvalidConfig);
}

}  // namespace
}  // namespace ingot
