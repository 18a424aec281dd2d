#pragma once

#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "ingot/grammar/automata.h"

namespace ingot::grammar {

/// What the fragment of a "$ref" or a JSON pointer means in `root`: "#", "#/$defs/a", "#anchor"; null:
/// nothing.
const nlohmann::ordered_json* find_reference(const nlohmann::ordered_json& root, std::string_view reference);

/// Whether a schema accepts a value: for the values of enum and const, which have to satisfy what stands
/// beside them, too.
class SchemaCheck {
 public:
  SchemaCheck(Automata& automata, const nlohmann::ordered_json& root) : automata_(automata), root_(root) {}

  /// Throws InvalidConfig where references go around in a circle.
  bool accepts(const nlohmann::ordered_json& schema, const nlohmann::ordered_json& value, int depth = 0);
  /// Whether a pattern, as schemas have it, is found in a text.
  bool found(std::string_view pattern, std::string_view text);

 private:
  bool accepts_value(const nlohmann::ordered_json& schema, const nlohmann::ordered_json& value) const;
  bool accepts_combined(const nlohmann::ordered_json& schema, const nlohmann::ordered_json& value, int depth);
  bool accepts_number(const nlohmann::ordered_json& schema, double value) const;
  bool accepts_string(const nlohmann::ordered_json& schema, const std::string& value);
  bool accepts_array(const nlohmann::ordered_json& schema, const nlohmann::ordered_json& value, int depth);
  bool accepts_object(const nlohmann::ordered_json& schema, const nlohmann::ordered_json& value, int depth);
  bool accepts_property(const nlohmann::ordered_json& schema, const std::string& name,
                        const nlohmann::ordered_json& value, int depth);

  Automata& automata_;
  const nlohmann::ordered_json& root_;
};

/// Whether a value has one of JSON Schema's types; 1.0 is an integer.
bool has_type(const nlohmann::ordered_json& value, std::string_view type);

}  // namespace ingot::grammar
