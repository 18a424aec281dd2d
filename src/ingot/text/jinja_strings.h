#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "ingot/text/jinja_value.h"

namespace ingot::text::jinja {

// Python's methods of str, on UTF-8.

std::size_t count_characters(std::string_view text);
/// Where `part` begins, at or after `from`; npos: nowhere. In time that grows with their sizes alone, which
/// std::string's own search does not.
std::size_t find_text(std::string_view text, std::string_view part, std::size_t from = 0);
/// The last place.
std::size_t find_text_from_end(std::string_view text, std::string_view part);
std::string upper(std::string_view text);
std::string lower(std::string_view text);
std::string capitalize(std::string_view text);
std::string title(std::string_view text);
/// `characters` empty: white space.
std::string strip(const std::string& text, std::string_view characters, bool left, bool right);
/// `count` < 0: every occurrence. An empty `from` matches between all characters.
std::string replace(const std::string& text, const std::string& from, const std::string& to,
                    std::int64_t count, Budget& budget);
/// `separator` null: runs of white space. `limit` < 0: none. `from_right`: rsplit().
List split(const std::string& text, const std::string* separator, std::int64_t limit, bool from_right,
           Budget& budget);

}  // namespace ingot::text::jinja
