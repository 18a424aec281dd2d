#include "ingot/serve/fill_in_middle.h"

#include <string>
#include <vector>

#include "tests/infer/scripted_model.h"
#include "tests/support/temporary_directory.h"
#include <gtest/gtest.h>

#include "ingot/serve/api_error.h"

namespace ingot::serve {
namespace {

using ingot::test::scripted_id;

// The scripted model's tokenizer with other names for its special tokens.
text::Tokenizer tokenizer_with(const std::vector<std::pair<std::string, std::string>>& names) {
  const ingot::test::TemporaryDirectory folder;
  ingot::test::write_scripted_model(folder.path(), {});
  std::string json = read_file(folder.path() + "/tokenizer.json");
  for (const auto& [from, to] : names) {
    for (std::size_t at = 0; (at = json.find(from, at)) != std::string::npos; at += to.size())
      json.replace(at, from.size(), to);
  }
  return text::Tokenizer::from_json(json);
}

constexpr std::int32_t kPad = 0, kBos = 2, kTurn = 3, kEnd = 4;

TEST(FillInMiddle, PutsThePrefixThenTheSuffixThenAsksForTheMiddle) {
  for (const auto& [prefix, suffix, middle] :
       {std::tuple("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"),
        std::tuple("<fim_prefix>", "<fim_suffix>", "<fim_middle>"), std::tuple("▁<PRE>", "▁<SUF>", "▁<MID>"),
        std::tuple("<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>")}) {
    const text::Tokenizer tokenizer =
        tokenizer_with({{"<pad>", prefix}, {"<turn>", suffix}, {"<end>", middle}});
    const FillTokens tokens = fill_tokens(tokenizer);
    const std::int32_t a = scripted_id('a'), b = scripted_id('b'), c = scripted_id('c');
    EXPECT_EQ(tokens.around({kBos, a, b}, "c"),
              (std::vector<std::int32_t>{kBos, kPad, a, b, kTurn, c, kEnd}));
    EXPECT_EQ(tokens.around({a}, ""), (std::vector<std::int32_t>{kPad, a, kTurn, kEnd}));
    EXPECT_EQ(tokens.stop, (std::vector<std::int32_t>{kPad, kTurn, kEnd}));
  }
}

TEST(FillInMiddle, CodestralTakesTheSuffixFirst) {
  const text::Tokenizer tokenizer = tokenizer_with({{"<pad>", "[PREFIX]"}, {"<turn>", "[SUFFIX]"}});
  const std::int32_t a = scripted_id('a'), c = scripted_id('c');
  EXPECT_EQ(fill_tokens(tokenizer).around({kBos, a}, "c"),
            (std::vector<std::int32_t>{kBos, kTurn, c, kPad, a}));
}

TEST(FillInMiddle, AModelWithoutSuchTokensIsRefused) {
  const text::Tokenizer tokenizer = tokenizer_with({});
  try {
    fill_tokens(tokenizer);
    FAIL();
  } catch (const ApiError& error) {
    EXPECT_EQ(error.status, 400);
    EXPECT_EQ(error.param, "suffix");
  }
}

}  // namespace
}  // namespace ingot::serve
