#include "ingot/text/byte_level.h"

#include <array>
#include <cstdint>

#include "ingot/base/utf8.h"

namespace ingot::text {

namespace {

constexpr bool stands_for_itself(int b) {
  return (b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || (b >= 0xAE && b <= 0xFF);
}

struct Map {
  std::array<char32_t, 256> to_char{};
  std::array<std::int16_t, 256 + 68> to_byte{};

  constexpr Map() {
    for (auto& b : to_byte) b = -1;
    char32_t next = 0x100;
    for (int b = 0; b < 256; ++b) {
      const auto i = static_cast<std::size_t>(b);
      to_char[i] = stands_for_itself(b) ? static_cast<char32_t>(b) : next++;
      to_byte[to_char[i]] = static_cast<std::int16_t>(b);
    }
  }
};

constexpr Map kMap;

}  // namespace

char32_t byte_to_char(unsigned char byte) { return kMap.to_char[byte]; }

int char_to_byte(char32_t c) { return c < kMap.to_byte.size() ? kMap.to_byte[c] : -1; }

void append_byte_level(std::string& out, std::string_view bytes) {
  for (const char b : bytes) append_utf8(out, byte_to_char(static_cast<unsigned char>(b)));
}

void append_bytes_of(std::string& out, std::string_view token) {
  const std::size_t start = out.size();
  for (std::size_t i = 0; i < token.size();) {
    const int byte = char_to_byte(decode_utf8(token, i));
    if (byte < 0) {
      out.resize(start);
      out.append(token);
      return;
    }
    out.push_back(static_cast<char>(static_cast<unsigned char>(byte)));
  }
}

}  // namespace ingot::text
