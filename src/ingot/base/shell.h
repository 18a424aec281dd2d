#pragma once

#include <string>
#include <string_view>

namespace ingot {

/// `word` as one word of a POSIX shell's command line, in single quotes.
std::string shell_quoted(std::string_view word);
/// The same for people to read and to paste: quoted only where a shell would not take it as it is, and as
/// $'\n' where it holds control characters (bash, zsh).
std::string shell_word(std::string_view word);

}  // namespace ingot
