#include "ingot/base/hash.h"

#include <cstdint>
#include <numeric>
#include <string>
#include <string_view>

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
  std::string rising(32, '\0');
  std::iota(rising.begin(), rising.end(), '\0');
  EXPECT_EQ(crc32c(rising), 0x46DD794EU);
}

}  // namespace
// By its definition, bit for bit: a remainder of polynomials.
std::uint32_t remainder_of(std::string_view bytes) {
  std::uint32_t crc = ~0U;
  for (const char byte : bytes) {
    crc ^= static_cast<unsigned char>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82F63B78U : 0U);
  }
  return ~crc;
}

TEST(Crc32c, IsTheRemainderForEveryLengthAndAlignment) {
  std::string text;
  for (int i = 0; i < 300; ++i) text += static_cast<char>(i * i * 7 + i);
  for (std::size_t begin = 0; begin < 9; ++begin) {
    for (std::size_t size = 0; begin + size <= text.size(); size += size < 40 ? 1 : 51) {
      const std::string_view part = std::string_view(text).substr(begin, size);
      ASSERT_EQ(crc32c(part), remainder_of(part)) << begin << " " << size;
    }
  }
}

}  // namespace ingot
