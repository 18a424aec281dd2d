// What directories list beside the vocabulary, and patterns with sets.
#include <filesystem>

#include "tests/support/source_dir.h"
#include "tests/support/temporary_directory.h"
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/base/json.h"
#include "ingot/text/regex.h"
#include "ingot/text/tokenizer.h"

namespace ingot::text {
namespace {

using Ids = std::vector<std::int32_t>;
namespace fs = std::filesystem;

std::string golden_path(const std::string& name) {
  return test::source_dir() + "/tests/text/goldens/" + name;
}

// A SentencePiece model of 600 pieces with Llama's class; the ids are those of transformers 5.23 and 5.24.
class AddedTokens : public ::testing::Test {
 protected:
  AddedTokens() {
    fs::copy_file(golden_path("added_tokens_files/tokenizer.model"), folder_.path() + "/tokenizer.model");
  }
  void write(const std::string& name, const std::string& text) {
    write_file_atomically(folder_.path() + "/" + name, text);
  }
  void configure(const std::string& more) {
    write("tokenizer_config.json", R"({"tokenizer_class": "LlamaTokenizer", "add_bos_token": true,
      "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>")" +
                                       more + "}");
  }
  Ids encode(const std::string& text) const { return Tokenizer::from_directory(folder_.path()).encode(text); }

  const test::TemporaryDirectory folder_;
  const std::string text_ = "<|im_start|>user\nHi<|im_end|>\n a<|im_end|>b";
  const Ids ids_{1, 600, 536, 524, 262, 13, 595, 528, 601, 13, 263, 601, 543};
};

constexpr const char* kDecoder = R"(, "added_tokens_decoder": {
  "600": {"content": "<|im_start|>", "normalized": true, "special": true},
  "601": {"content": "<|im_end|>", "lstrip": false, "rstrip": false, "single_word": false, "special": false}})";

TEST_F(AddedTokens, OfADecoderAreFound) {
  configure(kDecoder);
  EXPECT_EQ(encode(text_), ids_);
  const Tokenizer tokenizer = Tokenizer::from_directory(folder_.path());
  EXPECT_EQ(tokenizer.vocab_size(), 602);
  EXPECT_TRUE(tokenizer.is_special(600));
  EXPECT_FALSE(tokenizer.is_special(601));
  EXPECT_EQ(tokenizer.decode(Ids{601, 536}), "<|im_end|>u");
  // They are saved with the rest.
  const test::TemporaryDirectory copy;
  tokenizer.save_directory(copy.path());
  EXPECT_EQ(Tokenizer::from_directory(copy.path()).encode(text_), ids_);
}

TEST_F(AddedTokens, OfAddedTokensJsonAreFound) {
  configure("");
  write("added_tokens.json", R"({"<|im_start|>": 600, "<|im_end|>": 601})");
  EXPECT_EQ(encode(text_), ids_);
}

TEST_F(AddedTokens, WithoutIdsFollowTheVocabulary) {
  configure(R"(, "additional_special_tokens": ["<|im_start|>"],
    "extra_special_tokens": {"eot_token": {"content": "<|im_end|>", "lstrip": false}})");
  EXPECT_EQ(encode(text_), ids_);
  EXPECT_EQ(Tokenizer::from_directory(folder_.path()).config().eot_token, "<|im_end|>");
  configure(R"(, "extra_special_tokens": ["<|im_start|>", "<|im_end|>", "<s>"])");
  EXPECT_EQ(encode(text_), ids_);
}

TEST_F(AddedTokens, OfALegacyTokenizerHaveASpaceBehindThem) {
  configure(std::string(kDecoder) + R"(, "legacy": true)");
  EXPECT_EQ(encode(text_), (Ids{1, 600, 437, 524, 262, 13, 595, 528, 601, 521, 13, 263, 601, 291}));
}

TEST_F(AddedTokens, MayEndATextAndStandBesideATokenizerJson) {
  configure(std::string(kDecoder) + R"(, "eos_token": "<|im_end|>", "add_eos_token": true)");
  EXPECT_EQ(encode("a"), (Ids{1, 263, 601}));
  const Tokenizer tokenizer = Tokenizer::from_directory(folder_.path());
  write("tokenizer.json", tokenizer.to_json());
  fs::remove(folder_.path() + "/tokenizer.model");
  configure(R"(, "added_tokens_decoder": {"602": {"content": "<x>", "special": true}})");
  EXPECT_EQ(encode("<x>"), (Ids{1, 602, 601}));
}

TEST_F(AddedTokens, WithABrokenIdAreRefused) {
  const auto message = [&](const std::string& more) {
    configure(more);
    try {
      encode("a");
    } catch (const FormatError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_NE(message(R"(, "added_tokens_decoder": {"x1": {"content": "a"}})").find("added_tokens_decoder.x1"),
            std::string::npos);
  EXPECT_NE(message(R"(, "added_tokens_decoder": {"-4": {"content": "a"}})").find("-4 is out of range"),
            std::string::npos);
}

// Pieces of a text, as a Split stage that isolates matches cuts them.
std::vector<std::string> isolate(const Regex& regex, const std::string& text) {
  std::vector<std::string> pieces;
  std::size_t done = 0;
  const auto add = [&](std::size_t begin, std::size_t end) {
    if (end > begin) pieces.push_back(text.substr(begin, end - begin));
  };
  regex.for_each_match(text, [&](std::size_t begin, std::size_t end) {
    add(done, begin);
    add(begin, end);
    done = end;
  });
  add(done, text.size());
  return pieces;
}

TEST(RegexSets, CutTextsAsTheLibraryDoes) {
  const std::string path = test::source_dir() + "/tests/text/regex_goldens.json";
  const auto golden = parse_json<nlohmann::json>(read_file(path), path);
  for (const auto& each : golden["patterns"]) {
    const std::string pattern = each["pattern"];
    const Regex regex(pattern, "pattern");
    for (std::size_t i = 0; i < golden["texts"].size(); ++i)
      EXPECT_EQ(isolate(regex, golden["texts"][i]), each["pieces"][i].get<std::vector<std::string>>())
          << pattern << " of " << golden["texts"][i];
  }
}

TEST(RegexSets, DifferencesAreRefused) {
  for (const char* pattern : {R"([\p{L}--\p{Lu}])", R"([\p{L}--[a-z]])", R"([[a-z]--b])"}) {
    try {
      const Regex regex(pattern, "pre_tokenizer");
      ADD_FAILURE() << pattern;
    } catch (const InvalidConfig& error) {
      EXPECT_NE(std::string(error.what()).find("set difference"), std::string::npos) << error.what();
    }
  }
  EXPECT_THROW(Regex("[a[b]", "pattern"), InvalidConfig);
}

}  // namespace
}  // namespace ingot::text
