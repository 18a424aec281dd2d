#pragma once

#include <string>
#include <string_view>

namespace ingot::text {

/// Unicode's White_Space property.
bool is_white_space(char32_t c);
/// \w: letters, marks, decimal digits, connectors (UTS #18, annex C).
bool is_word_character(char32_t c);

}  // namespace ingot::text
