#include "ingot/train/trainer.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <filesystem>
#include <map>

#include "tests/support/temporary_directory.h"
#include "tests/train/hook_reporter.h"
#include "tests/train/table_task.h"
#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/core/backend.h"
#include "ingot/train/layer_norms.h"

// The runtime that every kind of training shares, with the smallest task there is.
namespace ingot {
namespace {

using test::message_of;
using test::TableTask;

std::map<std::string, std::vector<float>> weights_of(TrainTask& task) {
  std::map<std::string, std::vector<float>> weights;
  for (const auto& [name, parameter] : named_parameters(task.model()))
    weights[name] = parameter->value.detach().to_vector<float>();
  return weights;
}

class TrainerTest : public ::testing::Test {
 protected:
  TrainerOptions options(const std::string& output) const {
    return {.total_steps = 20,
            .eval_steps = 5,
            .checkpoints = CheckpointDirectory(directory_.at(output)),
            .save_steps = 4};
  }
  RunInfo info(const std::string& output) const { return {.output_dir = directory_.at(output)}; }

  const test::TemporaryDirectory directory_;
};

TEST_F(TrainerTest, ATaskLearns) {
  TableTask task({});
  const double before = *task.evaluate({});
  Trainer trainer(task, {.total_steps = 300, .eval_steps = 50});
  EXPECT_EQ(trainer.run(), TrainEnd::finished);
  EXPECT_LT(*task.evaluate({}), before / 10);
  EXPECT_EQ(trainer.history().steps().size(), 300U);
  EXPECT_EQ(trainer.history().evaluations().size(), 6U);
  const auto best = std::ranges::min_element(trainer.history().evaluations(), {}, &EvalRecord::loss);
  EXPECT_TRUE(best->best);
  EXPECT_EQ(trainer.progress().best.step, best->step);
}

TEST_F(TrainerTest, StepsOneByOneAreTheStepsOfARun) {
  TableTask whole({}), single({});
  Trainer runs(whole, {.total_steps = 20}), steps(single, {.total_steps = 20});
  runs.run();
  std::int64_t done = 0;
  while (steps.step()) EXPECT_EQ(steps.progress().step, ++done);
  EXPECT_EQ(steps.finish(), TrainEnd::finished);
  EXPECT_FALSE(steps.step());
  EXPECT_EQ(weights_of(whole), weights_of(single));
}

TEST_F(TrainerTest, ResumingGivesTheBitsOfARunThatNeverStopped) {
  for (const double ema : {0.0, 0.9}) {
    const std::string output = ema > 0 ? "ema" : "plain";
    TableTask whole({.ema_decay = ema});
    Trainer(whole, {.total_steps = 20}).run();
    {
      TableTask first({.ema_decay = ema});
      Trainer killed(first, options(output));
      for (int i = 0; i < 10; ++i) killed.step();  // the checkpoint of step 8 is the newest
    }
    TableTask second({.ema_decay = ema});
    Trainer resumed(second, options(output));
    resumed.resume(*options(output).checkpoints->newest());
    EXPECT_EQ(resumed.progress().step, 8);
    resumed.run();
    EXPECT_EQ(weights_of(second), weights_of(whole));
    EXPECT_EQ(second.optimizer().ema_state().size(), whole.optimizer().ema_state().size());
  }
}

TEST_F(TrainerTest, ARunThatHasDoneMoreStepsThanItIsAskedForSaysSo) {
  TableTask first({});
  Trainer(first, options("run")).run();
  TableTask second({});
  TrainerOptions fewer = options("run");
  fewer.total_steps = 12;
  Trainer trainer(second, fewer);
  const std::string message =
      message_of<InvalidConfig>([&] { trainer.resume(*fewer.checkpoints->newest()); });
  EXPECT_NE(message.find("max_steps: asks for 12 steps, but"), std::string::npos) << message;
  EXPECT_NE(message.find("a run of 20 already"), std::string::npos) << message;
}

TEST_F(TrainerTest, AChangedSettingIsNamedWithBothValues) {
  TableTask first({});
  Trainer(first, options("run")).run();
  TableTask other({.ema_decay = 0.9});
  Trainer trainer(other, options("run"));
  const std::string message =
      message_of<InvalidConfig>([&] { trainer.resume(*options("run").checkpoints->newest()); });
  EXPECT_NE(message.find("ema: is true, but the run in"), std::string::npos) << message;
  EXPECT_NE(message.find("was begun with false"), std::string::npos) << message;
}

TEST_F(TrainerTest, SettingsThatACheckpointDoesNotTellAreThoseOfEarlierVersions) {
  EXPECT_NO_THROW(check_same_settings("{}", R"({"a": 1})", "{}", "run"));
  EXPECT_NO_THROW(check_same_settings("{}", R"({"a": 1})", R"({"a": 1})", "run"));
  EXPECT_NE(message_of<InvalidConfig>([] {
              check_same_settings("{}", R"({"a": 1})", R"({"a": 2})", "run");
            }).find("a: is 1, but the run in run was begun with 2"),
            std::string::npos);
}

TEST_F(TrainerTest, StopsEarlyWhenValidationStopsImproving) {
  TableTask task({.learning_rate = 0});
  Trainer trainer(task, {.total_steps = 100, .eval_steps = 1, .early_stopping_patience = 3});
  EXPECT_EQ(trainer.run(), TrainEnd::stopped_early);
  EXPECT_EQ(trainer.progress().step, 4);  // the first evaluation is the best
}

TEST_F(TrainerTest, WithoutTargetsThereIsNoValidationLossAndNoBest) {
  TableTask task({.validates = false});
  Trainer trainer(task, {.total_steps = 6, .eval_steps = 1, .early_stopping_patience = 2});
  EXPECT_EQ(trainer.run(), TrainEnd::finished);
  EXPECT_TRUE(trainer.history().evaluations().empty());
  EXPECT_EQ(trainer.progress().best.step, -1);
}

TEST(BestEvaluation, ATieCanBeTheBestButIsNoGain) {
  BestEvaluation strict, ties;
  for (const double loss : {2.0, 1.0, 1.0}) {
    strict.note(strict.step + 2, loss);
    ties.note(ties.step + 2, loss, true);
  }
  EXPECT_EQ(strict.step, 3);
  EXPECT_EQ(ties.step, 5);
  EXPECT_EQ(ties.since, strict.since);
  EXPECT_EQ(ties.since, 1);
  EXPECT_FALSE(ties.note(9, std::nan(""), true));
}

TEST_F(TrainerTest, SavesWhenTimeHasPassedAndWhenItIsStopped) {
  TableTask task({});
  TrainerOptions by_time = options("run");
  by_time.save_steps = 0;
  by_time.save_seconds = 0;
  by_time.save_at_end = false;
  Trainer trainer(task, by_time);
  trainer.step();
  EXPECT_EQ(trainer.last_checkpoint(), by_time.checkpoints->path(1));
  by_time.checkpoints = CheckpointDirectory(directory_.at("stopped"));
  by_time.save_seconds = 1e9;
  TableTask other({});
  std::int64_t steps = 0;
  Trainer stopped(other, by_time, {}, {.should_stop = [&] { return ++steps == 3; }});
  EXPECT_EQ(stopped.run(), TrainEnd::stopped);
  EXPECT_EQ(stopped.last_checkpoint(), by_time.checkpoints->path(3));
}

// At any evaluation, the one behind the last step too.
TEST_F(TrainerTest, StoppedWhileItEvaluatesItSavesAndEvaluatesOnceMoreWhenItGoesOn) {
  const struct {
    double ema;
    bool averages_decide;
    int evaluations, stopped;  // in a row, and in which of them it stops
  } cases[]{{0.0, false, 1, 0}, {0.9, false, 2, 0}, {0.9, false, 2, 1}, {0.9, true, 1, 0}};
  for (const auto& [ema, averages_decide, evaluations, stopped] : cases) {
    TableTask whole({.ema_decay = ema});
    TrainerOptions plain = options("none");
    plain.checkpoints.reset();
    plain.total_steps = 18;
    plain.averages_decide = averages_decide;
    Trainer expected(whole, plain);
    expected.run();
    for (const int step : {5, 15, 18}) {
      TrainerOptions o = plain;
      const std::string run = directory_.at(fmt::format("{}-{}-{}-{}", step, ema, averages_decide, stopped));
      o.checkpoints = CheckpointDirectory(run);
      o.save_steps = 3;  // at step 18 a checkpoint is there already
      o.save_total_limit = 100;
      TableTask halted({.ema_decay = ema}), task({.ema_decay = ema});
      const RunInfo where{.output_dir = run};
      int asked = 0;  // by each evaluation, and after each step
      const int evaluation = step + evaluations * ((step - 1) / 5) + (step == 18 ? 1 : 0) + stopped;
      Trainer first(halted, o, where,
                    {.reporters = make_reporters(std::vector<std::string>{"jsonl"}),
                     .should_stop = [&] { return ++asked == evaluation; }});
      EXPECT_EQ(first.run(), TrainEnd::stopped) << step;
      EXPECT_EQ(first.progress().step, step);
      Trainer second(task, o, where, {.reporters = make_reporters(std::vector<std::string>{"jsonl"})});
      second.resume(*o.checkpoints->newest());
      EXPECT_EQ(second.progress().step, step);
      EXPECT_EQ(second.run(), TrainEnd::finished);
      EXPECT_EQ(weights_of(task), weights_of(whole));
      EXPECT_EQ(second.progress().best.step, expected.progress().best.step);
      EXPECT_EQ(second.progress().best.since, expected.progress().best.since);
      const auto told = [](const Trainer& trainer) {
        std::vector<std::pair<std::int64_t, double>> losses;
        for (const EvalRecord& e : trainer.history().evaluations()) losses.emplace_back(e.step, e.loss);
        return losses;
      };
      EXPECT_EQ(told(second), told(expected)) << step;
      // Killed before its next checkpoint, it goes on from that of the stopped evaluation once more.
      for (const CheckpointEntry& later : o.checkpoints->list())
        if (later.step > step) std::filesystem::remove_all(later.path);
      TableTask again({.ema_decay = ema});
      Trainer third(again, o, where, {.reporters = make_reporters(std::vector<std::string>{"jsonl"})});
      third.resume(*o.checkpoints->newest());
      EXPECT_EQ(third.progress().step, step);
      EXPECT_EQ(third.run(), TrainEnd::finished);
      EXPECT_EQ(weights_of(again), weights_of(whole));
      EXPECT_EQ(third.progress().best.step, expected.progress().best.step);
      EXPECT_EQ(told(third), told(expected)) << step;
    }
  }
}

TEST_F(TrainerTest, AReporterThatWatchesLayersGetsTheNormsOfTheirGradients) {
  struct Watcher : test::HookReporter {
    bool watches_layers() const override { return true; }
    void begin(const RunInfo& info) override { layers = info.layers; }
    std::vector<std::string> layers;
  };
  TableTask plain({}), task({});
  TrainerOptions o = options("none");
  o.checkpoints.reset();
  Trainer(plain, o).run();
  const auto watcher = std::make_shared<Watcher>();
  std::vector<std::vector<float>> norms;
  watcher->on_step = [&](const StepRecord& record) { norms.push_back(record.layer_norms); };
  Trainer(task, o, {}, {.reporters = {watcher}}).run();
  EXPECT_EQ(watcher->layers, (std::vector<std::string>{"up", "down"}));
  ASSERT_EQ(norms.size(), 20U);
  for (const auto& step : norms) {
    ASSERT_EQ(step.size(), 2U);
    EXPECT_TRUE(step[0] > 0 && step[1] > 0);
  }
  EXPECT_EQ(weights_of(task), weights_of(plain));
}

TEST(LayerNorms, AreOfTheParametersOfOneNumberOrModule) {
  std::deque<Parameter> parameters;
  std::vector<Parameter*> all;
  for (const char* name :
       {"model.embed_tokens.weight", "model.layers.0.mlp.experts.1.weight", "model.layers.0.q_proj.bias",
        "model.layers.12.q_proj.default.lora_A", "lm_head.weight", "scale"}) {
    Parameter& p = parameters.emplace_back(name, Tensor::zeros({2}), true, true);
    if (all.size() < 5) p.value.set_grad(Tensor::from(std::vector<float>{3, 4}, {2}));
    all.push_back(&p);
  }
  const LayerNorms norms(all);
  EXPECT_EQ(norms.names(),
            (std::vector<std::string>{"embed_tokens", "layers.0", "layers.12", "lm_head", "scale"}));
  EXPECT_EQ(norms.measure(&global_norm).to_vector<float>(),
            (std::vector<float>{5, std::sqrt(50.0F), 5, 5, 0}));
}

TEST_F(TrainerTest, DivergenceNamesTheStepAndTheCheckpointThatIsWhole) {
  TableTask task({.learning_rate = 1e30});
  TrainerOptions o = options("run");
  o.save_steps = 1;
  Trainer trainer(task, o);
  const std::string message = message_of<NonFinite>([&] { trainer.run(); });
  EXPECT_NE(message.find("training step 2"), std::string::npos) << message;
  EXPECT_NE(message.find("checkpoint-000001 is whole; resume from it, but lower learning_rate"),
            std::string::npos)
      << message;
}

TEST_F(TrainerTest, ReportersAreToldAndAResumedRunGoesOnInItsFiles) {
  const std::vector<std::string> all{"jsonl", "tensorboard", "html"};
  const auto lines = [&] {
    const std::string text = read_file(directory_.at("run/metrics.jsonl"));
    return std::ranges::count(text, '\n');
  };
  {
    TableTask task({});
    Trainer killed(task, options("run"), info("run"), {.reporters = make_reporters(all)});
    for (int i = 0; i < 10; ++i) killed.step();
  }
  EXPECT_EQ(lines(), 15);  // what the run ran with, ten steps, two evaluations with the memory until then
  TableTask task({});
  const auto hook = std::make_shared<test::HookReporter>();
  std::int64_t first = 0, saved = 0;
  hook->on_step = [&](const StepRecord& record) { first = first == 0 ? record.step : first; };
  hook->on_save = [&](const std::string&) { ++saved; };
  TrainerHooks hooks{.reporters = make_reporters(all)};
  hooks.reporters.push_back(hook);
  Trainer resumed(task, options("run"), info("run"), hooks);
  resumed.resume(*options("run").checkpoints->newest());
  resumed.run();
  EXPECT_EQ(first, 9);
  EXPECT_EQ(saved, 3);  // of steps 12, 16, 20
  EXPECT_EQ(lines(), 31);
  const std::vector<MemoryRecord> memory = read_history(directory_.at("run"), 20).memory();
  ASSERT_EQ(memory.size(), 5U);  // of four evaluations, and at the end
  EXPECT_EQ(memory.back().step, 20);
  EXPECT_EQ(memory.back().ranks, 1);
  EXPECT_EQ(memory.back().tensors.bytes, static_cast<double>(backend(kCpu).memory().peak()));
  EXPECT_GT(memory.back().resident.bytes, memory.back().tensors.bytes) << "which are a part of the process";
  EXPECT_EQ(resumed.history().steps().size(), 20U);
  {
    TableTask complete({});
    Trainer again(complete, options("run"), info("run"));
    again.resume(*options("run").checkpoints->newest());
    again.run();
    EXPECT_EQ(again.train_loss(), resumed.history().steps().back().loss) << "no step is left, and none is 0";
  }
  const StepRecord& read_back = resumed.history().steps().front();
  ASSERT_EQ(read_back.values.size(), 1U);
  EXPECT_EQ(read_back.values[0].first, "root loss");
  EXPECT_DOUBLE_EQ(read_back.values[0].second, std::sqrt(read_back.loss));
  EXPECT_EQ(resumed.history().evaluations().front().values.back(), (NamedValues::value_type{"rows", 16}));
  const std::string report = read_file(directory_.at("run/report.html"));
  for (const char* chart : {"Learning rate", "\"root loss\"", "\"rows\""})
    EXPECT_NE(report.find(chart), std::string::npos) << chart;
  EXPECT_TRUE(std::filesystem::exists(directory_.at("run/tensorboard")));
}

TEST(Reporters, ANameThatIsNotKnownIsRefused) {
  EXPECT_NE(message_of<InvalidConfig>([] { make_reporters({"comet"}); }).find("'comet' is not one of jsonl"),
            std::string::npos);
  EXPECT_TRUE(make_reporters({"none"}).empty());
}

TEST_F(TrainerTest, DamagedCheckpointsArePassedOver) {
  TableTask task({});
  Trainer(task, options("run")).run();
  const CheckpointDirectory checkpoints(directory_.at("run"));
  ASSERT_EQ(checkpoints.list().size(), 3U);  // the newest, of which one is the best
  std::filesystem::resize_file(checkpoints.path(20) + "/weights.safetensors", 20);
  EXPECT_EQ(checkpoints.newest()->path(), checkpoints.path(16));
}

}  // namespace
}  // namespace ingot
