#include <filesystem>

#include "tests/support/source_dir.h"
#include "tests/support/temporary_directory.h"
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/base/json.h"
#include "ingot/text/tokenizer.h"

namespace ingot::text {
namespace {

using test::message_of;

std::string preset(const std::string& name) {
  return test::source_dir() + "/tests/text/goldens/keras_hub/" + name;
}

// What Keras-Hub gives (tools/goldens/keras_hub_tokenizers.py).
class KerasHubTokenizer : public ::testing::TestWithParam<const char*> {};

TEST_P(KerasHubTokenizer, GivesTheIdsOfKerasHub) {
  const Tokenizer tokenizer = Tokenizer::from_directory(preset(GetParam()));
  const auto cases = parse_json<nlohmann::json>(read_file(preset(GetParam()) + "/expected.json"), "the test");
  ASSERT_FALSE(cases.empty());
  for (const auto& c : cases) {
    const auto text = c["text"].get<std::string>();
    EXPECT_EQ(tokenizer.encode(text, {.add_special_tokens = false}), c["ids"].get<std::vector<int32_t>>())
        << text;
  }
}

INSTANTIATE_TEST_SUITE_P(Presets, KerasHubTokenizer,
                         ::testing::Values("gpt2", "bert", "bert_cased", "bert_accents", "t5"),
                         [](const auto& info) { return std::string(info.param); });

TEST(KerasHubTokenizer, AddsWhatTheFamilyPutsAroundAText) {
  const Tokenizer bert = Tokenizer::from_directory(preset("bert"));
  const std::vector<int32_t> ids = bert.encode("hello");
  ASSERT_EQ(ids.size(), 3U);
  EXPECT_EQ(bert.decode(ids), "hello");
  EXPECT_EQ(ids.front(), 2);  // [CLS]
  EXPECT_EQ(ids.back(), 3);   // [SEP]
  const Tokenizer gpt2 = Tokenizer::from_directory(preset("gpt2"));
  EXPECT_EQ(gpt2.config().eos_token, "<|endoftext|>");
  EXPECT_EQ(gpt2.decode(gpt2.encode("12345 don't")), "12345 don't");
}

TEST(KerasHubTokenizer, SavesAsAnyOther) {
  const test::TemporaryDirectory directory;
  const Tokenizer bert = Tokenizer::from_directory(preset("bert_accents"));
  bert.save_directory(directory.path());
  const std::string text = "Cr\u00e8me \u4f60\u597d a-b_c^d$e\u200bx";
  EXPECT_EQ(Tokenizer::from_directory(directory.path()).encode(text), bert.encode(text));
}

TEST(KerasHubTokenizer, WhatIsMissingOrUnknownIsNamed) {
  const test::TemporaryDirectory directory;
  const auto said = [&](const std::string& json) {
    write_file_atomically(directory.at("tokenizer.json"), json);
    return message_of<Error>([&] { Tokenizer::from_directory(directory.path()); });
  };
  const std::string whisper = R"({"class_name": "WhisperTokenizer", "config": {}})";
  EXPECT_NE(said(whisper).find("vocabulary.spm"), std::string::npos) << said(whisper);
  std::filesystem::create_directories(directory.at("assets/tokenizer"));
  write_file_atomically(directory.at("assets/tokenizer/vocabulary.json"), R"({"a": 0})");
  write_file_atomically(directory.at("assets/tokenizer/merges.txt"), "");
  EXPECT_NE(said(whisper).find("WhisperTokenizer"), std::string::npos) << said(whisper);
  std::filesystem::remove(directory.at("assets/tokenizer/merges.txt"));
  const std::string gpt2 = R"({"class_name": "GPT2Tokenizer", "config": {}})";
  EXPECT_NE(said(gpt2).find("merges.txt"), std::string::npos) << said(gpt2);
  std::filesystem::remove(directory.at("assets/tokenizer/vocabulary.json"));
  write_file_atomically(directory.at("assets/tokenizer/vocabulary.txt"), "[UNK]\na\n");
  const std::string whole = R"({"class_name": "BertTokenizer", "config": {"split": false}})";
  EXPECT_NE(said(whole).find("split"), std::string::npos) << said(whole);
  const std::string bare = R"({"class_name": "BertTokenizer", "config": 3})";
  EXPECT_NE(said(bare).find("config"), std::string::npos) << said(bare);
}

}  // namespace
}  // namespace ingot::text
