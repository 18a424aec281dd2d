#include "ingot/data/samples.h"

#include <atomic>

#include "tests/data/support.h"
#include "tests/support/temporary_directory.h"
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/data/packing.h"
#include "ingot/data/record.h"

namespace ingot::data {
namespace {

using test::message_of;

// {"q": "ab", "a": "c"} is the bytes of both, of which those of the answer are trained.
SampleEncoder byte_samples(std::atomic<int>* calls = nullptr) {
  SampleEncoder encoder;
  encoder.vocab_size = 256;
  encoder.identity = "bytes";
  encoder.is_record = [](const Record& record) { return record.json.contains("q"); };
  encoder.show = [](const EncodedSample& sample) {
    return std::string(sample.tokens.begin(), sample.tokens.end());
  };
  encoder.encode = [calls](const Record& record, const RecordLocation& location) {
    if (calls != nullptr) ++*calls;
    if (!record.json.contains("a")) location.fail("has no answer");
    EncodedSample sample;
    for (const char* key : {"q", "a"})
      for (const char c : record.json[key].get<std::string>()) {
        sample.tokens.push_back(static_cast<unsigned char>(c));
        sample.trained.push_back(*key == 'a');
      }
    return sample;
  };
  return encoder;
}

class Samples : public ::testing::Test {
 protected:
  SourceOptions source(const std::string& name, const std::string& text) {
    write_file_atomically(directory_.at(name), text);
    return {.paths = {directory_.at(name)}, .records = true};
  }
  std::shared_ptr<const TokenStore> load(const SourceOptions& options,
                                         const SampleEncoder& encoder = byte_samples(),
                                         const std::string& cache = {}) {
    return load_samples(options, encoder, {.directory = cache}, report_);
  }
  // Trained bytes in capitals.
  static std::string shown(const TokenStore& store) {
    std::string text;
    for (std::int64_t d = 0; d < store.documents(); ++d) {
      for (std::int64_t i = store.document(d).begin; i < store.document(d).end; ++i)
        text += static_cast<char>(store.trained(i) ? store.at(i) - 32 : store.at(i));
      text += '|';
    }
    return text;
  }

  test::TemporaryDirectory directory_;
  SampleReport report_;
};

TEST_F(Samples, LinesArraysAndTablesGiveTheSame) {
  const std::string right = "abC|dEF|";
  EXPECT_EQ(shown(*load(source("a.jsonl", "{\"q\":\"ab\",\"a\":\"c\"}\n\n{\"q\":\"d\",\"a\":\"ef\"}\n"))),
            right);
  EXPECT_EQ(shown(*load(source("a.json", "[{\"q\":\"ab\",\"a\":\"c\"},{\"q\":\"d\",\"a\":\"ef\"}]"))), right);
  EXPECT_EQ(
      shown(*load(source("b.json", "{\"data\":[{\"q\":\"ab\",\"a\":\"c\"},{\"q\":\"d\",\"a\":\"ef\"}]}"))),
      right);
  EXPECT_EQ(shown(*load(source("a.csv", "q,a\nab,c\nd,\"ef\"\n"))), right);
  EXPECT_EQ(shown(*load(source("a.tsv", "q\ta\nab\tc\nd\tef\n"))), right);
  EXPECT_EQ(report_.samples, 2);
  EXPECT_EQ(report_.tokens, 6);
  EXPECT_EQ(report_.trained_tokens, 3);
}

TEST_F(Samples, ADirectoryGivesItsFilesOfRecords) {
  source("1.csv", "q,a\nab,c\n");
  source("2.json", "[{\"q\":\"d\",\"a\":\"ef\"}]");
  source("readme.md", "not data");
  const SourceOptions all{.paths = {directory_.at(".")}, .records = true};
  EXPECT_EQ(shown(*load(all)), "abC|dEF|");
}

TEST_F(Samples, TheCacheKeepsTokensAndMasks) {
  std::atomic<int> calls = 0;
  std::string lines;
  for (int i = 0; i < 3000; ++i)
    lines += fmt::format("{{\"q\":\"ab\",\"a\":\"c{}\"}}\n", i % 7 == 0 ? "d" : "");
  const SourceOptions options = source("a.jsonl", lines);
  const SampleEncoder encoder = byte_samples(&calls);
  const std::string first = shown(*load(options, encoder, directory_.at("cache")));
  EXPECT_FALSE(report_.cache.reused);
  EXPECT_EQ(shown(*load(options, encoder, directory_.at("cache"))), first);
  EXPECT_TRUE(report_.cache.reused);
  EXPECT_EQ(calls, 3000);
  EXPECT_EQ(shown(*load(options, encoder)), first);
}

TEST_F(Samples, AnErrorNamesFileLineAndSampleWhicheverThreadMetIt) {
  std::string lines;
  for (int i = 0; i < 2000; ++i) lines += i < 1500 ? "{\"q\":\"ab\",\"a\":\"c\"}\n\n" : "{\"q\":\"ab\"}\n\n";
  const SourceOptions options = source("a.jsonl", lines);
  const std::string message = message_of<FormatError>([&] { load(options); });
  EXPECT_NE(message.find("a.jsonl: at byte "), std::string::npos) << message;
  EXPECT_NE(message.find("line 3001, sample 1501: has no answer"), std::string::npos) << message;
}

TEST_F(Samples, MaskedSamplesAreLeftOutAndDataOfNothingElseIsShown) {
  EXPECT_EQ(shown(*load(source("a.jsonl", "{\"q\":\"ab\",\"a\":\"\"}\n{\"q\":\"d\",\"a\":\"e\"}\n"))), "dE|");
  EXPECT_EQ(report_.all_masked, 1);
  const SourceOptions options =
      source("b.jsonl", "{\"q\":\"what is it\",\"a\":\"\"}\n{\"q\":\"d\",\"a\":\"\"}\n");
  const std::string message = message_of<InvalidConfig>([&] { load(options); });
  for (const char* part : {"nothing in the 2 samples is trained", "b.jsonl, line 1, sample 1", "what is it"})
    EXPECT_NE(message.find(part), std::string::npos) << message;
}

TEST_F(Samples, WhatHoldsNoRecordsSaysWhatToDo) {
  EXPECT_NE(message_of<FormatError>([&] { load(source("a.txt", "just text")); }).find("is plain text"),
            std::string::npos);
  const std::string parquet =
      message_of<FormatError>([&] { load(source("a.parquet", std::string("PAR1\0\1\0PAR1", 11))); });
  EXPECT_NE(parquet.find("a.parquet: footer: is missing"), std::string::npos) << parquet;
}

TEST_F(Samples, SequencesHoldWholeSamplesAndTargetsThatAreTrained) {
  const auto store =
      load(source("a.jsonl",
                  "{\"q\":\"ab\",\"a\":\"cd\"}\n{\"q\":\"e\",\"a\":\"f\"}\n{\"q\":\"ghi\",\"a\":\"jk\"}\n"
                  "{\"q\":\"lm\",\"a\":\"nopqrst\"}\n"));
  DocumentSet set = DocumentSet::all(store);
  set.samples = true;
  const auto packed = [&](ExcessLength strategy) {
    const PackedSequences sequences(
        set, {.sequence_length = 7, .packing = Packing::best_fit, .excess_length = strategy});
    std::vector<std::string> rows;
    std::vector<std::int32_t> tokens(7), targets(7), positions(7), starts(7);
    for (std::int64_t i = 0; i < sequences.size(); ++i) {
      const std::int64_t count =
          sequences.fill(i, SequenceRows<std::int32_t>{tokens, targets, positions, starts});
      std::string row;
      for (const std::int32_t target : targets) row += target == kNoTarget ? '.' : static_cast<char>(target);
      rows.push_back(fmt::format("{} {}", row, count));
    }
    return rows;
  };
  EXPECT_EQ(packed(ExcessLength::drop), (std::vector<std::string>{"..jk.f. 3", ".cd.... 2"}));
  EXPECT_EQ(packed(ExcessLength::truncate),
            (std::vector<std::string>{".nopqr. 5", "..jk.f. 3", ".cd.... 2"}));
  EXPECT_NE(message_of<InvalidConfig>([&] { packed(ExcessLength::raise); }).find("a sample has 9 tokens"),
            std::string::npos);
  set.documents = {set.documents.back()};
  EXPECT_NE(message_of<InvalidConfig>([&] { packed(ExcessLength::drop); }).find("every sample is longer"),
            std::string::npos);
}

TEST_F(Samples, AreNeverCutForValidation) {
  std::string lines;
  for (int i = 0; i < 40; ++i)
    lines += fmt::format("{{\"q\":\"{}\",\"a\":\"bc\"}}\n", std::string(i % 9 + 1, 'a'));
  DocumentSet set = DocumentSet::all(load(source("a.jsonl", lines)));
  set.samples = true;
  const TrainValidation parts = split_documents(set, 0.2, 7);
  EXPECT_TRUE(parts.train.samples && parts.validation.samples);
  EXPECT_GT(parts.validation.documents.size(), 3U);
  EXPECT_EQ(parts.train.documents.size() + parts.validation.documents.size(), set.documents.size());
}

}  // namespace
}  // namespace ingot::data
