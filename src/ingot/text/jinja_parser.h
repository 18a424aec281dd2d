#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ingot/text/jinja_value.h"

namespace ingot::text::jinja {

struct Node;
/// The text of a list node that is a tuple.
inline constexpr std::string_view kTuple = "tuple";
using NodePtr = std::unique_ptr<Node>;

/// A node of a template. What `text`, `children` and `body` hold depends on the kind.
struct Node {
  enum class Kind {
    // statements
    text,          ///< text: literal output
    output,        ///< children[0]
    if_,           ///< children[0] condition, body, other
    for_,          ///< names, children[0] iterable, children[1] filter or null, body, other
    set,           ///< names (or children[1] with text: attribute), children[0]
    set_block,     ///< names, children: filters (or none), body
    macro,         ///< text: name, names: parameters, children: defaults or null, body
    with,          ///< names, children: their values, body; a {% block %} has neither
    filter_block,  ///< children[0]: filters around a `body_value`, body
    generation,    ///< body, in the scope around it: what a model is trained to write
    break_,
    continue_,
    // expressions
    constant,    ///< value
    body_value,  ///< the rendered body of a filter block
    name,        ///< text
    list,        ///< children; text: kTuple or nothing
    dict,        ///< children: key, value, key, value, ...
    attribute,   ///< children[0], text
    item,        ///< children[0], children[1]
    slice,       ///< children[0], then start, stop, step or null
    call,        ///< children[0], arguments: the rest; names: keywords of the last ones
    filter,      ///< text; children[0] and arguments as for call
    test,        ///< text; as filter
    not_,
    negate,
    plus,
    and_,
    or_,
    binary,     ///< text: operator
    compare,    ///< names: operators between the children, of which there is one more
    condition,  ///< children: value, condition, other or null
  } kind;
  int line = 0;
  int depth = 1;  ///< with the children below it: expressions are evaluated, and freed, by recursion
  std::string text;
  Value value;
  std::vector<NodePtr> children;
  std::vector<std::string> names;
  std::vector<NodePtr> body, other;
};

/// Parses a template. Throws TemplateError with the line.
std::vector<NodePtr> parse(std::string_view source, int max_depth);

}  // namespace ingot::text::jinja
