#pragma once

#include <string>
#include <string_view>

#include "ingot/grammar/expressions.h"

namespace ingot::grammar {

struct PatternOptions {
  bool json_string = false;  ///< characters as they stand in a string of JSON (json_char)
  bool search = false;       ///< found anywhere, unless ^ and $ say more; false: the whole text
};

/// A regular expression as ECMAScript and Python have it: classes, groups, quantifiers, \d \s \w \p{..},
/// anchors at the ends, look-ahead outside of groups, (?i). Throws InvalidConfig naming `where`, the offset,
/// and what is not supported: back-references, look-behind, word boundaries.
ExprId compile_pattern(Expressions& to, std::string_view pattern, const PatternOptions& options,
                       const std::string& where);

}  // namespace ingot::grammar
