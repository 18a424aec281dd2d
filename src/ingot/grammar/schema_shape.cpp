#include "ingot/grammar/schema_shape.h"

#include <algorithm>
#include <array>
#include <map>
#include <string_view>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/base/error.h"
#include "ingot/base/json.h"

namespace ingot::grammar {
namespace {

using Json = nlohmann::ordered_json;

enum class Shape {
  schema,
  schemas,
  named_schemas,
  schema_or_list,
  count,
  number,
  string,
  names,
  list,
  type,
  limit
};

const std::map<std::string_view, Shape>& shapes() {
  static const std::map<std::string_view, Shape> kShapes = {{"properties", Shape::named_schemas},
                                                            {"patternProperties", Shape::named_schemas},
                                                            {"$defs", Shape::named_schemas},
                                                            {"definitions", Shape::named_schemas},
                                                            {"dependentSchemas", Shape::named_schemas},
                                                            {"allOf", Shape::schemas},
                                                            {"anyOf", Shape::schemas},
                                                            {"oneOf", Shape::schemas},
                                                            {"prefixItems", Shape::schemas},
                                                            {"items", Shape::schema_or_list},
                                                            {"additionalItems", Shape::schema},
                                                            {"additionalProperties", Shape::schema},
                                                            {"propertyNames", Shape::schema},
                                                            {"contains", Shape::schema},
                                                            {"not", Shape::schema},
                                                            {"if", Shape::schema},
                                                            {"then", Shape::schema},
                                                            {"else", Shape::schema},
                                                            {"unevaluatedProperties", Shape::schema},
                                                            {"unevaluatedItems", Shape::schema},
                                                            {"minLength", Shape::count},
                                                            {"maxLength", Shape::count},
                                                            {"minItems", Shape::count},
                                                            {"maxItems", Shape::count},
                                                            {"minProperties", Shape::count},
                                                            {"maxProperties", Shape::count},
                                                            {"minimum", Shape::number},
                                                            {"maximum", Shape::number},
                                                            {"exclusiveMinimum", Shape::limit},
                                                            {"exclusiveMaximum", Shape::limit},
                                                            {"multipleOf", Shape::number},
                                                            {"pattern", Shape::string},
                                                            {"format", Shape::string},
                                                            {"$ref", Shape::string},
                                                            {"required", Shape::names},
                                                            {"enum", Shape::list},
                                                            {"type", Shape::type}};
  return kShapes;
}

const char* wanted(Shape shape) {
  switch (shape) {
    case Shape::schema:
      return "a schema: an object or a boolean";
    case Shape::schemas:
      return "a list of at least one schema";
    case Shape::named_schemas:
      return "an object of schemas";
    case Shape::schema_or_list:
      return "a schema or a list of schemas";
    case Shape::count:
      return "a whole number of 0 or more";
    case Shape::number:
      return "a number";
    case Shape::limit:
      return "a number (or, in draft 4, a boolean)";
    case Shape::string:
      return "a string";
    case Shape::names:
      return "a list of strings";
    case Shape::list:
      return "a list of at least one value";
    case Shape::type:
      return "null, boolean, integer, number, string, array or object, or a list of these";
  }
  return "";
}

bool is_type(const Json& value) {
  constexpr std::string_view kTypes[] = {"null", "boolean", "integer", "number", "string", "array", "object"};
  return value.is_string() &&
         std::ranges::find(kTypes, value.get_ref<const std::string&>()) != std::end(kTypes);
}

bool is_schema(const Json& value) { return value.is_object() || value.is_boolean(); }

bool fits(Shape shape, const Json& value) {
  switch (shape) {
    case Shape::schema:
      return is_schema(value);
    case Shape::schemas:
      return value.is_array() && !value.empty();
    case Shape::named_schemas:
      return value.is_object();
    case Shape::schema_or_list:
      return is_schema(value) || value.is_array();
    case Shape::count:
      return value.is_number() && value.get<double>() >= 0 && value.get<double>() < 1e15 &&
             static_cast<double>(value.get<std::int64_t>()) == value.get<double>();
    case Shape::number:
      return value.is_number();
    case Shape::limit:
      return value.is_number() || value.is_boolean();
    case Shape::string:
      return value.is_string();
    case Shape::names:
      return value.is_boolean() || (value.is_array() && std::ranges::all_of(value, &Json::is_string));
    case Shape::list:
      return value.is_array() && !value.empty();
    case Shape::type:
      return is_type(value) || (value.is_array() && !value.empty() && std::ranges::all_of(value, is_type));
  }
  return false;
}

bool find(const Json& in, const Json& part, std::string& path) {
  if (&in == &part) return true;
  if (!in.is_structured()) return false;
  std::size_t index = 0;
  for (const auto& [key, inner] : in.items()) {
    const std::size_t length = path.size();
    path += '/';
    for (const char c : in.is_array() ? std::to_string(index) : key) {
      if (c == '~' || c == '/') {
        path += c == '~' ? "~0" : "~1";
      } else {
        path += c;
      }
    }
    if (find(inner, part, path)) return true;
    path.resize(length);
    ++index;
  }
  return false;
}

}  // namespace

std::string pointer_to(const Json& root, const Json& part) {
  std::string path = "#";
  return find(root, part, path) ? path : "#";
}

void check_shape(const Json& root, const Json& schema, std::unordered_set<const void*>& seen) {
  if (!seen.insert(&schema).second || schema.is_boolean()) return;
  if (!schema.is_object())
    throw InvalidConfig("json_schema", fmt::format("{} must be a schema: an object or a boolean; got {}",
                                                   pointer_to(root, schema), excerpt(schema, 40)));
  for (const auto& [key, value] : schema.items()) {
    const auto known = shapes().find(key);
    if (known == shapes().end()) continue;
    if (!fits(known->second, value))
      throw InvalidConfig("json_schema", fmt::format("{} must be {}, got {}", pointer_to(root, value),
                                                     wanted(known->second), excerpt(value, 40)));
    const bool several = known->second == Shape::schemas || known->second == Shape::named_schemas ||
                         (known->second == Shape::schema_or_list && value.is_array());
    if (several) {
      for (const Json& inner : value) check_shape(root, inner, seen);
    } else if (known->second == Shape::schema || known->second == Shape::schema_or_list) {
      check_shape(root, value, seen);
    }
  }
}

bool is_text_schema(const Json& schema) {
  if (!schema.is_object()) return true;
  if (const auto type = schema.find("type"); type != schema.end())
    return *type == "string" || (type->is_array() && std::ranges::find(*type, Json("string")) != type->end());
  if (const auto words = schema.find("enum"); words != schema.end())
    return words->is_array() &&
           std::ranges::all_of(*words, [](const Json& each) { return each.is_string(); });
  constexpr std::array kOthers{"const", "anyOf", "oneOf", "allOf", "$ref"};
  return std::ranges::none_of(kOthers, [&](const char* key) { return schema.contains(key); });
}

}  // namespace ingot::grammar
