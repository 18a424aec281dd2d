#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <stop_token>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

#include "ingot/base/config.h"
#include "ingot/base/error.h"
#include "ingot/tune/failures.h"
#include "ingot/tune/objective.h"
#include "ingot/tune/study_keys.h"

namespace ingot::tune {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

class CommandStudy : public ::testing::Test {
 protected:
  void SetUp() override {
    directory_ = ::testing::TempDir() + "ingot-command-" + std::to_string(::getpid());
    fs::remove_all(directory_);
    fs::create_directories(directory_);
    config_.kind = "command";
    config_.output_dir = directory_ + "/trials";
    config_.keep = "all";
    config_.tuner.space = {{{.name = "x", .low = 0, .high = 1}}};
    config_.tuner.trials = 1;
  }
  void TearDown() override { fs::remove_all(directory_); }

  /// Runs the command in a study of its own; its first trial.
  Trial run(const std::string& command, std::stop_token stop = {}) {
    config_.objective = command;
    Tuner tuner(config_.tuner);
    work(tuner, *make_command_objective(config_), config_, stop);
    return tuner.trials()[0];
  }

  std::string directory_;
  StudyConfig config_;
};

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

TEST_F(CommandStudy, ProgressThatIsWrittenOverHidesNoResult) {
  const Trial trial = run(R"(printf 'progress 10%%\rprogress 20%%\r{{"value": 2}}\r\n')");
  EXPECT_EQ(run(R"(printf '{{"value": 3}}\rprogress 100%%\n')").value, 3);
  EXPECT_EQ(run(R"(printf '\357\273\277{{"value": 4}}\n')").value, 4);
  EXPECT_EQ(trial.state, TrialState::complete) << trial.note;
  EXPECT_EQ(trial.value, 2);
}

TEST_F(CommandStudy, AValueThatIsNotFiniteIsATrialThatDivergedHoweverItIsWritten) {
  for (const char* value :
       {"NaN", "nan", "-nan", "Infinity", "-Infinity", "inf", "null", "1e999", "\"NaN\""}) {
    const Trial trial = run(R"(echo '{{"step": 1, "value": 0.25}}'; echo '{{"note": "a \" NaN", "value": )" +
                            std::string(value) + "}}'");
    EXPECT_EQ(trial.state, TrialState::pruned) << value << ": " << trial.note;
    EXPECT_NE(trial.note.find("diverged"), std::string::npos) << trial.note;
    EXPECT_EQ(trial.reports.size(), 1U);
  }
}

TEST_F(CommandStudy, ATrialThatIsPrunedForAReportThatIsNoNumberCountsAsDiverged) {
  config_.tuner.pruner.type = "median";
  const Trial trial =
      run(R"(echo '{{"step": 1, "value": 0.5}}'; echo '{{"step": 2, "value": NaN}}'; exec sleep 60)");
  EXPECT_EQ(trial.state, TrialState::pruned) << trial.note;
  EXPECT_EQ(trial.reports.size(), 2U);
  const std::vector<Failure> failures = failures_of({trial}, config_);
  ASSERT_EQ(failures.size(), 1U) << trial.note;
  EXPECT_EQ(failures[0].reason, "diverged: what it reported at step 2 is not a number");
}

TEST_F(CommandStudy, ALineThatIsMeantAsAValueAndIsNoneFailsTheTrialWithThatLine) {
  for (const char* line :
       {R"({{"value": 0.5)", R"({{"value": 0.5.1}})", R"({{"value": "good"}})",
        R"({{"step": 1.5, "value": 1}})", R"({{"step": 18446744073709551615, "value": 1}})"}) {
    const Trial trial =
        run(R"(echo '{{"value": 0.25}}'; echo '{{ something else }}'; echo '{{"other": NaN'; echo ')" +
            std::string(line) + "'");
    EXPECT_EQ(trial.state, TrialState::failed) << line;
    EXPECT_NE(trial.note.find(std::string(line).substr(2, 8)), std::string::npos) << trial.note;
  }
}

TEST_F(CommandStudy, AWholeStepMayBeWrittenAsAFloatingPointNumber) {
  const Trial trial = run(R"(echo '{{"step": 1.0, "value": 3}}'; echo '{{"step": 2e0, "value": 2}}')");
  ASSERT_EQ(trial.reports.size(), 2U) << trial.note;
  EXPECT_EQ(trial.reports[1].step, 2);
  EXPECT_EQ(trial.value, 2);
}

TEST_F(CommandStudy, StepsThatDoNotGrowFailTheirTrialAndTheStudyGoesOn) {
  config_.tuner.trials = 2;
  config_.tuner.study = directory_ + "/steps.db";
  const Trial trial = run(R"([ $INGOT_TRIAL = 1 ] || echo '{{"step": 2, "value": 1}}'; )"
                          R"(echo '{{"step": 1, "value": 1}}')");
  EXPECT_EQ(trial.state, TrialState::failed);
  EXPECT_NE(trial.note.find("step 1 after step 2"), std::string::npos) << trial.note;
  EXPECT_EQ(Tuner(config_.tuner).trials()[1].state, TrialState::complete);
}

TEST_F(CommandStudy, ATrialEndsWithItsShellWhateverStillHoldsTheOutput) {
  config_.timeout_seconds = 20;
  const auto start = Clock::now();
  const Trial trial = run(R"(sleep 30 & echo '{{"value": 1}}')");
  EXPECT_EQ(trial.state, TrialState::complete) << trial.note;
  EXPECT_LT(seconds_since(start), 15);
}

TEST_F(CommandStudy, ATimeoutHoldsForACommandThatClosedItsOutput) {
  config_.timeout_seconds = 0.2;
  const auto start = Clock::now();
  const Trial trial = run("exec sleep 30 > /dev/null");
  EXPECT_EQ(trial.state, TrialState::failed);
  EXPECT_NE(trial.note.find("timeout_seconds"), std::string::npos) << trial.note;
  EXPECT_LT(seconds_since(start), 15);
}

TEST_F(CommandStudy, AnAttemptBeginsInAnEmptyDirectoryNamedByAWholePath) {
  const fs::path before = fs::current_path();
  fs::current_path(directory_);
  config_.output_dir = "trials";
  fs::create_directories("trials/trial-0000");
  std::ofstream("trials/trial-0000/left") << "by an attempt that died";
  const Trial trial = run(
      R"(cd / && [ ! -e "$INGOT_TRIAL_DIR/left" ] && touch "$INGOT_TRIAL_DIR/here" && echo '{{"value": 1}}')");
  EXPECT_EQ(trial.state, TrialState::complete) << trial.note;
  EXPECT_TRUE(fs::exists("trials/trial-0000/here"));
  fs::current_path(before);
}

TEST_F(CommandStudy, ATrialOfAWorkerThatIsToldToEndGoesBackAndDoesNotCount) {
  config_.tuner.study = directory_ + "/stopped.db";
  std::stop_source stop;
  std::thread telling([&] {
    while (!fs::exists(directory_ + "/begun")) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    stop.request_stop();
  });
  const auto start = Clock::now();
  run("trap 'exit 0' TERM; echo '{{\"value\": 1}}'; touch " + directory_ + "/begun; sleep 30 & wait",
      stop.get_token());
  telling.join();
  EXPECT_LT(seconds_since(start), 20);
  Tuner tuner(config_.tuner);
  ASSERT_EQ(tuner.trials().size(), 1U);
  EXPECT_EQ(tuner.trials()[0].state, TrialState::waiting);
  EXPECT_EQ(tuner.trials()[0].attempts, 0);
}

TEST_F(CommandStudy, ThreeTrialsThatFailForTheMachineStopTheStudyAndWaitToBeTriedAgain) {
  config_.tuner.study = directory_ + "/machine.db";
  config_.tuner.trials = 6;
  // Two work; then a file is gone that every trial reads.
  const std::string file = directory_ + "/data";
  std::ofstream(file) << "xx";
  config_.objective = "test -s " + file + " || exec cat " + directory_ + "/gone; truncate -s -1 " + file +
                      R"(; echo '{{"value": 1}}')";
  const auto states = [&] {
    std::vector<TrialState> list;
    for (const Trial& trial : Tuner(config_.tuner).trials()) list.push_back(trial.state);
    return list;
  };
  Tuner tuner(config_.tuner);
  const std::unique_ptr<Objective> objective = make_command_objective(config_);
  try {
    work(tuner, *objective, config_);
    ADD_FAILURE() << "it went on";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("'No such file or directory'"), std::string::npos)
        << error.what();
  }
  using enum TrialState;
  EXPECT_EQ(states(), (std::vector{complete, complete, waiting, waiting, waiting}));
  std::ofstream(file) << "xxxxxx";
  work(tuner, *objective, config_);
  EXPECT_EQ(states(), std::vector(6, complete));
}

TEST(Failures, OnlyWhatNoValueCanHelpIsOfTheMachine) {
  EXPECT_EQ(environment_cause("the command ended with exit code 1: write: No space left on device"),
            "No space left on device");
  EXPECT_EQ(environment_cause("the command ended with exit code 127: sh: trainer: not found"),
            "exit code 127");
  EXPECT_EQ(environment_cause("the command ended with exit code 7"), "");
  EXPECT_EQ(environment_cause("took longer than timeout_seconds 3"), "");
}

TEST(StudyConfig, AnotherStudyFileHasTrialDirectoriesOfItsOwn) {
  const auto output_dir = [](const std::string& keys) {
    Config file = Config::parse("command: run {x}\nspace: {x: {low: 0, high: 1}}\n" + keys);
    return read_study_config(file, "some/where.yaml").output_dir;
  };
  EXPECT_EQ(output_dir(""), "some/where-trials");
  EXPECT_EQ(output_dir("study: second.db\n"), "some/second-trials");
  EXPECT_EQ(output_dir("study: /far/second.db\n"), "/far/second-trials");
  EXPECT_EQ(output_dir("study: second.db\noutput_dir: mine\n"), "some/mine");
}

/// Knows the keys "x" and "depth", and the kinds "a" and "b"; b needs x below a half.
class KnowingObjective : public Objective {
 public:
  void check(const SearchSpace& space, const Values& values) override {
    ++checks;
    const std::string kind = space.text(0, values[0]);
    for (std::size_t i = 1; i < space.size(); ++i) {
      const std::string& name = space.parameters[i].name;
      if (!std::isnan(values[i]) && name != "x" && name != "depth") throw InvalidConfig(name, "unknown key");
    }
    if (kind != "a" && kind != "b") throw InvalidConfig("kind", "unknown kind " + kind);
    if (kind == "b" && values[1] > 0.5) throw InvalidConfig("x", "must be at most 0.5");
  }
  std::optional<std::vector<double>> run(TrialRun&) override { return std::vector<double>{0}; }
  int checks = 0;
};

SearchSpace space_of(const std::vector<std::string>& kinds, const std::string& conditional) {
  return {{{.name = "kind", .kind = ParameterKind::categorical, .choices = kinds},
           {.name = "x", .low = 0, .high = 1},
           {.name = conditional, .low = 0, .high = 1, .parent = 0, .parent_choices = {1}}}};
}

TEST(CheckSpace, FindsAKeyOrAChoiceThatOnlySomeTrialsWouldMeet) {
  KnowingObjective objective;
  const auto message = [&](const SearchSpace& space) {
    try {
      check_space(objective, space);
    } catch (const InvalidConfig& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_NE(message(space_of({"a", "b"}, "depht")).find("depht: unknown key"), std::string::npos);
  EXPECT_NE(message(space_of({"a", "b", "bb"}, "depth")).find("unknown kind bb"), std::string::npos);
}

TEST(CheckSpace, LeavesACombinationThatFailsToItsTrial) {
  KnowingObjective objective;
  EXPECT_NO_THROW(check_space(objective, space_of({"a", "b"}, "depth")));
  EXPECT_LT(objective.checks, 30);
}

TEST(StudyConfig, TheListOfKeysHasEachThatAStudyMayHave) {
  std::map<std::string, ConfigKey> keys;
  for (const ConfigSection& section : study_reference())
    for (const ConfigKey& key : section.keys) keys.emplace(key.key, key);
  EXPECT_EQ(keys.at("trials").default_value, "100");
  EXPECT_EQ(keys.at("pruner.reduction_factor").kind, "a whole number, at least 2");
  Config all = Config::parse(
      "command: ./run\nset: []\nmetric: loss\ndirection: minimize\ntimeout_seconds: 1\n"
      "space: {x: {low: 0, high: 1}}\ntrials: 3\nworkers: 2\nstudy: a.db\noutput_dir: b\nkeep: all\n"
      "lease_seconds: 5\nmax_attempts: 2\n"
      "sampler: {type: random, seed: 3, startup_trials: 1, candidates: 2, multivariate: false, prior_weight: "
      "2}\n"
      "pruner: {type: asha, startup_trials: 1, warmup_steps: 1, min_resource: 1, reduction_factor: 2}\n",
      "study.yaml");
  const StudyConfig read = read_study_config(all, "study.yaml");
  EXPECT_EQ(read.workers, 2);
  EXPECT_EQ(read.tuner.sampler.type, "random");
  EXPECT_EQ(read.tuner.pruner.reduction_factor, 2);
  EXPECT_EQ(read.keep, "all");
  for (const char* key : {"command", "space", "study", "sampler.prior_weight", "pruner.min_resource"})
    EXPECT_TRUE(keys.contains(key)) << key;
}

}  // namespace
}  // namespace ingot::tune
