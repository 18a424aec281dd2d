#include "ingot/train/language/dataset.h"

#include "tests/support/source_dir.h"
#include "tests/support/temporary_directory.h"
#include <gtest/gtest.h>

#include "ingot/base/config.h"
#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/text/bpe_trainer.h"
#include "ingot/text/chat_templates.h"

namespace ingot {
namespace {

using test::message_of;

// A tokenizer of bytes, and files of data in every form.
class DatasetTest : public ::testing::Test {
 protected:
  DatasetTest() {
    put("chat.jsonl", R"({"messages":[{"role":"user","content":"Q"},{"role":"assistant","content":"A"}]})"
                      "\n"
                      R"({"messages":[{"role":"user","content":"q"},{"role":"assistant","content":"a"}]})"
                      "\n");
    put("share.json", R"([{"conversations":[{"from":"human","value":"Q"},{"from":"gpt","value":"A"}]}])");
    put("alpaca.csv", "instruction,input,output\nAdd,1 2,3\n");
    put("pairs.jsonl", R"({"prompt":"P:","completion":"C"})"
                       "\n");
    put("text.jsonl", R"({"text":"plain words"})"
                      "\n");
    put("words.txt", "just words");
  }
  void put(const std::string& name, const std::string& text) {
    write_file_atomically(directory_.at(name), text);
  }

  TrainConfig config(const std::string& datasets, const std::string& more = {}) const {
    Config file = Config::parse("model: some/dir\nval_set_size: 0\noutput_dir: " + directory_.at("out") +
                                "\n" + (more.find("sequence_len") == more.npos ? "sequence_len: 400\n" : "") +
                                more + "\ndatasets:\n" + datasets);
    return read_train_config(file);
  }
  std::string entry(const std::string& file, const std::string& more = {}) const {
    return "  - {path: " + directory_.at(file) + (more.empty() ? "" : ", " + more) + "}\n";
  }
  // What is trained of all that the data holds.
  std::string trained(const TrainConfig& c) const {
    const TrainingData data = prepare_data(c, with_settings(tokenizer_, c.samples));
    const data::TokenStore& store = *data.train_documents.store;
    std::string out;
    for (const data::TokenRange& document : data.train_documents.documents) {
      std::vector<std::int32_t> ids;
      for (std::int64_t i = document.begin; i < document.end; ++i)
        if (store.trained(i)) ids.push_back(store.at(i));
      out += tokenizer_.decode(ids, false) + "|";
    }
    return out;
  }
  std::string trained(const std::string& datasets, const std::string& more = {}) const {
    return trained(config(datasets, more));
  }

  test::TemporaryDirectory directory_;
  text::Tokenizer tokenizer_ = [] {
    text::BpeTrainerConfig trainer;
    trainer.vocab_size = 259;
    trainer.special_tokens = {"<|endoftext|>", "<|im_start|>", "<|im_end|>"};
    const std::vector<std::string_view> texts{"a"};
    return text::train_bpe(trainer, texts)
        .with_config({.eos_token = "<|im_end|>", .chat_template = *text::chat_template_by_name("chatml")});
  }();
};

TEST_F(DatasetTest, ParquetFilesBesideAReadmeAreADataSetOfTheHub) {
  make_directories(directory_.at("set/data"));
  put("set/README.md", "# Chats");
  put("set/data/train-00000-of-00001.parquet",
      read_file(test::source_dir() + "/tests/fuzz/corpus/parquet/datasets"));
  EXPECT_EQ(trained(entry("set")), "turn 1 of 2, größer 你好<|im_end|>|turn 1 of 3, größer 你好<|im_end|>|");
}

TEST_F(DatasetTest, WhatRecordsAreIsSeenFromTheFirst) {
  EXPECT_EQ(trained(entry("chat.jsonl")), "A<|im_end|>|a<|im_end|>|");
  EXPECT_EQ(trained(entry("share.json")), "A<|im_end|>|");
  EXPECT_EQ(trained(entry("alpaca.csv")), "3<|im_end|>|");
  EXPECT_EQ(trained(entry("pairs.jsonl")), "C<|im_end|>|");
  EXPECT_EQ(trained(entry("text.jsonl"), "sequence_len: 4"), "plain words<|im_end|>|");
  EXPECT_EQ(trained(entry("words.txt"), "sequence_len: 4"), "just words<|im_end|>|");
}

TEST_F(DatasetTest, TypesAndFieldsAreThoseOfAxolotl) {
  EXPECT_EQ(trained(entry("chat.jsonl",
                          "type: chat_template, split: train, roles_to_train: [user], train_on_eos: none")),
            "Q|q|");
  EXPECT_EQ(trained(entry("share.json", "type: sharegpt")), "A<|im_end|>|");
  EXPECT_EQ(trained(entry(
                "share.json",
                "type: chat_template, field_messages: conversations, message_property_mappings: {role: from, "
                "content: value}, roles: {assistant: [human], user: [gpt]}")),
            "Q<|im_end|>|");
  EXPECT_EQ(
      trained(entry("alpaca.csv", "type: alpaca, ds_type: csv"), "train_on_inputs: true").find("Below is"),
      0U);
  EXPECT_EQ(trained(entry(
                "alpaca.csv",
                "type: {field_instruction: input, field_output: instruction, format: \"{instruction}?\"}")),
            "Add<|im_end|>|");
  EXPECT_EQ(trained(entry("pairs.jsonl", "type: completion, field: prompt"), "sequence_len: 3"),
            "P:<|im_end|>|");
  EXPECT_EQ(trained(entry("chat.jsonl", "ds_type: text"), "sequence_len: 4").find("{\"messages\""), 0U);
  EXPECT_EQ(trained(entry("chat.jsonl",
                          "chat_template_jinja: \"{% for m in messages %}{% generation %}{{ m.content }}-{% "
                          "endgeneration %}{% endfor %}\"")),
            "Q-A-|q-a-|");
}

TEST_F(DatasetTest, TextsAndSamplesAreMixedAndOnlyTextsAreCut) {
  EXPECT_EQ(trained(entry("words.txt") + entry("chat.jsonl"), "sequence_len: 60"),
            "just words<|im_end|>|A<|im_end|>|a<|im_end|>|");
  put("long.txt", std::string(150, 'x'));
  const TrainConfig c = config(entry("long.txt") + entry("chat.jsonl"), "sequence_len: 60");
  const TrainingData data = prepare_data(c, tokenizer_);
  EXPECT_EQ(data.train->options().packing, data::Packing::best_fit);
  EXPECT_EQ(data.train->too_long(), 0);
  EXPECT_EQ(data.train_documents.documents.size(), 5U);  // 60 + 60 + 31 of the text, and two chats
}

TEST_F(DatasetTest, SplitsAndFilesOfADirectoryAreChosen) {
  make_directories(directory_.at("d"));
  put("d/train.jsonl", R"({"prompt":"a","completion":"b"})");
  put("d/test.jsonl", R"({"prompt":"c","completion":"d"})");
  EXPECT_EQ(trained(entry("d", "split: train, type: prompt_completion")), "b<|im_end|>|");
  EXPECT_EQ(trained(entry("d", "split: test")), "d<|im_end|>|");
  EXPECT_EQ(trained(entry("d", "data_files: [test.jsonl]")), "d<|im_end|>|");
}

TEST_F(DatasetTest, SlicesShortSamplesAndDuplicatesAreLeftOut) {
  EXPECT_EQ(trained(entry("chat.jsonl", "split: \"train[:1]\"")), "A<|im_end|>|");
  EXPECT_EQ(trained(entry("chat.jsonl", "split: \"train[50%:]\"")), "a<|im_end|>|");
  EXPECT_EQ(trained(entry("chat.jsonl", "split: \"train[-1:]\"")), "a<|im_end|>|");
  EXPECT_EQ(trained(entry("chat.jsonl") + entry("chat.jsonl"), "dataset_exact_deduplication: true"),
            "A<|im_end|>|a<|im_end|>|");
  EXPECT_EQ(trained(entry("chat.jsonl") + entry("alpaca.csv"), "min_sample_len: 100"), "3<|im_end|>|");
}

TEST_F(DatasetTest, SpecialTokensAreThoseOfTheRun) {
  const TrainConfig c = config(
      entry("chat.jsonl"),
      "special_tokens: {pad_token: \"<|nothing|>\", eos_token: \"<|endoftext|>\"}\nchat_template: chatml");
  const text::Tokenizer tokenizer = with_settings(tokenizer_, c.samples);
  EXPECT_EQ(tokenizer.config().eos_token, "<|endoftext|>");
  EXPECT_FALSE(tokenizer.pad_id().has_value());  // padding is never learned
  EXPECT_EQ(trained(c),
            "A<|im_end|>|a<|im_end|>|");  // the special token behind a content ends it all the same
  const TrainConfig more = config(entry("chat.jsonl"), "special_tokens: {eos_token: \"<|nothing|>\"}");
  const text::Tokenizer grown = with_settings(tokenizer_, more.samples);
  EXPECT_EQ(grown.eos_id(), tokenizer_.vocab_size());  // a new one
  EXPECT_TRUE(grown.is_special(tokenizer_.vocab_size()));
}

TEST_F(DatasetTest, WhatCannotBeTrainedSaysWhatToWrite) {
  const auto refusal = [&](const std::string& datasets, const std::string& more = {}) {
    return message_of<InvalidConfig>([&] { trained(datasets, more); });
  };
  const auto expect = [](const std::string& message, const std::string& part) {
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  put("odd.jsonl", R"({"a": 1, "b": 2})");
  put("pairs2.jsonl", R"({"prompt": "x", "chosen": "1", "rejected": "2"})");
  expect(refusal(entry("odd.jsonl")), "cannot be seen from their members: a, b");
  expect(refusal(entry("pairs2.jsonl")), "holds preferences");
  expect(refusal(entry("chat.jsonl", "type: chat_tempalte")), "did you mean 'chat_template'?");
  expect(refusal(entry("chat.jsonl", "type: chat_template.argilla")), "set rl, as in rl: dpo");
  expect(refusal(entry("chat.jsonl", "ds_type: orc")), "save orc as Parquet or JSON lines");
  expect(refusal(entry("chat.jsonl", "chat_template: chatlm")), "did you mean 'chatml'?");
  expect(refusal(entry("chat.jsonl", "split: \"train[10]\"")), "expected a slice such as train[:10%]");
  expect(refusal(entry("chat.jsonl", "split: \"train[:1%]\"")), "takes none of the 2 documents");
  expect(refusal(entry("chat.jsonl"), "min_sample_len: 1000"), "every sample is shorter");
  expect(refusal(entry("chat.jsonl", "train_on_eos: some")), "must be one of all, turn, last, none");
  expect(refusal(entry("chat.jsonl"), "excess_length_strategy: cut"), "drop, truncate, raise");
  tokenizer_ = tokenizer_.with_config({.eos_token = "<|im_end|>"});
  expect(refusal(entry("chat.jsonl")), "chat_template: the tokenizer has none");
  EXPECT_EQ(trained(entry("chat.jsonl"), "chat_template: chatml"), "A<|im_end|>|a<|im_end|>|");
  EXPECT_EQ(trained(entry("chat.jsonl"), "chat_template: tokenizer_default_fallback_chatml"),
            "A<|im_end|>|a<|im_end|>|");
}

}  // namespace
}  // namespace ingot
