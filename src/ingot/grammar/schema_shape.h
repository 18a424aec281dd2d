#pragma once

#include <string>
#include <unordered_set>

#include <nlohmann/json_fwd.hpp>

namespace ingot::grammar {

/// The JSON pointer of a part of `root`, as "#/properties/a"; "#" where it is none.
std::string pointer_to(const nlohmann::ordered_json& root, const nlohmann::ordered_json& part);

/// Throws InvalidConfig naming the keyword and its pointer where a keyword of a schema, or of one within it,
/// has a value of the wrong type. `seen`: schemas that are known to be good.
void check_shape(const nlohmann::ordered_json& root, const nlohmann::ordered_json& schema,
                 std::unordered_set<const void*>& seen);

/// Whether a value that such a schema describes is written as it is where values that are not strings are
/// written as JSON.
bool is_text_schema(const nlohmann::ordered_json& schema);

}  // namespace ingot::grammar
