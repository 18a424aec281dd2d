#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ingot/text/jinja_value.h"

namespace ingot::text::jinja {

struct Node;
/// The text of a list node that is a tuple, of a loop that may call itself.
inline constexpr std::string_view kTuple = "tuple", kRecursive = "recursive";
using NodePtr = std::unique_ptr<Node>;

/// Which of the variables that a macro has only where it reads them, it reads.
struct MacroNames {
  bool varargs = false, kwargs = false, caller = false;
  void note(std::string_view name);
};

/// A node of a template. What `text`, `children` and `body` hold depends on the kind.
struct Node {
  enum class Kind {
    // statements
    text,          ///< text: literal output
    output,        ///< children[0]
    if_,           ///< children[0] condition, body, other
    for_,          ///< children: target, iterable, filter or null; text: kRecursive or nothing, body, other
    set,           ///< children: target (a name, an attribute of one, a tuple of targets), value
    set_block,     ///< children: target, filters (or none), body
    macro,         ///< text: name, names: parameters, children: defaults or null, body, uses
    call_block,    ///< children[0]: the call, body[0]: the macro `caller`
    with,          ///< children: target, value, target, value, ...; body
    block,         ///< text: name, names: "scoped" or nothing, body
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
    call,        ///< children[0], arguments: the rest; names: keywords of the last ones, or "*", "**"
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
  MacroNames uses;
};

struct Template {
  std::vector<NodePtr> body;
  std::vector<const Node*> blocks;  ///< those of {% block %}, wherever they stand
};

/// Parses a template. Throws TemplateError with the line.
Template parse(std::string_view source, int max_depth);

}  // namespace ingot::text::jinja
