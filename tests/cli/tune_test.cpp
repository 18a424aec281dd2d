#include <filesystem>
#include <fstream>
#include <thread>

#include "tests/cli/process.h"
#include <gtest/gtest.h>

#include "ingot/base/files.h"

namespace ingot::testing {
namespace {

namespace fs = std::filesystem;

class TuneCommand : public ::testing::Test {
 protected:
  void SetUp() override {
    directory_ = ::testing::TempDir() + "ingot-tune-command";
    fs::remove_all(directory_);
    fs::create_directories(directory_);
  }
  void TearDown() override { fs::remove_all(directory_); }
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(directory_ + "/" + name) << text;
    return directory_ + "/" + name;
  }
  std::string directory_;
};

constexpr const char* kCommandStudy =
    "command: 'echo not json; echo \"{{\\\"step\\\": 1, \\\"value\\\": \"{x}\"}}\"; echo \"{{\\\"value\\\": "
    "{x}}}\"'\n"
    "space: {x: {low: 1, high: 2}, kind: {choices: [a, b]}}\n"
    "trials: 6\nworkers: 2\n";

TEST_F(TuneCommand, RunsAProgramPerTrialAndGoesOnWhereItStopped) {
  const std::string study = write("s.yaml", kCommandStudy);
  const Outcome first = run_ingot({"tune", study, "--json"});
  ASSERT_EQ(first.exit_code, 0) << first.errors;
  EXPECT_NE(first.output.find("\"complete\": 6"), std::string::npos) << first.output;
  EXPECT_TRUE(fs::exists(directory_ + "/s-trials/report.html"));
  const Outcome more = run_ingot({"tune", study, "--set", "trials=8"});
  EXPECT_EQ(more.exit_code, 0) << more.errors;
  EXPECT_NE(more.output.find("going on after 6 trials"), std::string::npos) << more.output;
  EXPECT_NE(more.output.find("Best of 8 trials"), std::string::npos) << more.output;
}

// As mpirun and srun start it: every rank is a worker of the same study, and only rank 0 tells.
TEST_F(TuneCommand, RanksOfALauncherShareAStudy) {
  const std::string study = write("m.yaml", kCommandStudy);
  Outcome second;
  std::thread other([&] { second = run_ingot({"tune", study}, {"PMI_RANK=1", "PMI_SIZE=2"}); });
  const Outcome first = run_ingot({"tune", study}, {"PMI_RANK=0", "PMI_SIZE=2"});
  other.join();
  EXPECT_EQ(first.exit_code, 0) << first.errors;
  EXPECT_EQ(second.exit_code, 0) << second.errors;
  EXPECT_NE(first.output.find("Best of 6 trials"), std::string::npos) << first.output;
  EXPECT_EQ(second.output, "");
}

// A program that kills the worker that runs it: the trial is tried again, and the study still ends.
TEST_F(TuneCommand, AWorkerThatIsKilledIsReplacedAndItsTrialTriedAgain) {
  const std::string study = write(
      "k.yaml",
      "command: 'mkdir \"$INGOT_TRIAL_DIR/../once\" && kill -9 $PPID; echo \"{{\\\"value\\\": \"{x}\"}}\"'\n"
      "space: {x: {low: 1, high: 2}}\ntrials: 3\nkeep: all\n");
  const Outcome outcome = run_ingot({"tune", study, "--json"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.errors;
  EXPECT_NE(outcome.output.find("\"complete\": 3"), std::string::npos) << outcome.output;
  EXPECT_TRUE(fs::exists(directory_ + "/k-trials/once"));
}

TEST_F(TuneCommand, BadStudiesAreRefusedBeforeAnythingRuns) {
  const auto errors = [&](const std::string& yaml) {
    const Outcome outcome = run_ingot({"tune", write("bad.yaml", yaml)});
    EXPECT_EQ(outcome.exit_code, 2);
    EXPECT_FALSE(fs::exists(directory_ + "/bad.db"));
    return outcome.errors;
  };
  EXPECT_NE(errors("command: x {y}\nspace: {x: {low: 1, high: 2}}\n").find("'{y}' names no parameter"),
            std::string::npos);
  EXPECT_NE(errors("command: x\nspace: {x: {low: 2, high: 1}}\n").find("space.x.low"), std::string::npos);
  EXPECT_NE(errors("command: x\nspcae: {x: {low: 1, high: 2}}\n").find("space"), std::string::npos);
  EXPECT_NE(errors("command: x\ntrails: 4\nspace: {x: {low: 1, high: 2}}\n").find("did you mean 'trials'"),
            std::string::npos);
  EXPECT_NE(errors("space: {x: {low: 1, high: 2}}\n").find("say what to try"), std::string::npos);
}

TEST_F(TuneCommand, EveryTrialFailingIsAnErrorThatSaysWhy) {
  const Outcome outcome =
      run_ingot({"tune", write("f.yaml", "command: exit 7\nspace: {x: {low: 1, high: 2}}\ntrials: 20\n")});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_NE(outcome.errors.find("exit code 7"), std::string::npos) << outcome.errors;
}

TEST_F(TuneCommand, AStudyTooShortToGiveUpStillFailsWhenEveryTrialDid) {
  const Outcome outcome =
      run_ingot({"tune", write("f.yaml", "command: exit 7\nspace: {x: {low: 1, high: 2}}\ntrials: 2\n")});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_NE(outcome.output.find("No trial is complete; trial 0 failed: "), std::string::npos)
      << outcome.output;
}

TEST_F(TuneCommand, TunesAForecastAndSaysHowToFitTheBest) {
  std::string csv = "ds,sales\n";
  for (int i = 0; i < 200; ++i) csv += std::to_string(i) + "," + std::to_string(i * 37 % 11) + "\n";
  const std::string data = write("days.csv", csv);
  write("base.yaml", "data: " + data + "\nmodel: nlinear\nhorizon: 7\nlookback: 14\nepochs: 2\n");
  const std::string study =
      write("n.yaml", "forecast: base.yaml\nspace: {batch_size: {type: int, low: 8, high: 32}}\ntrials: 2\n");
  const Outcome outcome = run_ingot({"tune", study, "--set", "set=[epochs=1]"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.errors;
  EXPECT_NE(outcome.output.find("Fit it:\n  ingot forecast fit " + data + " --config " + directory_ +
                                "/base.yaml --set epochs=1 --set batch_size="),
            std::string::npos)
      << outcome.output;
  write("days.csv", "ds,sales\n1,2\n2,much\n");
  const Outcome refused = run_ingot({"tune", study, "--set", "study=other.db"});
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_NE(refused.errors.find("line 3, column 'sales': 'much' is not a number"), std::string::npos)
      << refused.errors;
  EXPECT_FALSE(fs::exists(directory_ + "/other.db"));
}

TEST_F(TuneCommand, TunesATrainingRunWithPruning) {
  std::ofstream text(directory_ + "/text.txt");
  for (int i = 0; i < 300; ++i) text << "Line " << i << " comes before line " << i + 1 << ".\n";
  text.close();
  write(
      "base.yaml",
      "from_scratch: true\narchitecture: {hidden_size: 24, num_hidden_layers: 1, num_attention_heads: 2}\n"
      "vocab_size: 280\ndatasets: [{path: " +
          directory_ +
          "/text.txt}]\n"
          "sequence_len: 16\nper_device_train_batch_size: 2\nmax_steps: 6\neval_steps: 2\neval_batches: 2\n");
  const std::string study =
      write("t.yaml",
            "train: base.yaml\nspace:\n  learning_rate: {low: 1e-4, high: 1e-1, log: true}\n"
            "  architecture.num_hidden_layers: {type: int, low: 1, high: 2}\ntrials: 4\npruner: {type: asha, "
            "reduction_factor: 2}\n");
  const Outcome outcome = run_ingot({"tune", study, "--json"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.errors;
  EXPECT_NE(outcome.output.find("\"failed\": 0"), std::string::npos) << outcome.output;
  EXPECT_NE(outcome.output.find("\"architecture.num_hidden_layers\""), std::string::npos) << outcome.output;
  const Outcome typo = run_ingot({"tune", study, "--set", "set=[lerning_rate_x=1]"});
  EXPECT_EQ(typo.exit_code, 2);
}

}  // namespace
}  // namespace ingot::testing
