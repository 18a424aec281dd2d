#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "tests/cli/process.h"
#include "tests/support/source_dir.h"
#include "tests/support/temporary_directory.h"
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "ingot/base/files.h"
#include "ingot/base/json.h"

// The shared cases of training runs and of studies, through the program: each ends as their README says.

namespace ingot {
namespace {

namespace fs = std::filesystem;
using testing::Outcome;
using testing::run_ingot;

bool has_python() { return std::system("python3 -c '' 2>/dev/null") == 0; }

class SharedRun : public ::testing::Test {
 protected:
  /// A copy of the case, with the corpus that its base.yaml names.
  bool take(const std::string& name) {
    const fs::path from = fs::path(test::source_dir()) / "../shared/cases/misc" / name;
    if (!fs::exists(from)) return false;
    fs::copy(from, directory_ + "/case");
    std::ofstream corpus(directory_ + "/case/corpus.txt");
    for (int i = 0; i < 400; ++i) corpus << "Line " << i << " comes before line " << i + 1 << ".\n";
    return true;
  }
  std::string at(const std::string& file) const { return directory_ + "/case/" + file; }
  /// The lines of the run's metrics of this type.
  std::vector<nlohmann::json> metrics(const std::string& type) const {
    std::vector<nlohmann::json> found;
    std::istringstream lines(read_file(at("run/metrics.jsonl")));
    for (std::string line; std::getline(lines, line);) {
      const auto json = parse_json<nlohmann::json>(line, "metrics.jsonl");
      if (json.at("type") == type) found.push_back(json);
    }
    return found;
  }
  std::string corpus() const { return "datasets=[{path: " + at("corpus.txt") + "}]"; }
  Outcome train(const std::vector<std::string>& sets, bool resume = false) const {
    std::vector<std::string> words{"train", at("base.yaml"), "--set", corpus()};
    if (resume) words.emplace_back("--resume");
    for (const std::string& set : sets) words.insert(words.end(), {"--set", set});
    words.insert(words.end(), {"--set", "output_dir=" + at("run")});
    return run_ingot(words);
  }
  Outcome train_on(const std::string& file) const { return train({"datasets=[{path: " + at(file) + "}]"}); }

  const test::TemporaryDirectory folder_;
  const std::string directory_ = folder_.path();
};

#define TAKE(name) \
  if (!take(name)) GTEST_SKIP() << "the shared case " << (name) << " is absent"

#define NEED_PYTHON() \
  if (!has_python()) GTEST_SKIP() << "the programs of this case need python3"

TEST_F(SharedRun, RecordsInParquetAndGzipAndTextInUtf16AreTrainedOn) {
  TAKE("train-binary-as-text");
  for (const char* file : {"d.parquet", "d.jsonl.gz", "utf16.txt"}) {
    const Outcome outcome = train_on(file);
    EXPECT_EQ(outcome.exit_code, 0) << file << outcome.errors;
    EXPECT_TRUE(fs::exists(at("run/model/model.safetensors"))) << file;
    fs::remove_all(at("run"));
  }
}

TEST_F(SharedRun, AJsonArrayIsRecordsAndNoText) {
  TAKE("train-json-array-as-text");
  const Outcome outcome = train_on("alpaca.json");
  EXPECT_EQ(outcome.exit_code, 2) << outcome.output;
  EXPECT_NE(outcome.errors.find("alpaca.json"), std::string::npos) << outcome.errors;
  EXPECT_FALSE(fs::exists(at("run/model")));
}

TEST_F(SharedRun, AFileThatIsNotUtf8IsLeftOutOfADirectoryAndNamed) {
  TAKE("train-latin1-dir");
  const Outcome outcome = train({"datasets=[{path: " + at("") + "}]"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
  EXPECT_NE((outcome.output + outcome.errors).find("a.txt"), std::string::npos)
      << outcome.output << outcome.errors;
}

TEST_F(SharedRun, WithoutValidationDataThereIsNoValidationLoss) {
  TAKE("train-validation-zero");
  const Outcome outcome = train_on("one.jsonl");
  EXPECT_EQ((outcome.output + outcome.errors).find("validation loss 0.0"), std::string::npos);
  if (outcome.exit_code != 0) return;  // too little data is an answer, too
  for (const nlohmann::json& line : metrics("eval")) EXPECT_NE(line["eval_loss"], 0) << line;
}

TEST_F(SharedRun, ResumingWithAnotherArchitectureNamesTheKeyAndBothValues) {
  TAKE("train-resume-ignored-keys");
  ASSERT_EQ(train({"max_steps=6"}).exit_code, 0);
  const std::string before = read_file(at("run/config.yaml"));
  const auto refused = [&](const std::string& set, const std::string& old, const std::string& now) {
    const Outcome outcome = train({"max_steps=8", set}, true);
    EXPECT_EQ(outcome.exit_code, 2) << set << outcome.output;
    for (const std::string& part : {set.substr(0, set.find('=')), old, now})
      EXPECT_NE(outcome.errors.find(part), std::string::npos) << part << ": " << outcome.errors;
    EXPECT_EQ(read_file(at("run/config.yaml")), before) << set;
  };
  refused("architecture.hidden_size=64", "32", "64");
  refused("torch_dtype=bf16", "\"f32\"", "\"bf16\"");
  EXPECT_EQ(train({"max_steps=8"}, true).exit_code, 0);
}

TEST_F(SharedRun, SigtermLeavesACheckpointAndAllMetrics) {
  TAKE("train-sigterm");
  bool sent = false;
  // Without the signal, the run ends by itself after a while.
  const Outcome outcome = testing::run_ingot_on_terminal(
      {"train", at("base.yaml"), "--set", "max_steps=100000", "--set", "max_seconds=30", "--set",
       "save_steps=0", "--set", "eval_steps=0", "--set", corpus(), "--set", "output_dir=" + at("run")},
      [&](const std::string& output, pid_t child, int) {
        const std::size_t at = output.rfind("/100000");
        const bool steps_done = at != std::string::npos && !output.substr(0, at).ends_with(" 0");
        if (child != 0 && !sent && steps_done) sent = ::kill(child, SIGTERM) == 0;
      });
  EXPECT_TRUE(sent) << outcome.output;
  EXPECT_EQ(outcome.exit_code, 128 + SIGTERM) << outcome.output;
  const auto steps = metrics("train");
  ASSERT_FALSE(steps.empty()) << outcome.output;
  for (std::size_t i = 0; i < steps.size(); ++i) ASSERT_EQ(steps[i]["step"], i + 1);
  EXPECT_TRUE(fs::exists(at(fmt::format("run/checkpoint-{:06}", steps.size())))) << outcome.output;
}

TEST_F(SharedRun, AConfigurationOfAxolotlTrains) {
  TAKE("train-axolotl-yaml");
  write_file_atomically(at("base.yaml"),
                        "from_scratch: true\narchitecture: {hidden_size: 32, num_hidden_layers: 1, "
                        "num_attention_heads: 2}\nvocab_size: 300\nsequence_len: 32\nmax_steps: 2\n");
  ASSERT_EQ(train({}).exit_code, 0);
  const Outcome outcome =
      run_ingot({"train", at("axo.yaml"), "--set", "base_model=" + at("run/model"), "--set",
                 "datasets=[{path: " + at("text.jsonl") + ", type: completion, ds_type: json}]", "--set",
                 "output_dir=" + at("axo"), "--set", "max_steps=2", "--set",
                 "dataset_prepared_path=" + at("prepared")});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
}

TEST_F(SharedRun, ProgressAndBytesBeforeAResultHideNothingOfIt) {
  TAKE("tune-carriage-return");
  NEED_PYTHON();
  // Of the trials with junk on their output, k = 1 has the greatest value.
  std::string text = read_file(at("t5.yaml"));
  text.replace(text.find("high: 19"), 8, "high: 1");
  const std::string study = at("t.yaml");
  write_file_atomically(study, text);
  const Outcome outcome = run_ingot({"tune", study, "--set", "direction=maximize", "--json"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.errors;
  const auto best = nlohmann::json::parse(outcome.output)["best"];
  EXPECT_EQ(best["value"], 2);
  EXPECT_EQ(best["parameters"]["k"], 1);
}

TEST_F(SharedRun, ChoicesReachTheProgramWithTheirTypes) {
  TAKE("tune-choices-are-text");
  NEED_PYTHON();
  const std::string log = directory_ + "/log";
  const Outcome outcome = run_ingot(
      {"tune", at("t1b.yaml"), "--set", "sampler.type=grid", "--set", "trials=33"}, {"TLOG=" + log});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.errors;
  std::set<std::string> a, b;
  std::istringstream lines(read_file(log));
  for (std::string line; std::getline(lines, line);) {
    const auto params = nlohmann::json::parse(line);
    a.insert(params["a"].dump());
    b.insert(params["b"].dump());
  }
  EXPECT_EQ(b, (std::set<std::string>{"16", "32", "64"}));
  EXPECT_EQ(a, (std::set<std::string>{"\"None\"", "\"null\"", "true", "false", "1", "1.0", "16", "0.001",
                                      "\"x y\"", "\"it's\"", "\"~tilde\""}));
}

}  // namespace
}  // namespace ingot
