#include "ingot/data/tokenizer_encoder.h"

#include <filesystem>

#include "tests/data/support.h"
#include "tests/support/source_dir.h"
#include "tests/support/temporary_directory.h"
#include <gtest/gtest.h>

#include "ingot/base/files.h"

namespace ingot::data {
namespace {

// Bytes of lower-case words, with two merges; `pre` is the pre-tokenizer.
text::Tokenizer tiny(const std::string& pre) {
  std::string vocab;
  int id = 0;
  for (const char* token : {"a", "b", "c", "d", "e", "\\u010a", "\\u0120", "ab", "cd"}) {
    vocab += (id == 0 ? "\"" : ",\"") + std::string(token) + "\":" + std::to_string(id);
    ++id;
  }
  const std::string json =
      R"({"version":"1.0","added_tokens":[{"id":9,"content":"<end>","special":true,"single_word":false,)"
      R"("lstrip":false,"rstrip":false,"normalized":false}],"normalizer":null,"pre_tokenizer":)" +
      pre +
      R"(,"post_processor":null,"decoder":{"type":"ByteLevel","add_prefix_space":false,)"
      R"("trim_offsets":false,"use_regex":true},"model":{"type":"BPE","dropout":null,"unk_token":null,)"
      R"("continuing_subword_prefix":null,"end_of_word_suffix":null,"fuse_unk":false,"byte_fallback":false,)"
      R"("ignore_merges":false,"vocab":{)" +
      vocab + R"(},"merges":[["a","b"],["c","d"]]}})";
  text::TokenizerConfig config;
  config.eos_token = "<end>";
  return text::Tokenizer::from_json(json).with_config(config);
}

const char* const kByteLevel =
    R"({"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":true})";
const char* const kPrefixSpace =
    R"({"type":"ByteLevel","add_prefix_space":true,"trim_offsets":true,"use_regex":true})";

TEST(TokenizerEncoder, EncodesDocumentsAndEndsThem) {
  test::TemporaryDirectory directory;
  write_file_atomically(directory.at("a.txt"), "abcd\ne a");
  const TokenEncoder encoder = encoder_of(tiny(kByteLevel));
  EXPECT_EQ(encoder.vocab_size, 10);
  EXPECT_EQ(encoder.identity.size(), 64U);
  const auto store = load_tokens({.paths = {directory.at("a.txt")}}, encoder);
  EXPECT_EQ(tokens_of(*store), (std::vector<std::int32_t>{7, 8, 5, 4, 6, 0, 9}));
}

TEST(TokenizerEncoder, OtherTokenizersHaveAnotherIdentity) {
  EXPECT_EQ(encoder_of(tiny(kByteLevel)).identity, encoder_of(tiny(kByteLevel)).identity);
  EXPECT_NE(encoder_of(tiny(kByteLevel)).identity, encoder_of(tiny(kPrefixSpace)).identity);
}

TEST(TokenizerEncoder, TextIsCutAtLinesOnlyWhereTheIdsStayTheSame) {
  EXPECT_TRUE(encoder_of(tiny(kByteLevel)).splits_at_lines);
  EXPECT_FALSE(encoder_of(tiny(kPrefixSpace)).splits_at_lines);
}

TEST(TokenizerEncoder, Gpt2TokensOfALongTextAreThoseOfTheWholeText) {
  const char* data_dir = std::getenv("INGOT_DATA_DIR");
  const std::string data = data_dir != nullptr ? data_dir : test::source_dir() + "/../shared/data";
  const std::string text = data + "/text/tinyshakespeare.txt", gpt2 = data + "/tokenizers/gpt2";
  if (!std::filesystem::exists(text) || !std::filesystem::exists(gpt2)) GTEST_SKIP() << "no data in " << data;
  const text::Tokenizer tokenizer = text::Tokenizer::from_directory(gpt2);
  TokenEncoder encoder = encoder_of(tokenizer);
  ASSERT_TRUE(encoder.splits_at_lines);
  encoder.eos_id.reset();
  const auto store = load_tokens({.paths = {text}}, encoder);
  EXPECT_EQ(tokens_of(*store), tokenizer.encode(read_file(text), {.add_special_tokens = false}));
}

}  // namespace
}  // namespace ingot::data
