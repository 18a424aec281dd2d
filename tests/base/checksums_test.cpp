#include "ingot/base/checksums.h"

#include <filesystem>

#include "tests/support/temporary_directory.h"
#include <gtest/gtest.h>

#include "ingot/base/error.h"
#include "ingot/base/files.h"

namespace ingot {
namespace {

class Checksums : public ::testing::Test {
 protected:
  void SetUp() override {
    write_file_atomically(directory_.at("a"), "one");
    write_file_atomically(directory_.at("b"), "two");
    write_checksums(directory_.path());
  }
  std::string complaint() const {
    return test::message_of<FormatError>([&] { verify_checksums(directory_.path()); });
  }
  test::TemporaryDirectory directory_;
};

TEST_F(Checksums, AreThoseOfSha256sum) {
  EXPECT_NO_THROW(verify_checksums(directory_.path()));
  EXPECT_TRUE(read_file(directory_.at("SHA256SUMS"))
                  .starts_with("7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed  a\n"));
}

TEST_F(Checksums, NameTheFileThatWasChanged) {
  write_file_atomically(directory_.at("b"), "twp");
  EXPECT_NE(complaint().find("b: does not have the SHA-256"), std::string::npos) << complaint();
}

TEST_F(Checksums, NameTheFileThatIsMissing) {
  std::filesystem::remove(directory_.at("a"));
  EXPECT_NE(complaint().find("a: is missing"), std::string::npos) << complaint();
}

TEST_F(Checksums, AreMissedThemselves) {
  std::filesystem::remove(directory_.at("SHA256SUMS"));
  EXPECT_NE(complaint().find("SHA256SUMS: is missing"), std::string::npos) << complaint();
  EXPECT_THROW(verify_checksums(directory_.at("nowhere")), IoError);
}

TEST_F(Checksums, ThatWereEmptiedOrCutShortAreDamage) {
  write_file_atomically(directory_.at("model.safetensors"), "three");
  EXPECT_NE(complaint().find("model.safetensors: is not listed"), std::string::npos) << complaint();
  write_file_atomically(directory_.at("SHA256SUMS"), "");
  EXPECT_NE(complaint().find("is empty: it is damaged"), std::string::npos) << complaint();
}

TEST_F(Checksums, ThatListAFileTwiceAreDamage) {
  const std::string sums = read_file(directory_.at("SHA256SUMS"));
  write_file_atomically(directory_.at("SHA256SUMS"), sums + sums);
  EXPECT_NE(complaint().find("a: is listed twice"), std::string::npos) << complaint();
}

TEST_F(Checksums, NameNothingOutsideOfTheirDirectory) {
  const std::string sum(64, '0');
  for (const std::string& line : {sum + "  ../a", sum + "  /dev/zero", sum + "  ..", sum + "  ", sum + " *a",
                                  std::string("a"), sum + "  " + std::string(5000, 'n')}) {
    write_file_atomically(directory_.at("SHA256SUMS"), line + "\n");
    EXPECT_NE(complaint().find("is not '<sha256>  <file>'"), std::string::npos) << complaint();
    EXPECT_LT(complaint().size(), 1000);
  }
  write_file_atomically(directory_.at("SHA256SUMS"), std::string((1 << 20) + 1, 'a'));
  EXPECT_NE(complaint().find("more than 1 MiB"), std::string::npos) << complaint();
}

TEST_F(Checksums, GoWithTheirDirectory) {
  remove_with_checksums(directory_.path());
  EXPECT_FALSE(std::filesystem::exists(directory_.path()));
}

}  // namespace
}  // namespace ingot
