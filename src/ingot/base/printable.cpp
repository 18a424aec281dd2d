#include "ingot/base/printable.h"

#include <fmt/format.h>

#include "ingot/base/utf8.h"

namespace ingot {
namespace {

// U+061C, U+200E, U+200F, U+202A to U+202E and U+2066 to U+2069 in UTF-8; 0 for other text.
unsigned turns_direction(std::string_view text) {
  if (text.starts_with("\u061c")) return 0x61C;
  if (text.size() < 3 || text[0] != '\xE2') return 0;
  const auto second = static_cast<unsigned char>(text[1]), third = static_cast<unsigned char>(text[2]);
  const unsigned code = 0x2000U | (second & 0x3FU) << 6U | (third & 0x3FU);
  const bool turns = code == 0x200E || code == 0x200F || (code >= 0x202A && code <= 0x202E) ||
                     (code >= 0x2066 && code <= 0x2069);
  return turns ? code : 0;
}

}  // namespace

std::string printable(std::string_view text, bool lines) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    const auto next = static_cast<unsigned char>(i + 1 < text.size() ? text[i + 1] : 0);
    if (c < 0x20 || c == 0x7F) {
      if (lines && (c == '\n' || c == '\t')) {
        out += text[i];
      } else if (c == '\n') {
        out += "\\n";
      } else {
        out += fmt::format("\\x{:02x}", static_cast<unsigned>(c));
      }
    } else if (c == 0xC2 && next >= 0x80 && next < 0xA0) {  // the control characters U+0080 to U+009F
      out += fmt::format("\\x{:02x}", static_cast<unsigned>(next));
      ++i;
    } else if (const Utf8Step step = next_utf8(text, i);
               !step.valid) {  // 0x9b alone begins a control sequence, too
      for (const std::size_t end = i + step.length; i < end; ++i)
        out += fmt::format("\\x{:02x}", static_cast<unsigned>(static_cast<unsigned char>(text[i])));
      --i;
    } else if (const unsigned code = turns_direction(text.substr(i)); code != 0) {
      out += fmt::format("\\u{:04x}", code);
      i += code < 0x800 ? 1 : 2;
    } else {
      out += text.substr(i, step.length);
      i += std::size_t{step.length} - 1;
    }
  }
  return out;
}

}  // namespace ingot
