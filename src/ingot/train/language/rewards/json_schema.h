#pragma once

#include <memory>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

namespace ingot {

/// Checks JSON against a JSON Schema (draft 2020-12 and 7): type, enum, const, properties, required,
/// additionalProperties, patternProperties, minProperties and maxProperties, items, prefixItems, contains,
/// minItems, maxItems, uniqueItems, minimum and its kin, multipleOf, minLength, maxLength, pattern, allOf,
/// anyOf, oneOf, not, if/then/else, and $ref within the schema. Annotations (title, format, ...) say nothing.
class JsonSchema {
 public:
  /// InvalidConfig naming `where` for a schema that is not JSON, or holds a keyword that is none of these.
  JsonSchema(std::string_view schema, const std::string& where);
  ~JsonSchema();

  /// Empty where `value` is valid; else what is wrong, with its path: "$.items[2].price: is a string".
  std::string problem(const nlohmann::ordered_json& value) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ingot
