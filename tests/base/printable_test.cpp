#include "ingot/base/printable.h"

#include <stdexcept>

#include <gtest/gtest.h>

#include "ingot/base/error.h"

namespace ingot {
namespace {

TEST(Printable, ControlCharactersAreEscapedAndTheRestStays) {
  EXPECT_EQ(printable("a\x1b[31mb\x07\r\x7f"), "a\\x1b[31mb\\x07\\x0d\\x7f");
  EXPECT_EQ(printable("grün 词 \xc2\xa0"), "grün 词 \xc2\xa0");
  EXPECT_EQ(printable("\xc2\x9b"
                      "31m"),
            "\\x9b31m");  // the control sequence introducer in one character
  EXPECT_EQ(printable("a\u202eb\u2066c\u061c\u00e9\u2014"), "a\\u202eb\\u2066c\\u061c\u00e9\u2014");
  EXPECT_EQ(printable("\x9b"
                      "31m\xff\xe2\x80"),
            "\\x9b31m\\xff\\xe2\\x80");
  EXPECT_EQ(printable("a\tb\n"), "a\\x09b\\n");
  EXPECT_EQ(printable("a\tb\n", LineEnds::keep), "a\tb\n");
}

TEST(Printable, NoTextBeginsALineThatIsNotIndented) {
  EXPECT_EQ(printable("missing:\n  a\n    b\nforged\n c\n", LineEnds::indented),
            "missing:\n  a\n    b\\nforged\\n c\\n");
}

TEST(Printable, OnlyErrorsThatListThingsHaveLinesOnATerminal) {
  EXPECT_EQ(printable_message(Error("it holds:\n  a\n  b")), "it holds:\\n  a\\n  b");
  EXPECT_EQ(printable_message(in_lines(Error("it holds:\n  a\n  b\nforged"))),
            "it holds:\n  a\n  b\\nforged");
  EXPECT_EQ(printable_message(std::runtime_error("\x1b[31m")), "\\x1b[31m");
}

TEST(Printable, JsonStaysTheSameValue) {
  EXPECT_EQ(printable_json("[\"\x7f\xc2\x9b\u202e\u061c\"]"), "[\"\\u007f\\u009b\\u202e\\u061c\"]");
  EXPECT_EQ(printable_json("\"gr\u00fcn \u8a5e \u2014\""), "\"gr\u00fcn \u8a5e \u2014\"");
}

}  // namespace
}  // namespace ingot
