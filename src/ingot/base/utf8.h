#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace ingot {

inline constexpr char32_t kReplacementCharacter = 0xFFFD;

/// One step over bytes that may or may not be UTF-8 (Unicode 15, table 3-7). An ill-formed step covers the
/// maximal subpart, so replacing each one by U+FFFD gives what every other decoder gives. `truncated` says
/// that the bytes end inside a character that more bytes could complete.
struct Utf8Step {
  char32_t code_point;
  std::uint8_t length;
  bool valid;
  bool truncated;
};
Utf8Step next_utf8(std::string_view bytes, std::size_t position);

/// Reads the character at `position` of valid UTF-8 and moves past it.
char32_t decode_utf8(std::string_view text, std::size_t& position);

/// Length in bytes of the character that starts with `lead`, in valid UTF-8.
inline std::size_t utf8_length(char lead) {
  const auto b = static_cast<unsigned char>(lead);
  return b < 0x80 ? 1 : b < 0xE0 ? 2 : b < 0xF0 ? 3 : 4;
}

bool is_valid_utf8(std::string_view bytes);
bool is_ascii(std::string_view bytes);
void append_utf8(std::string& out, char32_t code_point);
std::u32string to_utf32(std::string_view text);
std::string to_utf8(std::u32string_view text);

/// Appends `bytes`, every ill-formed part replaced by U+FFFD.
void append_lossy(std::string& out, std::string_view bytes);
std::string to_valid_utf8(std::string_view bytes);

/// How many trailing bytes are the start of a character that is not complete yet (0 to 3).
std::size_t incomplete_suffix(std::string_view bytes);

}  // namespace ingot
