#pragma once

#include <string>
#include <string_view>

namespace ingot::text {

/// GPT-2's reversible map of the 256 bytes to printable characters: '!'..'~', U+00A1..U+00AC and
/// U+00AE..U+00FF stand for themselves, the other 68 bytes for U+0100, U+0101, ... in order (openai/gpt-2,
/// encoder.py).
char32_t byte_to_char(unsigned char byte);

/// The byte that `c` stands for, or -1 when it stands for none.
int char_to_byte(char32_t c);

/// Appends the characters that stand for `bytes`, as UTF-8.
void append_byte_level(std::string& out, std::string_view bytes);

/// Appends the bytes that `token` stands for; a token with a character outside the map is appended as it is.
void append_bytes_of(std::string& out, std::string_view token);

}  // namespace ingot::text
