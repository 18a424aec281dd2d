#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace ingot::text::jinja {

class Value;
struct Budget;

using List = std::vector<Value>;

/// Data may nest this deep; more would exhaust the stack where it is written, compared or freed.
inline constexpr int kMaxNesting = 500;
/// Bytes of a variable's, an attribute's or a keyword's name: they are compared at every look-up.
inline constexpr std::size_t kLongestName = 256;

/// Keeps insertion order, as Python does. Small: a look-up goes through all keys.
struct Dict {
  /// A namespace may be assigned to; an object (`loop`, `self`, a cycler) has attributes but no methods, and
  /// can be called where it has an entry kCall.
  enum class Kind { plain, name_space, object } kind = Kind::plain;
  static constexpr std::string_view kCall = " call";  ///< no name of a template can hold a space
  std::vector<std::pair<Value, Value>> entries;
  int nesting = 1;  // what can change counts as 1

  // Long keys that are compared are taken from the budget; how many there are, callers take from it.
  const Value* find(std::string_view key, Budget& budget) const;
  const Value* find_key(const Value& key, Budget& budget) const;
  /// Throws TemplateError unless the key is a string, a number, a boolean or None.
  void set(Value key, Value value, Budget& budget);
};

struct Arguments {
  List positional;
  std::vector<std::pair<std::string, Value>> named;

  /// The argument at `position` or called `name`; null when it was not given.
  const Value* find(std::size_t position, std::string_view name) const;
};

struct Function {
  std::string name;
  std::function<Value(const Arguments&)> call;
};

struct None {};
struct Undefined {
  explicit Undefined(std::string_view name_ = {});
  std::shared_ptr<const std::string> name;  // for messages: cut where it is long
};

/// A value of the template language, with Python's semantics for what templates do with it. Copies share
/// their content, so they are cheap whatever it is.
class Value {
 public:
  Value() : data_(None{}) {}
  // NOLINTBEGIN(google-explicit-constructor): values convert as they do in Python
  Value(bool v) : data_(v) {}
  Value(std::int64_t v) : data_(v) {}
  Value(double v) : data_(v) {}
  Value(std::string v) : data_(std::make_shared<const std::string>(std::move(v))) {}
  Value(const char* v) : Value(std::string(v)) {}
  Value(std::string_view v) : Value(std::string(v)) {}
  Value(Undefined v) : data_(std::move(v)) {}
  Value(List v);
  Value(std::shared_ptr<Dict> v);
  Value(Function v) : data_(std::make_shared<Function>(std::move(v))) {}
  // NOLINTEND(google-explicit-constructor)

  /// A list that str() shows in parentheses.
  static Value tuple(List v);

  bool is_undefined() const { return std::holds_alternative<Undefined>(data_); }
  bool is_none() const { return std::holds_alternative<None>(data_); }
  bool is_bool() const { return std::holds_alternative<bool>(data_); }
  bool is_integer() const { return std::holds_alternative<std::int64_t>(data_); }
  bool is_float() const { return std::holds_alternative<double>(data_); }
  bool is_number() const { return is_integer() || is_float() || is_bool(); }
  bool is_string() const { return std::holds_alternative<String>(data_); }
  bool is_list() const { return std::holds_alternative<std::shared_ptr<ListBox>>(data_); }
  bool is_tuple() const { return is_list() && std::get<std::shared_ptr<ListBox>>(data_)->tuple; }
  bool is_dict() const { return std::holds_alternative<std::shared_ptr<Dict>>(data_); }
  bool is_function() const { return std::holds_alternative<std::shared_ptr<Function>>(data_); }
  /// What can be a key of a mapping.
  bool is_key() const { return is_string() || is_number() || is_none(); }

  const std::string& string() const { return *std::get<String>(data_); }
  const List& list() const { return std::get<std::shared_ptr<ListBox>>(data_)->items; }
  const Dict& dict() const { return *std::get<std::shared_ptr<Dict>>(data_); }
  Dict& mutable_dict() const { return *std::get<std::shared_ptr<Dict>>(data_); }
  const Function& function() const { return *std::get<std::shared_ptr<Function>>(data_); }
  const std::string& undefined_name() const { return *std::get<Undefined>(data_).name; }
  /// Of an integer or a boolean.
  std::int64_t integer() const {
    return is_bool() ? (std::get<bool>(data_) ? 1 : 0) : std::get<std::int64_t>(data_);
  }
  /// Of any number.
  double number() const { return is_float() ? std::get<double>(data_) : static_cast<double>(integer()); }

  bool truthy() const;
  std::string_view type_name() const;
  /// How deep data nests: 0 for what holds nothing.
  int nesting() const;

 private:
  struct ListBox {
    List items;
    int nesting;
    bool tuple = false;
  };
  using String = std::shared_ptr<const std::string>;
  std::variant<None, Undefined, bool, std::int64_t, double, String, std::shared_ptr<ListBox>,
               std::shared_ptr<Dict>, std::shared_ptr<Function>>
      data_;
};

// What follows walks through all of a value. Parts of it can be shared, so that it is larger than the memory
// it takes: every step is taken from the budget, and what is written may not pass its output_bytes.

bool equal(const Value& a, const Value& b, Budget& budget);
/// Python's order of numbers, of strings and of lists; throws TemplateError for others.
bool less(const Value& a, const Value& b, Budget& budget);

/// str(value)
std::string to_text(const Value& value, Budget& budget);
/// repr(value)
std::string python_repr(const Value& value, Budget& budget);
/// Arguments of json.dumps.
struct JsonStyle {
  int indent = -1;  ///< < 0: one line
  bool sort_keys = false, ensure_ascii = false;
  std::string item_separator = {};  ///< empty: ", ", or "," before a new line
  std::string key_separator = ": ";
};
/// json.dumps(value, ...)
std::string to_json(const Value& value, Budget& budget, const JsonStyle& style = {});
/// Parses JSON text; `what` names it in errors.
Value parse_json(std::string_view text, const std::string& what);

}  // namespace ingot::text::jinja
