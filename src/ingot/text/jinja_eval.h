#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ingot/text/chat_template.h"
#include "ingot/text/jinja_parser.h"
#include "ingot/text/jinja_value.h"

namespace ingot::text::jinja {

/// What a run may still use.
struct Budget {
  std::int64_t steps;
  std::size_t output_bytes;
  int depth;
  /// Namespaces can hold each other in circles; they are emptied when the run ends.
  std::vector<std::shared_ptr<Dict>> namespaces = {};

  /// One step, and one more per 32 bytes of a text that was made.
  void spend(std::size_t bytes = 0);
};

/// The filters, tests and methods of the language, by name. `line` is set in errors by the caller.
Value apply_filter(const std::string& name, const Value& value, const Arguments& arguments, Budget& budget);
bool apply_test(const std::string& name, const Value& value, const Arguments& arguments);
bool is_known_filter(std::string_view name);
/// A method bound to `value`; undefined when there is none of that name.
Value bound_method(const Value& value, const std::string& name, Budget& budget);
/// `value.name`, `value[key]`; undefined when there is none.
Value get_attribute(const Value& value, const std::string& name, Budget& budget);
Value get_item(const Value& value, const Value& key);
Value get_slice(const Value& value, const Value& start, const Value& stop, const Value& step, Budget& budget);
/// What a loop goes through: items, characters, keys.
List to_list(const Value& value, Budget& budget);
Value binary_operation(const std::string& op, const Value& a, const Value& b, Budget& budget);
bool contains(const Value& container, const Value& item);
/// Variables and functions that every template sees. `input` must live as long as they do.
std::vector<std::pair<std::string, Value>> globals(const ChatInput& input, Budget& budget);

/// Runs a parsed template.
std::string run(const std::vector<NodePtr>& body, std::vector<std::pair<std::string, Value>> variables,
                Budget& budget);

}  // namespace ingot::text::jinja
