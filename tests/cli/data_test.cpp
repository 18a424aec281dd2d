#include "tests/cli/process.h"
#include "tests/support/source_dir.h"
#include "tests/support/temporary_directory.h"
#include "tests/support/web_server.h"
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "ingot/base/files.h"
#include "ingot/base/json.h"

namespace ingot::testing {
namespace {

using Json = nlohmann::ordered_json;

class DataCommand : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string golden = test::source_dir() + "/tests/text/goldens/qwen2.json";
    write("tokenizer.json", dump_json(parse_json<Json>(read_file(golden), golden)["tokenizer"]));
    write("tokenizer_config.json", R"({"eos_token": "<|im_end|>"})");
    std::string chats;
    for (const char* name : {"Ann", "Bob", "Bob", "Eve"})
      chats += std::string(R"({"messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":")") +
               name + "\"}]}\n";
    write("chats.jsonl", chats);
    write("chats.yaml",
          "base_model: " + directory_.path() + "\ntokenizer: " + directory_.path() +
              "\nchat_template: chatml\nval_set_size: 0.25\nsequence_len: 64\ndatasets: [{path: " +
              directory_.at("chats.jsonl") + "}]\noutput_dir: " + directory_.at("out") + "\n");
  }
  void write(const std::string& name, const std::string& text) {
    write_file_atomically(directory_.at(name), text);
  }
  std::vector<std::string> command(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words{"data", "preview", directory_.at("chats.yaml")};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  static bool has(const std::string& text, const std::string& part) { return text.find(part) != text.npos; }

  test::TemporaryDirectory directory_;
};

TEST_F(DataCommand, PreviewShowsSamplesAndWhatTheyAmountTo) {
  const Outcome outcome = run_ingot(command());
  ASSERT_EQ(outcome.exit_code, 0) << outcome.errors;
  EXPECT_TRUE(has(outcome.output, "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n[["))
      << outcome.output;
  EXPECT_TRUE(has(outcome.output, "<|im_end|>]]"));
  EXPECT_FALSE(has(outcome.output, "\x1b["));  // a pipe
  EXPECT_TRUE(has(outcome.output, "3 to train, 1 to validate"));

  const Outcome json = run_ingot(command({"--json", "-n", "1"}));
  ASSERT_EQ(json.exit_code, 0) << json.errors;
  const Json preview = parse_json<Json>(json.output, "output");
  EXPECT_EQ(preview["duplicates"], 1);
  EXPECT_EQ(preview["samples"].size(), 1U);
  const Json& pieces = preview["samples"][0]["pieces"];
  EXPECT_EQ(pieces[0]["trained"], false);
  EXPECT_EQ(pieces[1]["trained"], true);
  EXPECT_GT(preview["packing_efficiency"], 0.5);
}

TEST_F(DataCommand, ADataSetOfTheHubIsFetchedAndItsSplitRead) {
  test::WebServer server;
  const std::string chats = read_file(directory_.at("chats.jsonl"));
  server.add_repo_file("datasets/org/chats", "data/train_sft.jsonl", chats + chats);
  server.add_repo_file("datasets/org/chats", "data/test_sft.jsonl", chats);
  const auto preview = [&](const std::string& path, const std::string& split) {
    return run_ingot(command({"--json", "--set", "datasets=[{path: " + path + ", split: \"" + split + "\"}]",
                              "--set", "val_set_size=0"}),
                     {"HF_ENDPOINT=" + server.address(), "HF_HUB_CACHE=" + server.cache(),
                      "HF_TOKEN=", "HF_HUB_OFFLINE=0"});
  };
  const Outcome unasked = preview("org/chats", "test");
  EXPECT_TRUE(has(unasked.errors, "write hf://datasets/org/chats")) << unasked.errors;
  const Outcome test = preview("hf://datasets/org/chats", "test");
  ASSERT_EQ(test.exit_code, 0) << test.errors;
  EXPECT_EQ(parse_json<Json>(test.output, "output")["duplicates"], 1);
  const Outcome train = preview("hf://datasets/org/chats", "train[:6]");
  ASSERT_EQ(train.exit_code, 0) << train.errors;
  EXPECT_EQ(parse_json<Json>(train.output, "output")["duplicates"], 3) << "of the first six";
  EXPECT_EQ(preview("org/chats", "train").exit_code, 0) << "from the cache";
  const Outcome other = preview("hf://datasets/org/chats", "vali");
  EXPECT_TRUE(has(other.errors, "it has test, train")) << other.errors;
}

TEST_F(DataCommand, PreviewIsColouredOnATerminal) {
  const Outcome outcome = run_ingot_on_terminal(command());
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_TRUE(has(outcome.output, "\x1b[32m")) << outcome.output;
  EXPECT_FALSE(has(outcome.output, "[["));
}

TEST_F(DataCommand, BadDataNamesFileLineAndSample) {
  write("chats.jsonl", R"({"messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":"x"}]})"
                       "\n\n"
                       R"({"messages":[{"role":"user","content":"Hi"}]})"
                       "\n");
  const Outcome outcome = run_ingot(command());
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_TRUE(has(outcome.errors, "chats.jsonl: at byte")) << outcome.errors;
  EXPECT_TRUE(has(outcome.errors, "line 3, sample 2: this chat has no turn to learn")) << outcome.errors;
}

}  // namespace
}  // namespace ingot::testing
