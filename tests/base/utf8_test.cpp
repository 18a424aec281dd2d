#include "ingot/base/utf8.h"

#include <gtest/gtest.h>

namespace ingot {
namespace {

constexpr std::string_view kFffd = "\xEF\xBF\xBD";

std::string fffd(int n) {
  std::string out;
  while (n-- > 0) out += kFffd;
  return out;
}

TEST(Utf8, EveryScalarValueSurvivesARoundTrip) {
  for (char32_t c = 0; c <= 0x10FFFF; ++c) {
    if (c >= 0xD800 && c < 0xE000) continue;
    std::string text;
    append_utf8(text, c);
    ASSERT_TRUE(is_valid_utf8(text)) << static_cast<std::uint32_t>(c);
    ASSERT_EQ(utf8_length(text[0]), text.size());
    std::size_t i = 0;
    ASSERT_EQ(decode_utf8(text, i), c);
    ASSERT_EQ(i, text.size());
    for (std::size_t n = 1; n < text.size(); ++n)
      ASSERT_EQ(incomplete_suffix("x" + text.substr(0, n)), n) << static_cast<std::uint32_t>(c);
  }
}

TEST(Utf8, IllFormedPartsBecomeOneReplacementPerMaximalSubpart) {
  // The example of the Unicode standard, section 3.9, and its relatives.
  EXPECT_EQ(to_valid_utf8("\x61\xF1\x80\x80\xE1\x80\xC2\x62\x80\x63\x80\xBF\x64"),
            "a" + fffd(3) + "b" + fffd(1) + "c" + fffd(2) + "d");
  EXPECT_EQ(to_valid_utf8("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41"), fffd(8) + "A");
  EXPECT_EQ(to_valid_utf8("\xED\xA0\x80\xED\xBF\xBF"), fffd(6));
  EXPECT_EQ(to_valid_utf8("\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42"), fffd(5) + "A" + fffd(2) + "B");
  EXPECT_EQ(to_valid_utf8("\xE2\x82"), fffd(1));
}

TEST(Utf8, NothingIsHeldBackThatCannotBecomeACharacter) {
  EXPECT_EQ(incomplete_suffix(""), 0U);
  EXPECT_EQ(incomplete_suffix("abc"), 0U);
  EXPECT_EQ(incomplete_suffix("\xE2\x82\xAC"), 0U);
  EXPECT_EQ(incomplete_suffix("\x80\x80"), 0U);
  EXPECT_EQ(incomplete_suffix("\xE0\x80"), 0U);
  EXPECT_EQ(incomplete_suffix("\xC0"), 0U);
}

}  // namespace
}  // namespace ingot
