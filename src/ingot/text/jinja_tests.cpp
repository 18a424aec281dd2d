// Tests of the template language ("x is defined"), with the meaning they have in Jinja2.
#include <algorithm>

#include <fmt/format.h>

#include "ingot/text/jinja_eval.h"
#include "ingot/text/jinja_strings.h"

namespace ingot::text::jinja {

bool is_known_test(std::string_view name) {
  constexpr std::string_view kTests[] = {
      "defined",     "undefined", "none",    "string",      "number",   "integer",  "float",  "boolean",
      "true",        "false",     "mapping", "sequence",    "iterable", "callable", "odd",    "even",
      "divisibleby", "eq",        "equalto", "==",          "ne",       "!=",       "sameas", "lt",
      "lessthan",    "<",         "gt",      "greaterthan", ">",        "le",       "<=",     "ge",
      ">=",          "in",        "lower",   "upper",       "escaped",  "filter",   "test"};
  return std::find(std::begin(kTests), std::end(kTests), name) != std::end(kTests);
}

bool apply_test(const std::string& name, const Value& v, const Arguments& arguments, Budget& budget) {
  const auto argument = [&]() -> const Value& {
    INGOT_CHECK(!arguments.positional.empty(),
                TemplateError(0, fmt::format("the test \"{}\" needs an argument", name)));
    return arguments.positional[0];
  };
  const auto remainder = [&](const Value& by) {
    INGOT_CHECK(v.is_number() && by.is_number(),
                TemplateError(0, fmt::format("the test \"{}\" needs a number", name)));
    return binary_operation("%", v, by, budget).number();
  };
  const auto is_of_case = [&](const char* method) {
    return bound_method(to_text(v, budget), method, budget).function().call({}).truthy();
  };
  if (name == "defined") return !v.is_undefined();
  if (name == "undefined") return v.is_undefined();
  if (name == "none") return v.is_none();
  if (name == "string") return v.is_string();
  if (name == "number") return v.is_number();
  if (name == "integer") return v.is_integer();
  if (name == "float") return v.is_float();
  if (name == "boolean") return v.is_bool();
  if (name == "true") return v.is_bool() && v.truthy();
  if (name == "false") return v.is_bool() && !v.truthy();
  if (name == "mapping") return v.is_dict() && v.dict().kind == Dict::Kind::plain;
  if (name == "sequence")
    return v.is_list() || v.is_string() || (v.is_dict() && v.dict().kind == Dict::Kind::plain) ||
           v.is_undefined();
  if (name == "iterable")
    return v.is_list() || v.is_string() || (v.is_dict() && v.dict().kind == Dict::Kind::plain) ||
           v.is_undefined();
  if (name == "callable") return v.is_function() || v.is_undefined();  // a call of it is an error
  if (name == "odd") return remainder(std::int64_t{2}) == 1;
  if (name == "even") return remainder(std::int64_t{2}) == 0;
  if (name == "divisibleby") return remainder(argument()) == 0;
  if (name == "eq" || name == "equalto" || name == "==") return equal(v, argument(), budget);
  if (name == "ne" || name == "!=") return !equal(v, argument(), budget);
  if (name == "sameas") return v.type_name() == argument().type_name() && equal(v, argument(), budget);
  if (name == "lt" || name == "lessthan" || name == "<") return less(v, argument(), budget);
  if (name == "gt" || name == "greaterthan" || name == ">") return less(argument(), v, budget);
  if (name == "le" || name == "<=") return !less(argument(), v, budget);
  if (name == "ge" || name == ">=") return !less(v, argument(), budget);
  if (name == "in") return contains(argument(), v, budget);
  if (name == "lower") return is_of_case("islower");
  if (name == "upper") return is_of_case("isupper");
  if (name == "escaped") return false;
  if (name == "filter") return is_known_filter(to_text(v, budget));
  if (name == "test") return is_known_test(to_text(v, budget));
  throw TemplateError(0, fmt::format("the test \"{}\" is not known", name));
}

}  // namespace ingot::text::jinja
