#include "ingot/base/error.h"

#include <gtest/gtest.h>

namespace ingot {
namespace {

TEST(Error, ShapeMismatchCarriesBothShapesAsFieldsAndText) {
  const ShapeMismatch error("matmul", {2, 3}, {4, 3}, "transpose the right operand");
  EXPECT_EQ(error.expected, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(error.actual, (std::vector<std::int64_t>{4, 3}));
  EXPECT_STREQ(error.what(),
               "matmul: shape mismatch: expected [2, 3], got [4, 3]; transpose the right operand");
  EXPECT_EQ(error.kind(), "shape_mismatch");
}

TEST(Error, FormatErrorNamesFileOffsetAndField) {
  const FormatError error("a.safetensors", 8, "header", "is 12 bytes long, but the file ends at byte 10");
  EXPECT_STREQ(error.what(),
               "a.safetensors: at byte 8: header: is 12 bytes long, but the file ends at byte 10");
}

TEST(Error, NamesOfFilesCannotWriteLinesOrSequencesIntoMessages) {
  const std::string name = "a\nerror: \x1b[31mb";
  EXPECT_STREQ(IoError(name, "cannot be read").what(), "a\\nerror: \\x1b[31mb: cannot be read");
  EXPECT_STREQ(FormatError("f", -1, name, "is short").what(), "f: a\\nerror: \\x1b[31mb: is short");
  EXPECT_EQ(IoError(name, "cannot be read").path, name) << "programs get it as it is";
}

TEST(Error, OutOfMemoryMentionsTheLimitOnlyWhenThereIsOne) {
  EXPECT_EQ(std::string(OutOfMemory("cpu", 10, 5, 0).what()).find("limit"), std::string::npos);
  EXPECT_NE(std::string(OutOfMemory("cpu", 10, 5, 12).what()).find("limit of 12 bytes"), std::string::npos);
}

TEST(Error, CheckBuildsTheExceptionOnlyOnFailure) {
  int built = 0;
  const auto make = [&] {
    ++built;
    return Error("no");
  };
  INGOT_CHECK(true, make());
  EXPECT_EQ(built, 0);
  EXPECT_THROW(INGOT_CHECK(false, make()), Error);
}

}  // namespace
}  // namespace ingot
