#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "ingot/text/vocabulary.h"

namespace ingot::text {

/// `text` (valid UTF-8) as a JSON string, quotes included. Only what JSON demands is escaped.
std::string json_string(std::string_view text);

/// `json` with two-space indentation, its lines after the first moved `indent` spaces to the right.
std::string indent_json(const std::string& json, int indent);

/// Writes `    "vocab": { token: id, ... }` in order of id, without a final comma.
void write_json_vocabulary(const Vocabulary& vocabulary, const std::function<void(std::string_view)>& write);

}  // namespace ingot::text
