#include "ingot/text/tokenizer.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <thread>

#include <gtest/gtest.h>

#include "ingot/base/error.h"
#include "ingot/text/bpe_trainer.h"

namespace ingot::text {
namespace {

Tokenizer trained() {
  BpeTrainerConfig config;
  config.vocab_size = 270;
  config.min_frequency = 0;
  return train_bpe(config, "the cat sat on the mat, the end. the cat sat.");
}

/// The message that reading `json` ends with.
std::string refusal_of(const std::string& json) {
  try {
    Tokenizer::from_json(json, "x/tokenizer.json");
  } catch (const Error& e) {
    return e.what();
  }
  return "(accepted)";
}

std::string with_model(const std::string& model) {
  return R"({"version":"1.0","added_tokens":[],"model":)" + model + "}";
}

TEST(Tokenizer, SpecialTokensAreFoundInTextUnlessItIsNotTrusted) {
  const Tokenizer t = trained();
  EXPECT_EQ(t.encode("<|endoftext|>"), std::vector<std::int32_t>{0});
  EXPECT_GT(t.encode("<|endoftext|>", {.split_special_tokens = true}).size(), 1U);
  EXPECT_EQ(t.decode(t.encode("a<|endoftext|>b")), "ab");
  EXPECT_EQ(t.decode(t.encode("a<|endoftext|>b"), false), "a<|endoftext|>b");
}

TEST(Tokenizer, NamesIdsAndTokens) {
  const Tokenizer t = trained();
  EXPECT_EQ(t.vocab_size(), 270);
  EXPECT_EQ(t.eos_id(), 0);
  EXPECT_EQ(t.pad_id(), std::nullopt);
  EXPECT_TRUE(t.is_special(0));
  EXPECT_FALSE(t.is_special(1));
  EXPECT_EQ(t.token_to_id("no such token"), std::nullopt);
  EXPECT_EQ(t.id_to_token(-1), "");
  EXPECT_EQ(t.id_to_token(1 << 30), "");
  EXPECT_EQ(t.token_to_id(t.id_to_token(260)), 260);
}

TEST(Tokenizer, UnknownIdsDecodeToNothing) {
  const Tokenizer t = trained();
  auto ids = t.encode("the cat");
  ids.insert(ids.begin() + 1, {-5, 100000, INT32_MAX});
  EXPECT_EQ(t.decode(ids), "the cat");
}

TEST(Tokenizer, ADirectoryComesBackAsItWasSaved) {
  const auto directory = std::filesystem::temp_directory_path() / "ingot_tokenizer_test";
  const Tokenizer t = trained();
  t.save_directory(directory);
  const Tokenizer back = Tokenizer::from_directory(directory);
  EXPECT_EQ(back.to_json(), t.to_json());
  EXPECT_EQ(back.config().eos_token, "<|endoftext|>");
  EXPECT_EQ(back.eos_id(), 0);
  std::filesystem::remove_all(directory);
}

TEST(Tokenizer, ABatchEqualsItsTextsOneByOne) {
  const Tokenizer t = trained();
  std::vector<std::string> texts;
  for (int i = 0; i < 100; ++i) texts.push_back("the cat " + std::to_string(i * 7919));
  const std::vector<std::string_view> views(texts.begin(), texts.end());
  const auto batch = t.encode_batch(views);
  for (std::size_t i = 0; i < texts.size(); ++i) EXPECT_EQ(batch[i], t.encode(texts[i]));
}

TEST(Tokenizer, ThreadsMayShareOne) {
  const Tokenizer t = trained();
  const auto expected = t.encode("the cat sat on the mat");
  std::vector<std::jthread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      for (int k = 0; k < 200; ++k) EXPECT_EQ(t.encode("the cat sat on the mat"), expected);
    });
}

TEST(Tokenizer, LongAndShortWordsMergeAlike) {
  // 96 symbols and fewer are merged by scanning, more by a heap: the same word with one more letter.
  const Tokenizer t = trained();
  for (const std::size_t n : {90U, 96U, 97U, 150U, 5000U}) {
    std::string word;
    while (word.size() < n) word += "thecatsat";
    word.resize(n);
    EXPECT_EQ(t.decode(t.encode(word)), word);
    auto longer = t.encode(word + "q"), shorter = t.encode(word);
    longer.pop_back();
    EXPECT_EQ(longer, shorter) << n;
  }
}

TEST(Tokenizer, LongRunsOfOneCharacterAreCutInOneGo) {
  const Tokenizer t = trained();
  for (const char c : {' ', '\n', 'a', '1', '!', '\''}) {
    const std::string text(1 << 20, c);
    EXPECT_EQ(t.decode(t.encode(text)), text);
  }
}

TEST(Tokenizer, BrokenBytesComeBackFromAByteLevelTokenizer) {
  const Tokenizer t = trained();
  const std::string text = "the \xFF\xFE cat \xE4\xBD<|endoftext|>\x80 end";
  EXPECT_EQ(t.decode_bytes(t.encode(text), false), text);
  const auto split = t.encode(text, {.split_special_tokens = true});
  EXPECT_EQ(std::count(split.begin(), split.end(), 0), 0);
  EXPECT_EQ(t.decode_bytes(split), text);
}

TEST(Tokenizer, AMissingFileIsNamed) {
  try {
    Tokenizer::from_file("/no/such/tokenizer.json");
    FAIL();
  } catch (const IoError& e) {
    EXPECT_EQ(e.path, "/no/such/tokenizer.json");
  }
  EXPECT_THROW(Tokenizer::from_directory("/no/such"), IoError);
}

TEST(Tokenizer, EveryTruncationOfAFileIsRefused) {
  const std::string json = trained().to_json();
  for (std::size_t n = 0; n + 2 < json.size(); n += 1 + n / 50)
    EXPECT_NE(refusal_of(json.substr(0, n)).find("x/tokenizer.json"), std::string::npos) << n;
}

TEST(Tokenizer, BadFilesAreRefusedWithFileAndField) {
  EXPECT_EQ(refusal_of("[]"), "x/tokenizer.json: document: expected an object, found array");
  EXPECT_EQ(refusal_of("{}"), "x/tokenizer.json: model: is missing");
  EXPECT_EQ(refusal_of(with_model(R"({"type":"Foo"})")), "x/tokenizer.json: model: unknown model \"Foo\"");
  EXPECT_EQ(refusal_of(with_model(R"({"type":"BPE","merges":[]})")),
            "x/tokenizer.json: model.vocab: is missing");
  EXPECT_EQ(refusal_of(with_model(R"({"type":"BPE","vocab":{}})")),
            "x/tokenizer.json: model.merges: is missing");
  EXPECT_EQ(refusal_of(with_model(R"({"type":"BPE","vocab":{"a":0},"merges":["a b"]})")),
            "x/tokenizer.json: model.merges[0]: \"b\" is not in the vocabulary");
  EXPECT_EQ(refusal_of(with_model(R"({"type":"BPE","vocab":{"a":0},"merges":[["a"]]})")),
            "x/tokenizer.json: model.merges[0]: expected two tokens, found 1");
  EXPECT_EQ(refusal_of(with_model(R"({"type":"BPE","vocab":{"a":0,"b":0},"merges":[]})")),
            "x/tokenizer.json: model.vocab[\"b\"]: the id 0 belongs to \"a\" already");
  EXPECT_EQ(refusal_of(with_model(R"({"type":"BPE","vocab":{"a":-1},"merges":[]})")),
            "x/tokenizer.json: model.vocab[\"a\"]: the id -1 is out of range: 1 tokens allow 0 to 1048592");
  EXPECT_NE(
      refusal_of(with_model(R"({"type":"BPE","vocab":{"a":4000000000},"merges":[]})")).find("out of range"),
      std::string::npos);
  EXPECT_EQ(refusal_of(with_model(R"({"type":"BPE","vocab":{"a":"x"},"merges":[]})")),
            "x/tokenizer.json: model.vocab[\"a\"]: expected an integer, found string");
  EXPECT_EQ(refusal_of(R"({"added_tokens":[{"id":0}],"model":{"type":"BPE","vocab":{},"merges":[]}})"),
            "x/tokenizer.json: added_tokens[0].content: is missing");
  EXPECT_EQ(refusal_of(R"({"pre_tokenizer":{"type":"Nope"},"model":{"type":"BPE","vocab":{},"merges":[]}})"),
            "x/tokenizer.json: pre_tokenizer: unknown pre-tokenizer \"Nope\"");
}

std::string failure_on(const std::string& stages, const std::string& text) {
  const Tokenizer tokenizer = Tokenizer::from_json(
      "{" + stages + R"(,"model":{"type":"BPE","vocab":{"a":0},"merges":[],"unk_token":"a"}})",
      "tokenizer.json");
  try {
    tokenizer.encode(text);
  } catch (const Error& e) {
    return e.what();
  }
  return "(encoded)";
}

TEST(Tokenizer, PatternsCannotMatchBackwardsForEver) {
  EXPECT_NE(failure_on(R"("pre_tokenizer":{"type":"Split","behavior":"Isolated","invert":false,"pattern":)"
                       R"x({"Regex":"(?(DEFINE)(?<x>..\\K))(?=(?&x))"}})x",
                       "abcd")
                .find("matches backwards"),
            std::string::npos);
}

TEST(Tokenizer, TemplatesAddOnlySoManyTokens) {
  std::string pieces, ids;
  for (int i = 0; i < 1000; ++i) {
    pieces += std::string(i == 0 ? "" : ",") + R"({"SpecialToken":{"id":"x","type_id":0}})";
    ids += std::string(i == 0 ? "" : ",") + "0";
  }
  const auto refusal = [&](const std::string& single, const std::string& of_token) {
    return refusal_of(R"({"post_processor":{"type":"TemplateProcessing","single":[)" + single +
                      R"(],"pair":[],"special_tokens":{"x":{"id":"x","ids":[)" + of_token +
                      R"(],"tokens":["a"]}}},"model":{"type":"BPE","vocab":{"a":0},"merges":[]}})");
  };
  EXPECT_NE(refusal(pieces, ids).find("adds more than 65536 tokens"), std::string::npos);
  std::string many = pieces;
  for (int i = 0; i < 4; ++i) many += "," + pieces;
  EXPECT_NE(refusal(many, "0").find("has more than 4096 pieces"), std::string::npos);
}

TEST(Tokenizer, PreTokenizersMultiplyATextOnlySoOften) {
  const std::string doubles = R"({"type":"ByteLevel","add_prefix_space":false,"use_regex":false})";
  std::string chain = doubles;
  for (int i = 0; i < 60; ++i) chain += "," + doubles;
  EXPECT_NE(
      failure_on(R"("pre_tokenizer":{"type":"Sequence","pretokenizers":[)" + chain + "]}", "\xC3\xA9\xC3\xA9")
          .find("the tokenizer's rules make over"),
      std::string::npos);
}

TEST(Tokenizer, NormalizersMultiplyATextOnlySoOften) {
  const std::string doubles = R"({"type":"Replace","pattern":{"String":"a"},"content":"aaaaaaaaaaaaaaaa"})";
  std::string chain = doubles;
  for (int i = 0; i < 12; ++i) chain += "," + doubles;
  EXPECT_NE(failure_on(R"("normalizer":{"type":"Sequence","normalizers":[)" + chain + "]}", "aaaa")
                .find("the tokenizer's rules make over"),
            std::string::npos);
  const std::string once = std::string(1 << 20, 'b');
  EXPECT_NE(failure_on(R"("normalizer":{"type":"Replace","pattern":{"Regex":"a"},"content":")" + once + "\"}",
                       std::string(1000, 'a'))
                .find("the tokenizer's rules make over"),
            std::string::npos);
}

TEST(Tokenizer, DeepNestingIsRefused) {
  EXPECT_NE(refusal_of(R"({"normalizer":)" + std::string(100000, '[') + "}"), "(accepted)");
}

}  // namespace
}  // namespace ingot::text
