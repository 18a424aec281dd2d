#include "ingot/base/hash.h"

#include <gtest/gtest.h>

#include "ingot/base/error.h"
#include "ingot/base/files.h"

namespace ingot {
namespace {

// Test vectors of FIPS 180-2, appendix B.
TEST(Sha256, MatchesTheVectorsOfTheStandard) {
  EXPECT_EQ(sha256_hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256_hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256_hex(std::string(1'000'000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, PiecesGiveWhatTheWholeGives) {
  Sha256 hash;
  hash.update("a");
  hash.update("");
  hash.update("bc");
  EXPECT_EQ(hash.finish_hex(), sha256_hex("abc"));
}

TEST(Sha256, OfAFileIsThatOfItsBytes) {
  const std::string path = ::testing::TempDir() + "ingot_hash_test";
  write_file_atomically(path, "abc");
  EXPECT_EQ(sha256_file(path), sha256_hex("abc"));
  write_file_atomically(path, "");
  EXPECT_EQ(sha256_file(path), sha256_hex(""));
  const std::string large((std::size_t{20} << 20) + 1, 'x');  // in several pieces
  write_file_atomically(path, large);
  EXPECT_EQ(sha256_file(path), sha256_hex(large));
  EXPECT_THROW(sha256_file(path + ".not"), IoError);
}

// RFC 3720, appendix B.4.
TEST(Crc32c, MatchesTheVectorsOfTheStandard) {
  EXPECT_EQ(crc32c("123456789"), 0xE3069283U);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAU);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62A8AB43U);
  EXPECT_EQ(crc32c(""), 0U);
}

}  // namespace
}  // namespace ingot
