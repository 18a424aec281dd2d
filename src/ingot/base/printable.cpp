#include "ingot/base/printable.h"

#include <algorithm>

#include <fmt/format.h>

#include "ingot/base/utf8.h"

namespace ingot {
namespace {

// A character that a terminal does not show but obeys.
struct Obeyed {
  unsigned code = 0;  // 0: it is shown
  std::size_t bytes = 0;
};

// U+007F to U+009F, U+061C, U+200E, U+200F, U+202A to U+202E and U+2066 to U+2069 in UTF-8.
Obeyed obeyed(std::string_view text) {
  const auto byte = [&](std::size_t i) {
    return i < text.size() ? static_cast<unsigned>(static_cast<unsigned char>(text[i])) : 0;
  };
  if (byte(0) == 0x7F) return {0x7F, 1};
  if (byte(0) == 0xC2 && byte(1) >= 0x80 && byte(1) < 0xA0) return {byte(1), 2};
  if (text.starts_with("\u061c")) return {0x61C, 2};
  if (byte(0) != 0xE2 || text.size() < 3) return {};
  const unsigned code = 0x2000U | (byte(1) & 0x3FU) << 6U | (byte(2) & 0x3FU);
  const bool turns = code == 0x200E || code == 0x200F || (code >= 0x202A && code <= 0x202E) ||
                     (code >= 0x2066 && code <= 0x2069);
  return turns ? Obeyed{code, 3} : Obeyed{};
}

bool stays(LineEnds lines, std::string_view text) {
  if (lines == LineEnds::escape) return false;
  if (lines == LineEnds::keep || text[0] == '\t') return text[0] == '\n' || text[0] == '\t';
  return text.starts_with("\n  ");
}

}  // namespace

std::string printable(std::string_view text, LineEnds lines) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size();) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (c < 0x20) {
      if (stays(lines, text.substr(i)))
        out += text[i];
      else
        out += c == '\n' ? std::string("\\n") : fmt::format("\\x{:02x}", static_cast<unsigned>(c));
      ++i;
    } else if (const Obeyed found = obeyed(text.substr(i)); found.code != 0) {
      out += found.code < 0x100 ? fmt::format("\\x{:02x}", found.code) : fmt::format("\\u{:04x}", found.code);
      i += found.bytes;
    } else if (const Utf8Step step = next_utf8(text, i); step.valid) {
      out += text.substr(i, step.length);
      i += step.length;
    } else {  // 0x9b alone begins a control sequence, too
      for (const std::size_t end = i + step.length; i < end; ++i)
        out += fmt::format("\\x{:02x}", static_cast<unsigned>(static_cast<unsigned char>(text[i])));
    }
  }
  return out;
}

std::string printable_message(const std::exception& error) {
  const bool lines = dynamic_cast<const HasLines*>(&error) != nullptr;
  return printable(error.what(), lines ? LineEnds::indented : LineEnds::escape);
}

std::string printable_json(std::string json) {
  const auto may_be = [](char c) { return c == '\x7F' || c == '\xC2' || c == '\xD8' || c == '\xE2'; };
  if (std::ranges::none_of(json, may_be)) return json;
  std::string out;
  out.reserve(json.size());
  const std::string_view text = json;
  for (std::size_t i = 0; i < text.size();) {
    const Obeyed found = may_be(text[i]) ? obeyed(text.substr(i)) : Obeyed{};
    if (found.code != 0)
      out += fmt::format("\\u{:04x}", found.code);
    else
      out += text[i];
    i += std::max<std::size_t>(1, found.bytes);
  }
  return out;
}

}  // namespace ingot
