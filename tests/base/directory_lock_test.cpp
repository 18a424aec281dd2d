#include "ingot/base/directory_lock.h"

#include <filesystem>

#include "tests/support/temporary_directory.h"
#include <gtest/gtest.h>

#include "ingot/base/error.h"
#include "ingot/base/files.h"

namespace ingot {
namespace {

TEST(DirectoryLock, IsHeldByOneAtATime) {
  test::TemporaryDirectory directory;
  const std::string out = directory.at("a/b");
  {
    const DirectoryLock lock(out);
    EXPECT_NE(test::message_of<IoError>([&] { DirectoryLock another(out); }).find(out), std::string::npos);
    write_file_atomically(out + "/result", "x");
  }
  EXPECT_NO_THROW(DirectoryLock again(out));
  EXPECT_TRUE(std::filesystem::exists(out + "/result"));
}

TEST(DirectoryLock, LeavesNoDirectoryThatNothingWasWrittenTo) {
  test::TemporaryDirectory directory;
  { const DirectoryLock lock(directory.at("out")); }
  EXPECT_FALSE(std::filesystem::exists(directory.at("out")));
}

}  // namespace
}  // namespace ingot
