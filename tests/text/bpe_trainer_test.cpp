#include "ingot/text/bpe_trainer.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "ingot/base/error.h"

namespace ingot::text {
namespace {

BpeTrainerConfig small(std::int32_t vocab_size) {
  BpeTrainerConfig config;
  config.vocab_size = vocab_size;
  config.min_frequency = 0;
  return config;
}

TEST(TrainBpe, MergesTheMostFrequentPairFirst) {
  const Tokenizer t = train_bpe(small(259), "hug hug hug pug");
  EXPECT_EQ(t.vocab_size(), 259);
  EXPECT_EQ(t.id_to_token(257), "ug");  // 4 times, "hu" 3 times
  EXPECT_EQ(t.id_to_token(258), "hug");
}

TEST(TrainBpe, EqualCountsAreMergedInOrderOfIds) {
  const Tokenizer t = train_bpe(small(260), "xy ab");
  EXPECT_EQ(t.id_to_token(257), "ab");
  EXPECT_EQ(t.id_to_token(258), "xy");
}

TEST(TrainBpe, StopsWhereTheTextHasNoMorePairs) {
  EXPECT_EQ(train_bpe(small(5000), "aaaa").vocab_size(), 257 + 2);
  EXPECT_EQ(train_bpe(small(300), "").vocab_size(), 257);
}

TEST(TrainBpe, RarePairsStayApart) {
  BpeTrainerConfig config = small(300);
  config.min_frequency = 3;
  EXPECT_EQ(train_bpe(config, "ab ab cd").vocab_size(), 257);
  EXPECT_EQ(train_bpe(config, "ab,ab,ab,cd").token_to_id("ab"), 257);
}

TEST(TrainBpe, NoTokenIsLongerThanTheLimit) {
  BpeTrainerConfig config = small(400);
  config.max_token_length = 4;
  const Tokenizer t = train_bpe(config, "abcdefgh abcdefgh abcdefgh");
  for (std::int32_t id = 257; id < t.vocab_size(); ++id) EXPECT_LE(t.id_to_token(id).size(), 4U);
}

TEST(TrainBpe, ImpossibleSettingsAreNamed) {
  EXPECT_THROW(train_bpe(small(256), "x"), InvalidConfig);
  BpeTrainerConfig config = small(300);
  config.special_tokens = {""};
  EXPECT_THROW(train_bpe(config, "x"), InvalidConfig);
  config = small(300);
  config.pattern = "(";
  EXPECT_THROW(train_bpe(config, "x"), InvalidConfig);
}

TEST(TrainBpe, AnotherPatternIsSavedWithTheTokenizer) {
  BpeTrainerConfig config = small(300);
  config.pattern = R"(\p{N}{1,3}|\p{L}+|[^\p{L}\p{N}]+)";
  const Tokenizer t = train_bpe(config, "12345678 12345678 word");
  EXPECT_TRUE(t.token_to_id("123"));
  EXPECT_FALSE(t.token_to_id("1234"));
  EXPECT_EQ(Tokenizer::from_json(t.to_json()).encode("1234 5 word"), t.encode("1234 5 word"));
}

RC_GTEST_PROP(TrainBpe, AnyBytesComeBackAsTheyWere, (const std::string& text)) {
  static const Tokenizer t =
      train_bpe(small(400), "the cat and the hat \xE4\xBD\xA0\xE5\xA5\xBD \xFF\xFE the");
  RC_ASSERT(t.decode_bytes(t.encode(text, {.split_special_tokens = true}), false) == text);
}

RC_GTEST_PROP(TrainBpe, TheResultDependsOnTheTextAlone, (const std::vector<std::string>& words)) {
  std::string text;
  for (const std::string& w : words) text += w + " ";
  RC_ASSERT(train_bpe(small(300), text).to_json() == train_bpe(small(300), text).to_json());
}

}  // namespace
}  // namespace ingot::text
