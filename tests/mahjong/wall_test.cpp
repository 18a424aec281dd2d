#include "ingot/mahjong/wall.h"

#include <algorithm>
#include <vector>

#include <fmt/core.h>
#include <gtest/gtest.h>
#include <openssl/sha.h>

#include "ingot/base/error.h"

namespace ingot::mahjong {
namespace {

std::string hex(const std::uint8_t* bytes, std::size_t size) {
  std::string text;
  for (std::size_t i = 0; i < size; ++i) text += fmt::format("{:02x}", bytes[i]);
  return text;
}
std::string hex(const Seed& seed) { return hex(seed.data(), seed.size()); }
std::string sha(const std::vector<std::uint8_t>& bytes) {
  Seed digest;
  SHA256(bytes.data(), bytes.size(), digest.data());
  return hex(digest);
}

Seed session() {
  Seed seed;
  for (std::size_t i = 0; i < 32; ++i) seed[i] = static_cast<std::uint8_t>(i + 1);
  return seed;
}

// Known answers of an independent implementation of the recipe; the keystream is ChaCha8's published one.
TEST(Seeding, TheKeystreamOfTheZeroKeyIsThePublishedOne) {
  ChaCha8 stream(Seed{});
  EXPECT_EQ(stream.next_u32(), 0x2fef003eU);  // 3e00ef2f 895f40d6
  EXPECT_EQ(stream.next_u32(), 0xd6405f89U);
}

TEST(Seeding, GameAndRoundSeedsMatchTheKnownAnswers) {
  EXPECT_EQ(hex(game_seed(session(), 0)), "844da2c262d161f4f1f2c4cec50fa4aaa03f3b77184d1b2e0a23fa7ad9665ae4");
  EXPECT_EQ(hex(game_seed(session(), 1)), "e38e68c57a16a6e6ecb857fdef900099ac2a53b1c1b0f6803fe7c07f1569ea31");
  EXPECT_EQ(hex(round_seed(session(), 0, 0, 0)),
            "048459ff3e8307f0c5ad438161afcae245527f40d5a08653bb9d9e89acc898e2");
}

TEST(Seeding, WallsMatchTheKnownAnswers) {
  const auto wall_sha = [](std::uint64_t nonce, std::uint8_t kyoku, std::uint8_t honba) {
    const Wall wall = shuffle_wall(round_seed(session(), nonce, kyoku, honba));
    return sha({wall.begin(), wall.end()});
  };
  const Wall first = shuffle_wall(round_seed(session(), 0, 0, 0));
  const std::vector<TileId> start(first.begin(), first.begin() + 13);
  EXPECT_EQ(start, (std::vector<TileId>{5, 108, 93, 14, 34, 64, 63, 133, 44, 86, 23, 66, 32}));
  EXPECT_EQ(wall_sha(0, 0, 0), "05918669125bd0058aa18e15fb4b3b397e36b2c6666071c38fa178b6468a80e4");
  EXPECT_EQ(wall_sha(0, 1, 0), "642cd27b07f392cc99f3224155c3abd1ae6bac6dd4fec44ddf14c2ac620d8746");
  EXPECT_EQ(wall_sha(0, 0, 1), "303e426e9cb9482051f0d330c3e05a9b8d1def514569bcde7f361a6b2684469c");
  EXPECT_EQ(wall_sha(42, 0, 0), "0e8c4a59cdc1db7ece8840115883ac293dcb8e11ab15b88f2cb691ee24aedb33");
  EXPECT_EQ(wall_sha(123456789, 7, 3), "8a6789de732ab1bc02c62dc01bed14714f05e5c93f81909b81a562c93f27f52d");
}

TEST(Seeding, ThreeThousandWallsMatchTheKnownDigest) {
  std::vector<std::uint8_t> all;
  for (std::uint64_t nonce = 0; nonce < 100; ++nonce)
    for (std::uint8_t kyoku = 0; kyoku < 8; ++kyoku)
      for (std::uint8_t honba = 0; honba < 4; ++honba) {
        const Wall wall = shuffle_wall(round_seed(session(), nonce, kyoku, honba));
        all.insert(all.end(), wall.begin(), wall.end());
      }
  EXPECT_EQ(sha(all), "ab5b0ddda660f1e7452e9c81f0ecaa9cc9fc6cd7b08133b167443eca4d27c79f");
}

// Known answers of an independent implementation that deals the hands of real games of those years. Shown as
// the indicators and kan draws lie now.
TEST(Seeding, TenhousEarlierGeneratorsMatchTheKnownAnswers) {
  const auto sha_of = [](const TenhouWalls::Deal& deal) { return sha({deal.wall.begin(), deal.wall.end()}); };
  TenhouWalls hashed("mt19937ar-sha512-n288,DEADBEEF,1,7FFFFFFF"), plain("mt19937ar,DEADBEEF,1,7FFFFFFF");
  const TenhouWalls::Deal first = hashed.next();
  EXPECT_EQ(sha_of(first), "bb215999adb2785e3d2dcf0ca5d5cee73c8b371036decd963b9544e97c5cbd7c");
  EXPECT_EQ(first.dice, (std::array<std::uint8_t, 2>{1, 2}));
  EXPECT_EQ(sha_of(hashed.next()), "f67079e8e49ab85c053fb0ae7275453658787147730e01d07b32de8c926905d1");
  const TenhouWalls::Deal simple = plain.next();
  EXPECT_EQ(sha_of(simple), "a8d4f4ea64e8dfbe55822089f68eeccd0eafa6f61c72ea50565a3e5d06b0077d");
  EXPECT_EQ(simple.dice, (std::array<std::uint8_t, 2>{5, 3}));
}

TEST(Seeding, TenhouSeedsOfAnotherKindAreRefused) {
  EXPECT_THROW(TenhouWalls("mt19938,ab"), FormatError);
  EXPECT_THROW(TenhouWalls("mt19937ar,"), FormatError);
  EXPECT_THROW(TenhouWalls("mt19937ar,ab,"), FormatError);
  EXPECT_THROW(TenhouWalls("mt19937ar,xy"), FormatError);
  EXPECT_THROW(TenhouWalls("mt19937ar,123456789"), FormatError);
  EXPECT_THROW(TenhouWalls("mt19937ar-sha512-n288-base64,AAAA"), FormatError);
  EXPECT_THROW(TenhouWalls("mt19937ar-sha512-n288-base64," + std::string(3328, '!')), FormatError);
}

}  // namespace
}  // namespace ingot::mahjong
