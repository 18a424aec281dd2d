#include "ingot/text/sentencepiece.h"

#include "tests/support/source_dir.h"
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/base/json.h"
#include "ingot/text/charsmap.h"

namespace ingot::text {
namespace {

using nlohmann::ordered_json;

ordered_json goldens() {
  const std::string path = test::source_dir() + "/tests/text/sentencepiece_goldens.json";
  return parse_json<ordered_json>(read_file(path), path);
}

std::string model_bytes(const ordered_json& model) {
  std::string bytes;
  EXPECT_TRUE(decode_base64(model["model"].get<std::string>(), bytes));
  return bytes;
}

TEST(SentencePiece, EqualsTheLibrary) {
  const ordered_json g = goldens();
  for (const auto& model : g["models"]) {
    const Tokenizer tokenizer(parse_sentencepiece(model_bytes(model), model["name"]));
    const Tokenizer saved = Tokenizer::from_json(tokenizer.to_json());
    for (std::size_t i = 0; i < g["texts"].size(); ++i) {
      SCOPED_TRACE(model["name"].get<std::string>() + " " + dump_json(g["texts"][i]));
      const std::string text = g["texts"][i];
      // The library knows no special tokens in texts, only in models.
      const auto ids = tokenizer.encode(text, {.split_special_tokens = true});
      EXPECT_EQ(ids, model["ids"][i].get<std::vector<std::int32_t>>());
      EXPECT_EQ(saved.encode(text, {.split_special_tokens = true}), ids);
    }
  }
}

TEST(SentencePiece, TextWithBytesToFallBackOnComesBack) {
  const ordered_json g = goldens();
  const Tokenizer tokenizer(parse_sentencepiece(model_bytes(g["models"][0]), "llama_like"));
  for (const std::string text : {"Hello, world!", " two  spaces", "𠀀 unseen 👋", "tab\tnew\nline"})
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
}

TEST(SentencePiece, EveryTruncationIsRefusedOrSmaller) {
  const std::string bytes = model_bytes(goldens()["models"][1]);
  for (std::size_t n = 0; n < bytes.size(); n += 1 + n / 40) {
    try {
      const Tokenizer t(parse_sentencepiece(bytes.substr(0, n), "cut.model"));
      EXPECT_GT(t.vocab_size(), 0);
    } catch (const FormatError& e) {
      EXPECT_EQ(e.path, "cut.model");
    }
  }
  EXPECT_THROW(parse_sentencepiece("", "empty.model"), FormatError);
  EXPECT_THROW(parse_sentencepiece("not a model at all", "text.model"), FormatError);
}

// Every way to cut a piece in two is looked up: for a piece of megabytes that would take hours.
TEST(SentencePiece, PiecesAreNoLongerThanMergesCanMake) {
  const auto varint = [](std::size_t n) {
    std::string out;
    for (; n > 127; n >>= 7) out += static_cast<char>(n | 128);
    return out + static_cast<char>(n);
  };
  const auto bytes = [&](char field, const std::string& value) {
    return static_cast<char>(field << 3 | 2) + varint(value.size()) + value;
  };
  const std::string bpe = bytes(2, "\x18\x02");
  const auto model = [&](std::size_t length) {
    return bytes(1, bytes(1, "a")) + bytes(1, bytes(1, std::string(length, 'a'))) + bpe;
  };
  EXPECT_NO_THROW(parse_sentencepiece(model(1000), "x.model"));
  EXPECT_THROW(parse_sentencepiece(model(1'000'000), "x.model"), FormatError);
}

TEST(Base64, IsItsOwnInverse) {
  for (const std::string text : {"", "a", "ab", "abc", "\xFF\x00\x80"}) {
    std::string back;
    EXPECT_TRUE(decode_base64(encode_base64(text), back));
    EXPECT_EQ(back, text);
  }
  std::string out;
  EXPECT_FALSE(decode_base64("a b", out));
}

}  // namespace
}  // namespace ingot::text
