#pragma once

#include <exception>
#include <string>
#include <string_view>
#include <utility>

namespace ingot {

/// What printable() does with line ends and tabs.
enum class LineEnds {
  escape,    // \n and \x09: a name stays on its line
  indented,  // kept where two spaces follow, as in errors that list things: no name can begin a line of its
             // own
  keep
};

/// Text from a file or a server, safe to show on a terminal: control characters, which could move the cursor,
/// change colours or worse, and bytes that are not UTF-8, are written as \x1b and the like, and those that
/// turn the direction of writing as \u202e.
std::string printable(std::string_view text, LineEnds lines = LineEnds::escape);

/// What in_lines() adds to an error.
struct HasLines {
  virtual ~HasLines() = default;
};
template <class E>
struct InLines : E, HasLines {
  explicit InLines(E error) : E(std::move(error)) {}
};

/// `error`, whose message lists something in indented lines. Names in them were made printable.
template <class E>
InLines<E> in_lines(E error) {
  return InLines<E>(std::move(error));
}

/// An error's message as a terminal may see it: line ends are escaped, too, but for those of in_lines().
std::string printable_message(const std::exception& error);

/// The same for JSON, which stays the same value: \u009b and the like. Control characters below U+0020 are
/// escaped in JSON already.
std::string printable_json(std::string json);

}  // namespace ingot
