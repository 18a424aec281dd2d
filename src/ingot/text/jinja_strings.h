#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "ingot/text/jinja_value.h"

namespace ingot::text::jinja {

// Python's methods of str, on UTF-8.

std::size_t count_characters(std::string_view text);
/// Where character `count` begins; the end where there are not so many.
std::size_t character_offset(std::string_view text, std::size_t count);
/// Where `part` begins, at or after `from`; npos: nowhere. In time that grows with their sizes alone, which
/// std::string's own search does not.
std::size_t find_text(std::string_view text, std::string_view part, std::size_t from = 0);
/// The last position.
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
/// `&`, `<`, `>` and quotes as HTML's entities.
std::string escape_html(std::string_view text, Budget& budget);
/// The filter `title`: a capital after white space, a hyphen or an opening bracket.
std::string title_words(const std::string& text);

struct WrapStyle {
  std::size_t width = 79;  ///< in characters, more than 0
  bool break_long_words = true, break_on_hyphens = true;
};
/// textwrap.wrap() of one line, the lines it makes concatenated.
std::string wrap_line(const std::string& line, const WrapStyle& style, const std::string& separator,
                      Budget& budget);

}  // namespace ingot::text::jinja
