#include <algorithm>
#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/cli/process.h"
#include "tests/support/source_dir.h"
#include "tests/support/temporary_directory.h"
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "ingot/base/files.h"

// Files of strangers, through the program: one clear error each, in seconds and within 1 GiB.

namespace ingot {
namespace {

namespace fs = std::filesystem;
using test::TemporaryDirectory;
using testing::Outcome;
using testing::run_ingot;

class Hostile : public ::testing::Test {
 protected:
  void SetUp() override { fs::copy(test::source_dir() + "/tests/models/goldens/qwen3", model()); }
  std::string model() const { return directory_.at("model"); }

  /// The error that these arguments end with.
  static std::string refusal(const std::vector<std::string>& arguments) {
    const auto begin = std::chrono::steady_clock::now();
    const Outcome outcome = run_ingot(arguments, {"INGOT_FORCE_CPU=1"});  // and no word of a missing GPU
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    rusage used{};
    getrusage(RUSAGE_CHILDREN, &used);  // the largest of all children
    EXPECT_LT(used.ru_maxrss, 1 << 20) << "KiB";
    EXPECT_LT(took.count(), 10);
    EXPECT_TRUE(outcome.exit_code == 1 || outcome.exit_code == 2) << outcome.exit_code << outcome.errors;
    for (const char* inside : {"std::", "_M_", "json.exception", "basic_string", "vector"})
      EXPECT_EQ(outcome.errors.find(inside), std::string::npos) << outcome.errors;
    EXPECT_EQ(std::ranges::count(outcome.errors, '\n'), 1) << outcome.errors;
    return outcome.errors;
  }

  void set_in_config(const std::string& key, const std::string& value) const {
    std::string config = read_file(model() + "/config.json");
    const std::size_t at = config.find("\"" + key + "\""), end = config.find_first_of(",\n", at);
    ASSERT_NE(at, config.npos);
    config.replace(at, end - at, "\"" + key + "\": " + value);
    write_file_atomically(model() + "/config.json", config);
  }

  TemporaryDirectory directory_;
};

TEST_F(Hostile, ConfigurationsDeclareNoMoreThanTheFileHolds) {
  set_in_config("num_hidden_layers", "1000000000");
  EXPECT_NE(refusal({"inspect", model()}).find("num_hidden_layers"), std::string::npos);
  set_in_config("num_hidden_layers", "4000");
  EXPECT_NE(refusal({"inspect", model()}).find("layer_types: names 2 layers"), std::string::npos);
  std::string config = read_file(model() + "/config.json");
  config.replace(config.find("\"layer_types\""), 13, "\"_layer_types\"");  // which says how many there are
  write_file_atomically(model() + "/config.json", config);
  EXPECT_NE(refusal({"inspect", model()}).find("the weights hold only"), std::string::npos);
  set_in_config("num_hidden_layers", "2");
  set_in_config("hidden_size", "64.7");
  EXPECT_NE(refusal({"inspect", model()}).find("64.7; expected a whole number"), std::string::npos);
  set_in_config("hidden_size", "24");
  set_in_config("rope_parameters", "[1], \"x\": {");
  EXPECT_NE(refusal({"inspect", model()}).find("rope_parameters: is not a JSON object"), std::string::npos);
}

TEST_F(Hostile, NestingIsBounded) {
  const std::string deep = std::string(70'000, '[') + std::string(70'000, ']');
  write_file_atomically(model() + "/config.json", "{\"model_type\": \"llama\", \"x\": " + deep + "}");
  refusal({"inspect", model()});
  write_file_atomically(directory_.at("alias.yaml"), "a: &a [*a]");
  EXPECT_NE(refusal({"train", directory_.at("alias.yaml")}).find("alias"), std::string::npos);
}

TEST_F(Hostile, WhatIsNoRegularFileIsRefused) {
  const std::string pipe = directory_.at("pipe.safetensors");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_NE(refusal({"inspect", pipe}).find("expected a regular file"), std::string::npos);
  fs::create_symlink("/dev/zero", directory_.at("zero.yaml"));
  EXPECT_NE(refusal({"train", directory_.at("zero.yaml")}).find("expected a regular file"),
            std::string::npos);
}

TEST_F(Hostile, TextsAndLogsAreRegularFiles) {
  const std::string pipe = directory_.at("pipe"), zero = directory_.at("zero");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  fs::create_symlink("/dev/zero", zero);
  for (const std::string& path : {pipe, zero}) {
    EXPECT_NE(refusal({"mahjong", "validate", path}).find("regular file"), std::string::npos);
    EXPECT_NE(refusal({"embed", model(), "--file", path}).find("regular file"), std::string::npos);
  }
}

TEST_F(Hostile, TokenizersAreRegularFiles) {
  for (const char* name : {"tokenizer.json", "tokenizer_config.json"}) {
    const std::string path = model() + "/" + name;
    ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
    EXPECT_NE(refusal({"tokenize", model(), "-t", "a"}).find("expected a regular file"), std::string::npos);
    fs::remove(path);
    fs::create_symlink("/dev/zero", path);
    EXPECT_NE(refusal({"tokenize", model(), "-t", "a"}).find("expected a regular file"), std::string::npos);
    fs::remove(path);
  }
}

TEST_F(Hostile, TablesMayHaveManyColumns) {
  std::string header = "date", row = "2024-01-01";
  for (int i = 0; i < 300'000; ++i) {
    header += ",c" + std::to_string(i);
    row += ",1";
  }
  write_file_atomically(directory_.at("wide.csv"), header + "\n" + row + "\n");
  refusal({"forecast", "fit", directory_.at("wide.csv"), "--output", directory_.at("out")});
}

TEST_F(Hostile, PicklesStayWithinTheirLimits) {
  for (const char* name : {"keypath", "memoize64M", "reduce_copy", "shape_bomb"})
    refusal({"inspect", fmt::format("{}/tests/fuzz/corpus/torch/hostile_{}.pt", test::source_dir(), name)});
}

TEST_F(Hostile, ControlCharactersOfFilesAreNotShown) {
  set_in_config("model_type", "\"\\u001b]0;title\\u0007\"");
  const std::string errors = refusal({"generate", model(), "--prompt", "x"});
  EXPECT_EQ(errors.find('\x1b'), std::string::npos);
  EXPECT_NE(errors.find("\\x1b"), std::string::npos) << errors;
}

// A name that would begin a line of its own and colour it.
const std::string kForgery = "x\nFORGED \x1b[31m\xc2\x9b";

void check_is_escaped(const Outcome& outcome) {
  const std::string shown = outcome.output + outcome.errors;
  EXPECT_NE(shown.find("FORGED"), std::string::npos) << shown;
  EXPECT_EQ(shown.find("\nFORGED"), std::string::npos) << shown;
  EXPECT_EQ(shown.find('\x1b'), std::string::npos) << shown;
  EXPECT_EQ(shown.find("\xc2\x9b"), std::string::npos) << shown;
}

class HostileName : public ::testing::TestWithParam<std::vector<std::string>> {
 protected:
  void SetUp() override {
    fs::create_directory(folder_);
    const std::string goldens = test::source_dir() + "/tests/";
    fs::copy(goldens + "models/goldens/qwen3", folder_ + "/model");
    fs::copy(goldens + "text/goldens/keras_hub/gpt2/tokenizer.json", folder_ + "/tokenizer.json");
    fs::copy(goldens + "onnx/goldens/operators/cast_u32/model.onnx", folder_ + "/graph.onnx");
    write_file_atomically(folder_ + "/series.csv", series());
    write_file_atomically(folder_ + "/empty.yaml", "nothing: 1\n");
    for (const char* number : {"1", "2"}) write_run(folder_ + "/" + number + kForgery, number);
    write_file_atomically(folder_ + "/broken.safetensors", "no weights");
  }
  // What `ingot diff` and `ingot report` read: an evaluation, and a setting in which the runs differ.
  static void write_run(const std::string& path, const std::string& number) {
    fs::create_directory(path);
    write_file_atomically(path + "/config.yaml", "learning_rate: 0.0" + number + "\n");
    write_file_atomically(path + "/metrics.jsonl",
                          R"({"type": "eval", "step": 1, "eval_loss": 2.5, "ema": false})"
                          "\n");
  }
  static std::string series() {
    std::string text = "date,\"" + kForgery + "\"\n";
    for (int day = 1; day < 29; ++day)
      for (const char* month : {"01", "02", "03", "04"})
        text += fmt::format("2024-{}-{:02},{}\n", month, day, day % 7);
    return text;
  }
  TemporaryDirectory directory_;
  const std::string folder_ = directory_.at(kForgery);
};

TEST_P(HostileName, IsShownOnItsLineAndWithoutItsSequences) {
  std::vector<std::string> words;
  for (const std::string& word : GetParam())
    words.push_back(word.starts_with("F/") ? folder_ + word.substr(1) : word == "FORGED" ? kForgery : word);
  check_is_escaped(run_ingot(words, {"INGOT_FORCE_CPU=1"}));
}

INSTANTIATE_TEST_SUITE_P(Commands, HostileName,
                         ::testing::ValuesIn(std::vector<std::vector<std::string>>{
                             {"inspect", "F/missing"},
                             {"inspect", "F/broken.safetensors"},
                             {"inspect", "F/broken.safetensors", "--json"},
                             {"convert", "F/model", "F/out.gguf"},
                             {"convert", "F/model/model.safetensors", "F/out.npz"},
                             {"quantize", "F/model", "F/q4", "--format", "nf4"},
                             {"generate", "F/missing", "--prompt", "a"},
                             {"tokenize", "F/missing.json", "-t", "a"},
                             {"chat", "F/missing"},
                             {"graph", "F/model", "-o", "F/missing/graph.html"},
                             {"train", "F/empty.yaml"},
                             {"train", "F/missing.yaml"},
                             {"train", "F/empty.yaml", "--explain"},
                             {"memory", "F/missing.yaml"},
                             {"plan", "F/missing.yaml"},
                             {"tune", "F/missing.yaml"},
                             {"data", "preview", "F/missing.yaml"},
                             {"forecast", "fit", "F/series.csv", "--model", "seasonal_naive", "--output",
                              "F/forecast"},
                             {"forecast", "fit", "F/series.csv", "--target", "FORGED2"},
                             {"onnx", "check", "F/graph.onnx"},
                             {"onnx", "run", "F/graph.onnx", "-o", "F/out"},
                             {"onnx", "check", "F/missing.onnx"},
                             {"embed", "F/missing", "-t", "a"},
                             {"merge", "F/model", "F/merged", "--adapter", "F/missing"},
                             {"report", "F/missing"},
                             {"diff", "F/missing", "F/missing"},
                             {"diff", "F/1" + kForgery, "F/2" + kForgery},
                             {"report", "F/1" + kForgery, "F/2" + kForgery, "-o", "F/report.html"},
                             {"serve", "F/missing"},
                             {"mahjong", "validate", "F/missing.mjson"},
                             {"FORGED"}}),
                         [](const auto& info) { return std::to_string(info.index); });

// Series with forged names are named in notes below the errors: they repeat exactly, so that MASE is not
// defined.
TEST_F(Hostile, NotesOfAnEvaluationStayOnTheirLines) {
  const std::string folder = directory_.at(kForgery), table = folder + "/days.csv", model = folder + "/fit";
  fs::create_directory(folder);
  std::string text = "id,date,y\n";
  for (const char* number : {"1", "2"})
    for (int day = 0; day < 120; ++day)
      text += fmt::format("\"{}{}\",{},{}\n", number, kForgery, day, day % 7);
  write_file_atomically(table, text);
  const Outcome fit = run_ingot({"forecast", "fit", table, "--set", "id_column=id", "--horizon", "7",
                                 "--lookback", "14", "--epochs", "1", "--model", "dlinear", "-o", model},
                                {"INGOT_FORCE_CPU=1"});
  ASSERT_EQ(fit.exit_code, 0) << fit.errors;
  const Outcome told =
      run_ingot({"forecast", "evaluate", model, table, "--season", "7"}, {"INGOT_FORCE_CPU=1"});
  ASSERT_EQ(told.exit_code, 0) << told.errors;
  EXPECT_NE(told.output.find("leaves out: "), std::string::npos) << told.output;
  check_is_escaped(told);
}

TEST_F(Hostile, TerminalsSeeControlCharactersOfTextEscaped) {
  const std::string tokenizer = test::source_dir() + "/tests/text/goldens/keras_hub/gpt2/tokenizer.json";
  const Outcome ids = run_ingot({"tokenize", tokenizer, "-t", "\x1b[31m"});
  ASSERT_EQ(ids.exit_code, 0) << ids.errors;
  const std::string list = ids.output.substr(0, ids.output.find('\n'));
  EXPECT_EQ(run_ingot({"tokenize", tokenizer, "--ids", list}).output, "\x1b[31m\n")
      << "a pipe gets the bytes";
  const Outcome shown = testing::run_ingot_on_terminal({"tokenize", tokenizer, "--ids", list});
  EXPECT_NE(shown.output.find("\\x1b[31m"), std::string::npos) << shown.output;
  EXPECT_EQ(shown.output.find('\x1b'), std::string::npos) << shown.output;
}

}  // namespace
}  // namespace ingot
