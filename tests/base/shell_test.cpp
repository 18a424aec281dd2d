#include "ingot/base/shell.h"

#include <gtest/gtest.h>

namespace ingot {
namespace {

TEST(Shell, WordsToPasteAreQuotedWhereAShellWouldReadMore) {
  EXPECT_EQ(shell_word("runs/a-1.yaml"), "runs/a-1.yaml");
  EXPECT_EQ(shell_word("a b's"), "'a b'\\''s'");
  EXPECT_EQ(shell_word(""), "''");
  EXPECT_EQ(shell_word("gr\u00fcn"), "'gr\u00fcn'");
}

TEST(Shell, ControlCharactersOfWordsToPasteAreEscaped) {
  EXPECT_EQ(shell_word("a\nb'\\\x1b"), "$'a\\x0ab\\'\\\\\\x1b'");
  EXPECT_EQ(shell_word("\xc2\x9b"), "$'\\xc2\\x9b'");
}

}  // namespace
}  // namespace ingot
