#include "ingot/infer/text_stream.h"

#include <gtest/gtest.h>

#include "ingot/base/error.h"

namespace ingot::infer {
namespace {

// The text that comes through, fed in pieces of `step` bytes.
std::string through(const std::vector<std::string>& stop, const std::string& text, std::size_t step) {
  StopStrings strings(stop);
  std::string out;
  for (std::size_t i = 0; i < text.size() && !strings.stopped(); i += step)
    out += strings.push(text.substr(i, step));
  return out + strings.finish();
}

TEST(StopStrings, EndTheTextWhereverItsPiecesBegin) {
  struct Case {
    std::vector<std::string> stop;
    std::string text, expected;
  };
  for (const auto& [stop, text, expected] : std::vector<Case>{
           {{"###"}, "one ## two ### three", "one ## two "},
           {{"abcd", "bc"}, "xabcd", "xa"},  // complete first
           {{"cd", "abcd"}, "xabcd", "x"},   // two end together: the longer one
           {{"aab"}, "aaab", "a"},           // begins inside what was held back
           {{"\nUser:"}, "hi\nUse it", "hi\nUse it"},
           {{"ü"}, "grün", "gr"},
           {{"end"}, "en", "en"},
           {{}, "all of it", "all of it"},
       }) {
    for (std::size_t step = 1; step <= text.size(); ++step)
      EXPECT_EQ(through(stop, text, step), expected) << text << " in pieces of " << step;
  }
}

TEST(StopStrings, StayInATextThatIncludesThem) {
  for (std::size_t step = 1; step <= 20; ++step) {
    StopStrings strings({"###", "two"}, /*include=*/true);
    const std::string text = "one ## two ### three";
    std::string out;
    for (std::size_t i = 0; i < text.size() && !strings.stopped(); i += step)
      out += strings.push(text.substr(i, step));
    EXPECT_EQ(out + strings.finish(), "one ## two") << step;
  }
}

TEST(StopStrings, HoldBackOnlyWhatMayBeginOne) {
  StopStrings strings({"###", "\n\n"});
  EXPECT_EQ(strings.push("a#"), "a");
  EXPECT_EQ(strings.push("#b\n"), "##b");
  EXPECT_EQ(strings.push("c"), "\nc");
  EXPECT_EQ(strings.push("##"), "");
  EXPECT_FALSE(strings.stopped());
  EXPECT_EQ(strings.push("#d"), "");
  EXPECT_TRUE(strings.stopped());
  EXPECT_EQ(strings.push("more"), "");
  EXPECT_EQ(strings.finish(), "");
  EXPECT_THROW(StopStrings({""}), InvalidConfig);
}

}  // namespace
}  // namespace ingot::infer
