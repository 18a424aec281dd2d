#include <algorithm>
#include <chrono>
#include <filesystem>

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

}  // namespace
}  // namespace ingot
