#include <string>
#include <vector>

#include "tests/support/source_dir.h"
#include "tests/support/temporary_directory.h"
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "ingot/base/files.h"
#include "ingot/base/json.h"
#include "ingot/models/open_tokenizer.h"
#include "ingot/text/gguf_tokenizer.h"
#include "ingot/text/tokenizer.h"

namespace ingot {
namespace {

using nlohmann::ordered_json;
using Ids = std::vector<std::int32_t>;

ordered_json read_json(const std::string& name) {
  const std::string path = test::source_dir() + "/tests/text/goldens/" + name;
  return parse_json<ordered_json>(read_file(path), path);
}

GgufMetadata lists_of(const std::string& golden, bool expected, const char* architecture = "llama") {
  const test::TemporaryDirectory directory;
  write_file_atomically(directory.at("tokenizer.json"), dump_json(read_json(golden + ".json")["tokenizer"]));
  GgufMetadata metadata;
  metadata.set("general.architecture", GgufValue::of_string(architecture));
  const auto tokenizer = text::Tokenizer::from_directory(directory.path());
  EXPECT_EQ(write_gguf_tokenizer(directory.path(), tokenizer.vocab_size(), metadata), expected) << golden;
  return metadata;
}

class ExportedTokenizer : public ::testing::TestWithParam<const char*> {};

// The lists alone, as llama.cpp reads them.
TEST_P(ExportedTokenizer, ItsListsGiveTheIdsOfItsTokenizerJson) {
  const text::Tokenizer again(
      text::make_gguf_tokenizer(gguf_vocabulary(lists_of(GetParam(), true)), "model.gguf"));
  const ordered_json golden = read_json(std::string(GetParam()) + ".json"), texts = read_json("texts.json");
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const Ids plain = golden["cases"][i]["ids"];
    EXPECT_EQ(again.encode(texts[i].get<std::string>(), {.add_special_tokens = false}), plain)
        << dump_json(texts[i]);
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, ExportedTokenizer,
                         ::testing::Values("llama2", "gemma", "llama3", "qwen2", "bert_cased",
                                           "bert_uncased"),
                         [](const auto& param) { return std::string(param.param); });

TEST(ExportedTokenizers, FilesOfGemma4HaveMergesInsteadOfScores) {
  const GgufMetadata metadata = lists_of("gemma", true, "gemma4");
  EXPECT_EQ(metadata.text("tokenizer.ggml.model"), "gemma4");
  EXPECT_EQ(metadata.find("tokenizer.ggml.scores"), nullptr);
  const text::Tokenizer again(text::make_gguf_tokenizer(gguf_vocabulary(metadata), "model.gguf"));
  const ordered_json golden = read_json("gemma.json"), texts = read_json("texts.json");
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const Ids plain = golden["cases"][i]["ids"];
    EXPECT_EQ(again.encode(texts[i].get<std::string>(), {.add_special_tokens = false}), plain)
        << dump_json(texts[i]);
  }
}

// What stands around a text, too: [CLS] and [SEP], <s> and </s>.
TEST(ExportedTokenizers, ListsOfEncodersKeepTheirSpecialTokens) {
  for (const char* name : {"bert_uncased", "xlm_roberta"}) {
    const GgufMetadata metadata = lists_of(name, true);
    const text::Tokenizer again(text::make_gguf_tokenizer(gguf_vocabulary(metadata), "model.gguf"));
    const auto whole =
        text::Tokenizer::from_json(dump_json(read_json(std::string(name) + ".json")["tokenizer"]));
    EXPECT_EQ(again.encode("one two"), whole.encode("one two")) << name;
    EXPECT_EQ(metadata.boolean("tokenizer.ggml.add_eos_token"), true) << name;
  }
}

TEST(ExportedTokenizers, AKindWithoutListsIsToldAndKeptWhole) {
  for (const char* name : {"word_level", "unigram_bytes", "roberta"}) {  // the last begins texts with a space
    const GgufMetadata metadata = lists_of(name, false);
    EXPECT_EQ(metadata.find("tokenizer.ggml.model"), nullptr) << name;
    EXPECT_NE(metadata.find("tokenizer.huggingface.json"), nullptr) << name;
  }
}

}  // namespace
}  // namespace ingot
