#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ingot/text/jinja_value.h"

namespace ingot::text::jinja {

struct Token {
  enum class Kind {
    text,
    block_begin,
    block_end,
    output_begin,
    output_end,
    name,
    string,
    number,
    op,
    end
  } kind;
  std::string text;
  Value value;  // of strings and numbers
  int line;
};

/// Cuts a template into tokens, white space control (trim_blocks, lstrip_blocks, -, +) done.
std::vector<Token> lex(std::string_view source);

}  // namespace ingot::text::jinja
