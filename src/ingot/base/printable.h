#pragma once

#include <string>
#include <string_view>

namespace ingot {

/// Text from a file or a server, safe to show on a terminal: control characters, which could move the cursor,
/// change colours or worse, and bytes that are not UTF-8, are written as \x1b and the like, and those that
/// turn the direction of writing as \u202e. Line ends and tabs stay where `lines` is set.
std::string printable(std::string_view text, bool lines = false);

}  // namespace ingot
