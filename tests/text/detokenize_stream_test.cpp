#include "ingot/text/detokenize_stream.h"

#include <gtest/gtest.h>

#include "ingot/base/utf8.h"
#include "ingot/text/bpe_trainer.h"

namespace ingot::text {
namespace {

Tokenizer bytes_only() {
  BpeTrainerConfig config;
  config.vocab_size = 257;
  return train_bpe(config, "");
}

std::vector<std::string> stream(const Tokenizer& t, const std::vector<std::int32_t>& ids) {
  DetokenizeStream out(t);
  std::vector<std::string> parts;
  for (const std::int32_t id : ids) parts.push_back(out.push(id));
  parts.push_back(out.finish());
  return parts;
}

TEST(DetokenizeStream, ACharacterComesOutWhenItsLastByteHasCome) {
  const Tokenizer t = bytes_only();
  EXPECT_EQ(stream(t, t.encode("a€😀")), (std::vector<std::string>{"a", "", "", "€", "", "", "", "😀", ""}));
}

TEST(DetokenizeStream, HalfACharacterAtTheEndIsReplaced) {
  const Tokenizer t = bytes_only();
  auto ids = t.encode("x€");
  ids.pop_back();
  EXPECT_EQ(stream(t, ids), (std::vector<std::string>{"x", "", "", "\xEF\xBF\xBD"}));
}

TEST(DetokenizeStream, BrokenBytesAreReplacedAtOnce) {
  const Tokenizer t = bytes_only();
  EXPECT_EQ(stream(t, t.encode("\xE2\x82z")), (std::vector<std::string>{"", "", "\xEF\xBF\xBDz", ""}));
}

TEST(DetokenizeStream, JoinedPartsAreTheDecodedText) {
  const Tokenizer t = bytes_only();
  const std::string text = "日本語 \xF0\x9F\x91 mixed \xFF <|endoftext|> end €";
  const auto ids = t.encode(text);
  std::string joined;
  for (const std::string& part : stream(t, ids)) {
    EXPECT_TRUE(is_valid_utf8(part));
    joined += part;
  }
  EXPECT_EQ(joined, t.decode(ids));
}

TEST(DetokenizeStream, SpecialTokensAreLeftOutUnlessAskedFor) {
  const Tokenizer t = bytes_only();
  EXPECT_EQ(DetokenizeStream(t).push(0), "");
  EXPECT_EQ(DetokenizeStream(t, false).push(0), "<|endoftext|>");
}

}  // namespace
}  // namespace ingot::text
