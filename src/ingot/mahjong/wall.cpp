#include "ingot/mahjong/wall.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <numeric>
#include <vector>

#define OPENSSL_SUPPRESS_DEPRECATED  // for SHA256_Init: see sha256() below
#include <fmt/core.h>
#include <openssl/evp.h>
#include <openssl/sha.h>

#include "ingot/base/error.h"

namespace ingot::mahjong {
namespace {

std::uint32_t read_u32(const std::uint8_t* bytes) {
  return static_cast<std::uint32_t>(bytes[0]) | static_cast<std::uint32_t>(bytes[1]) << 8 |
         static_cast<std::uint32_t>(bytes[2]) << 16 | static_cast<std::uint32_t>(bytes[3]) << 24;
}
void write_u32(std::uint32_t word, std::uint8_t* bytes) {
  for (unsigned i = 0; i < 4; ++i) bytes[i] = static_cast<std::uint8_t>(word >> (8 * i));
}
void write_u64(std::uint64_t word, std::uint8_t* bytes) {
  for (unsigned i = 0; i < 8; ++i) bytes[i] = static_cast<std::uint8_t>(word >> (8 * i));
}

// OpenSSL 3 deprecates these functions for EVP's, which allocate at every hash; dealing a round must not.
template <std::size_t N>
Seed sha256(const std::array<std::uint8_t, N>& bytes) {
  SHA256_CTX sha;
  Seed digest;
  const bool done = SHA256_Init(&sha) == 1 && SHA256_Update(&sha, bytes.data(), bytes.size()) == 1 &&
                    SHA256_Final(digest.data(), &sha) == 1;
  INGOT_CHECK(done, Error("OpenSSL cannot compute SHA-256"));
  return digest;
}

// Four adjacent words: one row of ChaCha's state.
using Row = std::uint32_t __attribute__((vector_size(16)));

inline Row rotate_words(Row row, int bits) { return (row << bits) | (row >> (32 - bits)); }

inline void quarter_rounds(Row& a, Row& b, Row& c, Row& d) {
  a += b;
  d = rotate_words(d ^ a, 16);
  c += d;
  b = rotate_words(b ^ c, 12);
  a += b;
  d = rotate_words(d ^ a, 8);
  c += d;
  b = rotate_words(b ^ c, 7);
}

}  // namespace

ChaCha8::ChaCha8(const Seed& key) {
  for (std::size_t i = 0; i < 8; ++i) key_[i] = read_u32(key.data() + 4 * i);
}

void ChaCha8::refill() {
  const Row constants = {0x61707865, 0x3320646e, 0x79622d32, 0x6b206574};  // "expand 32-byte k"
  const Row low = {key_[0], key_[1], key_[2], key_[3]}, high = {key_[4], key_[5], key_[6], key_[7]};
  const Row place = {static_cast<std::uint32_t>(counter_), static_cast<std::uint32_t>(counter_ >> 32), 0, 0};
  ++counter_;
  Row a = constants, b = low, c = high, d = place;
  for (int i = 0; i < 4; ++i) {
    quarter_rounds(a, b, c, d);  // columns, then diagonals
    b = __builtin_shufflevector(b, b, 1, 2, 3, 0);
    c = __builtin_shufflevector(c, c, 2, 3, 0, 1);
    d = __builtin_shufflevector(d, d, 3, 0, 1, 2);
    quarter_rounds(a, b, c, d);
    b = __builtin_shufflevector(b, b, 3, 0, 1, 2);
    c = __builtin_shufflevector(c, c, 2, 3, 0, 1);
    d = __builtin_shufflevector(d, d, 1, 2, 3, 0);
  }
  const Row rows[] = {a + constants, b + low, c + high, d + place};
  std::memcpy(words_.data(), rows, sizeof rows);
  used_ = 0;
}

Seed game_seed(const Seed& session, std::uint64_t game) {
  std::array<std::uint8_t, 40> bytes;
  std::copy(session.begin(), session.end(), bytes.begin());
  write_u64(game, bytes.data() + 32);
  return sha256(bytes);
}

Seed round_seed(const Seed& session, std::uint64_t nonce, std::uint8_t kyoku, std::uint8_t honba) {
  std::array<std::uint8_t, 42> bytes;
  std::copy(session.begin(), session.end(), bytes.begin());
  write_u64(nonce, bytes.data() + 32);
  bytes[40] = kyoku;
  bytes[41] = honba;
  return sha256(bytes);
}

Seed seed_from_number(std::uint64_t number) {
  std::array<std::uint8_t, 8> bytes;
  write_u64(number, bytes.data());
  return sha256(bytes);
}

Wall shuffle_wall(const Seed& round) {
  ChaCha8 random(round);
  Wall wall;
  std::iota(wall.begin(), wall.end(), TileId{0});
  for (std::uint32_t i = kTileIds - 1; i > 0; --i) std::swap(wall[i], wall[random.below(i + 1)]);
  return wall;
}

namespace {

[[noreturn]] void fail_seed(const std::string& problem) {
  throw FormatError("", -1, "SHUFFLE seed", problem);
}

std::vector<std::uint32_t> base64_words(std::string_view text) {
  if (text.size() != 3328)
    fail_seed(fmt::format("has {} base64 characters, expected 3328 for 624 words", text.size()));
  std::vector<std::uint8_t> bytes(text.size() / 4 * 3);
  const int size = EVP_DecodeBlock(bytes.data(), reinterpret_cast<const unsigned char*>(text.data()),
                                   static_cast<int>(text.size()));
  if (size != 2496) fail_seed("is not base64");
  std::vector<std::uint32_t> words(624);
  for (std::size_t i = 0; i < words.size(); ++i) words[i] = read_u32(&bytes[4 * i]);
  return words;
}

std::vector<std::uint32_t> hexadecimal_words(std::string_view text) {
  std::vector<std::uint32_t> words;
  for (bool more = true; more;) {
    const std::size_t end = text.find(',');
    const std::string_view digits = text.substr(0, end);
    more = end != std::string_view::npos;
    text.remove_prefix(more ? end + 1 : text.size());
    const auto [stop, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), words.emplace_back(), 16);
    if (error != std::errc() || stop != digits.data() + digits.size() || words.size() > 624)
      fail_seed(fmt::format("word {}, \"{}\", is not a hexadecimal word of 32 bits", words.size(),
                            digits.substr(0, 20)));
  }
  return words;
}

}  // namespace

TenhouWalls::TenhouWalls(std::string_view seed) {
  const std::size_t comma = std::min(seed.find(','), seed.size());
  const std::string_view kind = seed.substr(0, comma), words = seed.substr(std::min(comma + 1, seed.size()));
  old_layout_ = kind != "mt19937ar-sha512-n288-base64";
  hashed_ = kind != "mt19937ar";
  if (old_layout_ && hashed_ && kind != "mt19937ar-sha512-n288")
    fail_seed(
        fmt::format("is of the generator \"{}\"; known are mt19937ar-sha512-n288-base64, "
                    "mt19937ar-sha512-n288 and mt19937ar",
                    kind.substr(0, 40)));
  start(old_layout_ ? hexadecimal_words(words) : base64_words(words));
}

// MT19937 init_by_array (Matsumoto and Nishimura 2002); a key has at most 624 words.
void TenhouWalls::start(std::span<const std::uint32_t> key) {
  state_[0] = 19650218;
  for (std::uint32_t i = 1; i < 624; ++i)
    state_[i] = 1812433253U * (state_[i - 1] ^ (state_[i - 1] >> 30)) + i;
  std::uint32_t i = 1;
  const auto wrap = [&] {
    if (++i == 624) {
      state_[0] = state_[623];
      i = 1;
    }
  };
  for (std::size_t k = 0; k < 624; ++k) {
    const std::size_t at = k % key.size();
    state_[i] = (state_[i] ^ ((state_[i - 1] ^ (state_[i - 1] >> 30)) * 1664525U)) + key[at] +
                static_cast<std::uint32_t>(at);
    wrap();
  }
  for (std::uint32_t k = 0; k < 623; ++k) {
    state_[i] = (state_[i] ^ ((state_[i - 1] ^ (state_[i - 1] >> 30)) * 1566083941U)) - i;
    wrap();
  }
  state_[0] = 0x80000000U;
}

std::uint32_t TenhouWalls::next_u32() {
  if (index_ == 624) {
    for (std::size_t k = 0; k < 624; ++k) {
      const std::uint32_t y = (state_[k] & 0x80000000U) | (state_[(k + 1) % 624] & 0x7fffffffU);
      state_[k] = state_[(k + 397) % 624] ^ (y >> 1) ^ ((y & 1) != 0 ? 0x9908b0dfU : 0U);
    }
    index_ = 0;
  }
  std::uint32_t y = state_[index_++];
  y ^= y >> 11;
  y ^= (y << 7) & 0x9d2c5680U;
  y ^= (y << 15) & 0xefc60000U;
  return y ^ (y >> 18);
}

TenhouWalls::Deal TenhouWalls::next() {
  std::array<std::uint32_t, 144> random;
  for (std::size_t i = 0; i < random.size() && !hashed_; ++i) random[i] = next_u32();
  for (std::size_t block = 0; hashed_ && block < 9; ++block) {
    std::array<std::uint8_t, 128> source;
    for (std::size_t i = 0; i < 32; ++i) write_u32(next_u32(), &source[4 * i]);
    std::array<std::uint8_t, SHA512_DIGEST_LENGTH> digest;
    SHA512(source.data(), source.size(), digest.data());
    for (std::size_t i = 0; i < 16; ++i) random[16 * block + i] = read_u32(&digest[4 * i]);
  }
  Deal deal;
  std::iota(deal.wall.begin(), deal.wall.end(), TileId{0});
  for (std::uint32_t i = 0; i < 135; ++i) std::swap(deal.wall[i], deal.wall[i + random[i] % (136 - i)]);
  // The upper tile of a stack of the dead wall came second then: indicators at 4, 6, ..., kan draws 0 to 3.
  for (std::size_t i = 0; i < 14 && old_layout_; i += 2) std::swap(deal.wall[i], deal.wall[i + 1]);
  deal.dice = {static_cast<std::uint8_t>(random[135] % 6 + 1),
               static_cast<std::uint8_t>(random[136] % 6 + 1)};
  return deal;
}

}  // namespace ingot::mahjong
