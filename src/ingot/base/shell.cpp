#include "ingot/base/shell.h"

#include <algorithm>
#include <cctype>

#include <fmt/format.h>

#include "ingot/base/printable.h"
#include "ingot/base/utf8.h"

namespace ingot {

std::string shell_quoted(std::string_view word) {
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

namespace {

// $'...': what printable() would not leave as it is, byte by byte.
std::string escaped_word(std::string_view word) {
  std::string quoted = "$'";
  for (std::size_t i = 0; i < word.size();) {
    const std::string_view character = word.substr(i, next_utf8(word, i).length);
    i += character.size();
    if (character == "'" || character == "\\") {
      quoted += "\\" + std::string(character);
    } else if (printable(character) == character) {
      quoted += character;
    } else {
      for (const char c : character) quoted += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    }
  }
  return quoted + "'";
}

}  // namespace

std::string shell_word(std::string_view word) {
  if (printable(word) != word) return escaped_word(word);
  const bool plain = !word.empty() && std::ranges::all_of(word, [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
           std::string_view("_-+=.,/:").find(c) != std::string_view::npos;
  });
  return plain ? std::string(word) : shell_quoted(word);
}

}  // namespace ingot
