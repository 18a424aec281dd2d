#include "ingot/base/utf8.h"

#include <algorithm>
#include <cstring>

namespace ingot {

namespace {

unsigned char byte_at(std::string_view bytes, std::size_t i) { return static_cast<unsigned char>(bytes[i]); }

constexpr std::uint64_t kHighBits = 0x8080808080808080ULL;

std::size_t ascii_prefix(std::string_view bytes, std::size_t from) {
  std::size_t i = from;
  for (; i + 8 <= bytes.size(); i += 8) {
    std::uint64_t word;
    std::memcpy(&word, bytes.data() + i, 8);
    if ((word & kHighBits) != 0) break;
  }
  while (i < bytes.size() && byte_at(bytes, i) < 0x80) ++i;
  return i - from;
}

}  // namespace

Utf8Step next_utf8(std::string_view bytes, std::size_t position) {
  const unsigned char lead = byte_at(bytes, position);
  if (lead < 0x80) return {lead, 1, true, false};
  const Utf8Step bad{kReplacementCharacter, 1, false, false};
  if (lead < 0xC2 || lead > 0xF4) return bad;
  const std::size_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  // The second byte's range also keeps out overlong forms, surrogates and what lies beyond U+10FFFF.
  const unsigned char low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  const unsigned char high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  char32_t code_point = lead & (0x7FU >> length);
  for (std::size_t i = 1; i < length; ++i) {
    const auto step = static_cast<std::uint8_t>(i);
    if (position + i >= bytes.size()) return {kReplacementCharacter, step, false, true};
    const unsigned char b = byte_at(bytes, position + i);
    if (b < (i == 1 ? low : 0x80) || b > (i == 1 ? high : 0xBF))
      return {kReplacementCharacter, step, false, false};
    code_point = (code_point << 6) | (b & 0x3FU);
  }
  return {code_point, static_cast<std::uint8_t>(length), true, false};
}

char32_t decode_utf8(std::string_view text, std::size_t& position) {
  const Utf8Step step = next_utf8(text, position);
  position += step.length;
  return step.code_point;
}

bool is_valid_utf8(std::string_view bytes) {
  for (std::size_t i = 0; i < bytes.size();) {
    i += ascii_prefix(bytes, i);
    while (i < bytes.size() && byte_at(bytes, i) >= 0x80) {
      const Utf8Step step = next_utf8(bytes, i);
      if (!step.valid) return false;
      i += step.length;
    }
  }
  return true;
}

bool is_ascii(std::string_view bytes) { return ascii_prefix(bytes, 0) == bytes.size(); }

void append_utf8(std::string& out, char32_t c) {
  const auto put = [&](char32_t b) { out.push_back(static_cast<char>(static_cast<unsigned char>(b))); };
  if (c < 0x80) {
    put(c);
  } else if (c < 0x800) {
    put(0xC0 | (c >> 6));
    put(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    put(0xE0 | (c >> 12));
    put(0x80 | ((c >> 6) & 0x3F));
    put(0x80 | (c & 0x3F));
  } else {
    put(0xF0 | (c >> 18));
    put(0x80 | ((c >> 12) & 0x3F));
    put(0x80 | ((c >> 6) & 0x3F));
    put(0x80 | (c & 0x3F));
  }
}

std::u32string to_utf32(std::string_view text) {
  std::u32string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size();) out.push_back(decode_utf8(text, i));
  return out;
}

std::string to_utf8(std::u32string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char32_t c : text) append_utf8(out, c);
  return out;
}

void append_lossy(std::string& out, std::string_view bytes) {
  for (std::size_t i = 0; i < bytes.size();) {
    const std::size_t plain = ascii_prefix(bytes, i);
    out.append(bytes.substr(i, plain));
    i += plain;
    if (i == bytes.size()) return;
    const Utf8Step step = next_utf8(bytes, i);
    if (step.valid)
      out.append(bytes.substr(i, step.length));
    else
      append_utf8(out, kReplacementCharacter);
    i += step.length;
  }
}

std::string to_valid_utf8(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size());
  append_lossy(out, bytes);
  return out;
}

std::size_t incomplete_suffix(std::string_view bytes) {
  for (std::size_t n = 1; n <= std::min<std::size_t>(3, bytes.size()); ++n) {
    const unsigned char b = byte_at(bytes, bytes.size() - n);
    if (b < 0x80) return 0;
    if (b < 0xC0) continue;  // a continuation byte: its lead is further left
    return next_utf8(bytes, bytes.size() - n).truncated ? n : 0;
  }
  return 0;
}

}  // namespace ingot
