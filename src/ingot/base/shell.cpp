#include "ingot/base/shell.h"

#include <algorithm>
#include <cctype>

namespace ingot {

std::string shell_quoted(std::string_view word) {
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

std::string shell_word(std::string_view word) {
  const bool plain = !word.empty() && std::ranges::all_of(word, [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
           std::string_view("_-+=.,/:").find(c) != std::string_view::npos;
  });
  return plain ? std::string(word) : shell_quoted(word);
}

}  // namespace ingot
