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

TEST(DirectoryLock, TellsThatItsDirectoryWasMovedOrRemoved) {
  test::TemporaryDirectory directory;
  const std::string out = directory.at("out");
  const DirectoryLock lock(out);
  EXPECT_NO_THROW(lock.check());
  std::filesystem::rename(out, directory.at("moved"));
  EXPECT_NE(test::message_of<IoError>([&] { lock.check(); }).find(out), std::string::npos);
  make_directories(out);  // another one of that name
  EXPECT_THROW(lock.check(), IoError);
}

TEST(DirectoryLock, LeavesNoDirectoryThatNothingWasWrittenTo) {
  test::TemporaryDirectory directory;
  { const DirectoryLock lock(directory.at("out")); }
  EXPECT_FALSE(std::filesystem::exists(directory.at("out")));
}

}  // namespace
}  // namespace ingot
