#include "ingot/base/printable.h"

#include <gtest/gtest.h>

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
  EXPECT_EQ(printable("a\tb\n", true), "a\tb\n");
}

}  // namespace
}  // namespace ingot
