#include "ingot/base/printable.h"

#include <fmt/format.h>

namespace ingot {

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
    } else {
      out += text[i];
    }
  }
  return out;
}

}  // namespace ingot
