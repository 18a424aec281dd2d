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
  /// Namespaces, and objects that change, can hold each other in circles; they are emptied when the run ends.
  std::vector<std::shared_ptr<Dict>> namespaces = {};
  std::uint64_t draws = 0;  ///< of the filter `random`

  /// One step, and one more per 32 bytes that were written, copied or compared.
  void spend(std::size_t bytes = 0);
  /// For as many values, keys or variables that were copied or looked at one by one.
  void spend_items(std::size_t count) { spend(count * kItemBytes); }
  /// For as many strings that were made, which take memory of their own even where they are short.
  void spend_strings(std::size_t count) { spend(count * kStringBytes); }
  /// TemplateError for a text that is larger than the output may be.
  void check_size(std::size_t bytes) const;

  static constexpr std::size_t kItemBytes = 32, kStringBytes = 96;
};

/// The filters, tests and methods of the language, by name. `line` is set in errors by the caller.
Value apply_filter(const std::string& name, const Value& value, const Arguments& arguments, Budget& budget);
bool apply_test(const std::string& name, const Value& value, const Arguments& arguments, Budget& budget);
bool is_known_filter(std::string_view name);
bool is_known_test(std::string_view name);
/// pattern % argument, as Python formats.
Value format_text(const std::string& pattern, const Value& argument, Budget& budget);
/// pattern.format(...), as Python formats.
std::string format_fields(const std::string& pattern, const Arguments& arguments, Budget& budget);
/// A method of strings; undefined where there is none of that name.
Value string_method(const Value& value, const std::string& name, Budget& budget);
/// A method bound to `value`; undefined when there is none of that name.
Value bound_method(const Value& value, const std::string& name, Budget& budget);
/// `value.name`, `value[key]`; undefined when there is none.
Value get_attribute(const Value& value, const std::string& name, Budget& budget);
Value get_item(const Value& value, const Value& key, Budget& budget);
Value get_slice(const Value& value, const Value& start, const Value& stop, const Value& step, Budget& budget);
/// What a loop goes through: items, characters, keys.
List to_list(const Value& value, Budget& budget);
Value binary_operation(const std::string& op, const Value& a, const Value& b, Budget& budget);
bool contains(const Value& container, const Value& item, Budget& budget);
/// Variables and functions that every template sees. `input` must live as long as they do.
std::vector<std::pair<std::string, Value>> globals(const ChatInput& input, Budget& budget);

/// Runs a parsed template.
RenderedChat run(const Template& source, std::vector<std::pair<std::string, Value>> variables,
                 Budget& budget);

}  // namespace ingot::text::jinja
