#include "ingot/train/language/rewards/json_schema.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/base/error.h"
#include "ingot/base/json.h"
#include "ingot/text/regex.h"

namespace ingot {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kMostDepth = 100;  // of a schema that names itself without reading on

const std::set<std::string> kKeywords{"$schema",
                                      "$id",
                                      "$anchor",
                                      "$comment",
                                      "$defs",
                                      "definitions",
                                      "title",
                                      "description",
                                      "default",
                                      "examples",
                                      "format",
                                      "deprecated",
                                      "readOnly",
                                      "writeOnly",
                                      "$ref",
                                      "type",
                                      "enum",
                                      "const",
                                      "properties",
                                      "required",
                                      "additionalProperties",
                                      "patternProperties",
                                      "minProperties",
                                      "maxProperties",
                                      "items",
                                      "prefixItems",
                                      "contains",
                                      "minItems",
                                      "maxItems",
                                      "uniqueItems",
                                      "minimum",
                                      "maximum",
                                      "exclusiveMinimum",
                                      "exclusiveMaximum",
                                      "multipleOf",
                                      "minLength",
                                      "maxLength",
                                      "pattern",
                                      "allOf",
                                      "anyOf",
                                      "oneOf",
                                      "not",
                                      "if",
                                      "then",
                                      "else"};

bool is_whole(const Json& value) {
  if (value.is_number_integer()) return true;
  return value.is_number_float() && std::floor(value.get<double>()) == value.get<double>();
}

bool has_type(const Json& value, const std::string& type) {
  if (type == "integer") return is_whole(value);
  if (type == "number") return value.is_number();
  if (type == "object") return value.is_object();
  if (type == "array") return value.is_array();
  if (type == "string") return value.is_string();
  if (type == "boolean") return value.is_boolean();
  return type == "null" && value.is_null();
}

// Characters, not bytes.
std::int64_t characters(const std::string& text) {
  return std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80; });
}

// 1 and 1.0 are equal.
bool same(const Json& a, const Json& b) {
  if (a.is_number() && b.is_number()) return a.get<double>() == b.get<double>();
  return nlohmann::json(a) == nlohmann::json(b);  // whatever the order of members
}

}  // namespace

struct JsonSchema::Impl {
  Json root;
  std::string where;
  std::map<std::string, text::Regex> patterns;

  void check(const Json& schema, int depth);
  void add_pattern(const std::string& pattern);
  const Json& referred(const std::string& reference) const;
  bool matches(const std::string& pattern, const std::string& text) const;

  std::string problem(const Json& schema, const Json& value, const std::string& at, int depth) const;
  std::string of_object(const Json& schema, const Json& value, const std::string& at, int depth) const;
  std::string of_array(const Json& schema, const Json& value, const std::string& at, int depth) const;
  std::string of_number(const Json& schema, double value, const std::string& at) const;
  std::string of_string(const Json& schema, const std::string& value, const std::string& at) const;
  std::string of_combination(const Json& schema, const Json& value, const std::string& at, int depth) const;
  bool holds(const Json& schema, const Json& value, int depth) const {
    return problem(schema, value, "$", depth + 1).empty();
  }
};

void JsonSchema::Impl::add_pattern(const std::string& pattern) {
  patterns.try_emplace(pattern, pattern, where);
}

void JsonSchema::Impl::check(const Json& schema, int depth) {
  INGOT_CHECK(depth < kMostDepth, InvalidConfig(where, "the schema is nested too deep"));
  if (schema.is_boolean()) return;
  INGOT_CHECK(schema.is_object(),
              InvalidConfig(where, fmt::format("holds {} where a schema is expected", schema.type_name())));
  for (const auto& [key, value] : schema.items()) {
    INGOT_CHECK(
        kKeywords.contains(key) || key.starts_with("x-"),
        InvalidConfig(where, fmt::format("'{}' is a keyword of JSON Schema that is not checked here", key)));
    const bool named =
        key == "properties" || key == "patternProperties" || key == "$defs" || key == "definitions";
    const bool listed = key == "allOf" || key == "anyOf" || key == "oneOf" || key == "prefixItems";
    const bool one = key == "items" || key == "contains" || key == "not" || key == "if" || key == "then" ||
                     key == "else" || key == "additionalProperties";
    if (named && value.is_object())
      for (const auto& [name, part] : value.items()) {
        if (key == "patternProperties") add_pattern(name);
        check(part, depth + 1);
      }
    else if ((listed || (one && value.is_array())) && value.is_array())
      for (const Json& part : value) check(part, depth + 1);
    else if (one)
      check(value, depth + 1);
    else if (key == "pattern" && value.is_string())
      add_pattern(value.get<std::string>());
    else if (key == "$ref")
      static_cast<void>(referred(value.is_string() ? value.get<std::string>() : ""));
  }
}

const Json& JsonSchema::Impl::referred(const std::string& reference) const {
  try {
    if (reference == "#") return root;
    if (reference.starts_with("#/")) return root.at(Json::json_pointer(reference.substr(1)));
  } catch (const Json::exception&) {  // told below
  }
  throw InvalidConfig(where, fmt::format("$ref '{}' names nothing in this schema", reference));
}

bool JsonSchema::Impl::matches(const std::string& pattern, const std::string& text) const {
  bool found = false;
  patterns.at(pattern).for_each_match(text, [&](std::size_t, std::size_t) { found = true; });
  return found;
}

std::string JsonSchema::Impl::problem(const Json& schema, const Json& value, const std::string& at,
                                      int depth) const {
  if (depth > kMostDepth) return at + ": the schema names itself too often";
  if (schema.is_boolean()) return schema.get<bool>() ? "" : at + ": nothing may stand here";
  if (schema.contains("$ref")) {
    const std::string wrong = problem(referred(schema["$ref"].get<std::string>()), value, at, depth + 1);
    if (!wrong.empty()) return wrong;
  }
  if (schema.contains("type")) {
    const Json& type = schema["type"];
    const bool fits = type.is_array()
                          ? std::ranges::any_of(type, [&](const Json& t) { return has_type(value, t); })
                          : has_type(value, type.get<std::string>());
    if (!fits) return fmt::format("{}: is {}, not {}", at, value.type_name(), dump_json(type));
  }
  if (schema.contains("const") && !same(schema["const"], value))
    return fmt::format("{}: is not {}", at, dump_json(schema["const"]));
  if (schema.contains("enum") &&
      std::ranges::none_of(schema["enum"], [&](const Json& one) { return same(one, value); }))
    return fmt::format("{}: is not one of {}", at, dump_json(schema["enum"]));
  std::string wrong = of_combination(schema, value, at, depth);
  if (!wrong.empty()) return wrong;
  if (value.is_object()) return of_object(schema, value, at, depth);
  if (value.is_array()) return of_array(schema, value, at, depth);
  if (value.is_number()) return of_number(schema, value.get<double>(), at);
  if (value.is_string()) return of_string(schema, value.get<std::string>(), at);
  return {};
}

std::string JsonSchema::Impl::of_combination(const Json& schema, const Json& value, const std::string& at,
                                             int depth) const {
  if (schema.contains("allOf"))
    for (const Json& part : schema["allOf"])
      if (std::string wrong = problem(part, value, at, depth + 1); !wrong.empty()) return wrong;
  const auto count = [&](const char* key) {
    return std::ranges::count_if(schema[key], [&](const Json& part) { return holds(part, value, depth); });
  };
  if (schema.contains("anyOf") && count("anyOf") == 0) return at + ": fits none of anyOf";
  if (schema.contains("oneOf"))
    if (const auto fitting = count("oneOf"); fitting != 1)
      return fmt::format("{}: fits {} of oneOf", at, fitting);
  if (schema.contains("not") && holds(schema["not"], value, depth)) return at + ": fits what it may not";
  if (schema.contains("if")) {
    const char* branch = holds(schema["if"], value, depth) ? "then" : "else";
    if (schema.contains(branch)) return problem(schema[branch], value, at, depth + 1);
  }
  return {};
}

std::string JsonSchema::Impl::of_object(const Json& schema, const Json& value, const std::string& at,
                                        int depth) const {
  if (schema.contains("required"))
    for (const Json& name : schema["required"])
      if (!value.contains(name.get<std::string>()))
        return fmt::format("{}: has no '{}'", at, name.get<std::string>());
  const auto size = static_cast<double>(value.size());
  if (size < schema.value("minProperties", 0.0)) return at + ": has too few members";
  if (size > schema.value("maxProperties", 1e18)) return at + ": has too many members";
  const Json none = Json::object();
  const Json& properties = schema.contains("properties") ? schema["properties"] : none;
  const Json& by_pattern = schema.contains("patternProperties") ? schema["patternProperties"] : none;
  for (const auto& item : value.items()) {
    const std::string& name = item.key();
    const Json& member = item.value();
    const std::string place = fmt::format("{}.{}", at, name);
    bool known = false;
    const auto check_by = [&](const Json& part) {
      known = true;
      return problem(part, member, place, depth + 1);
    };
    std::string wrong;
    if (properties.contains(name)) wrong = check_by(properties[name]);
    for (const auto& [pattern, part] : by_pattern.items())
      if (wrong.empty() && matches(pattern, name)) wrong = check_by(part);
    if (wrong.empty() && !known && schema.contains("additionalProperties"))
      wrong = check_by(schema["additionalProperties"]);
    if (!wrong.empty()) return wrong;
  }
  return {};
}

std::string JsonSchema::Impl::of_array(const Json& schema, const Json& value, const std::string& at,
                                       int depth) const {
  const auto size = static_cast<double>(value.size());
  if (size < schema.value("minItems", 0.0)) return at + ": has too few items";
  if (size > schema.value("maxItems", 1e18)) return at + ": has too many items";
  // Of draft 7, `items` may be the list that prefixItems is now.
  const bool old = schema.contains("items") && schema["items"].is_array();
  const Json first = old ? schema["items"] : schema.value("prefixItems", Json::array());
  for (std::size_t i = 0; i < value.size(); ++i) {
    const std::string place = fmt::format("{}[{}]", at, i);
    const Json* part = i < first.size()                   ? &first[i]
                       : !old && schema.contains("items") ? &schema["items"]
                                                          : nullptr;
    if (part == nullptr) continue;
    if (std::string wrong = problem(*part, value[i], place, depth + 1); !wrong.empty()) return wrong;
  }
  if (schema.contains("contains") &&
      std::ranges::none_of(value, [&](const Json& item) { return holds(schema["contains"], item, depth); }))
    return at + ": holds nothing that fits contains";
  if (schema.value("uniqueItems", false))
    for (std::size_t i = 0; i < value.size(); ++i)
      for (std::size_t j = 0; j < i; ++j)
        if (same(value[i], value[j])) return fmt::format("{}: items {} and {} are equal", at, j, i);
  return {};
}

std::string JsonSchema::Impl::of_number(const Json& schema, double value, const std::string& at) const {
  const auto bound = [&](const char* key, auto holds_for) {
    return !schema.contains(key) || !schema[key].is_number() || holds_for(schema[key].get<double>());
  };
  if (!bound("minimum", [&](double b) { return value >= b; })) return at + ": is below the minimum";
  if (!bound("maximum", [&](double b) { return value <= b; })) return at + ": is above the maximum";
  if (!bound("exclusiveMinimum", [&](double b) { return value > b; })) return at + ": is too small";
  if (!bound("exclusiveMaximum", [&](double b) { return value < b; })) return at + ": is too large";
  const auto divides = [&](double b) { return std::abs(std::remainder(value, b)) <= 1e-9 * std::abs(b); };
  return bound("multipleOf", divides) ? "" : at + ": is not a multiple";
}

std::string JsonSchema::Impl::of_string(const Json& schema, const std::string& value,
                                        const std::string& at) const {
  const auto length = static_cast<double>(characters(value));
  if (length < schema.value("minLength", 0.0)) return at + ": is too short";
  if (length > schema.value("maxLength", 1e18)) return at + ": is too long";
  if (schema.contains("pattern") && !matches(schema["pattern"].get<std::string>(), value))
    return fmt::format("{}: does not match {}", at, dump_json(schema["pattern"]));
  return {};
}

JsonSchema::JsonSchema(std::string_view schema, const std::string& where) : impl_(std::make_unique<Impl>()) {
  impl_->where = where;
  impl_->root = parse_json_or_discard<Json>(std::string(schema));
  INGOT_CHECK(!impl_->root.is_discarded(), InvalidConfig(where, "is not JSON"));
  impl_->check(impl_->root, 0);
}

JsonSchema::~JsonSchema() = default;

std::string JsonSchema::problem(const Json& value) const {
  try {
    return impl_->problem(impl_->root, value, "$", 0);
  } catch (const Json::exception& error) {  // "type": 5
    throw InvalidConfig(impl_->where,
                        fmt::format("a keyword of the schema has a value of a wrong type: {}", error.what()));
  }
}

}  // namespace ingot
