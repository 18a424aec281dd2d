#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "ingot/tune/space.h"

namespace ingot::tune {

/// A parameter as a program asks for it: {"type": "int", "low": 1, "high": 8, "step": 1, "log": false}, where
/// type is float or int, or {"choices": ["a", 16, null]}. Throws InvalidConfig naming "space.<name>".
Parameter parameter_from_json(const std::string& name, const std::string& json);

/// Whether a study's text of its space is that of an open one.
bool is_open_space(std::string_view text);
/// What SearchSpace::description() wrote of an open space. Throws FormatError naming `source` where it is not
/// that.
SearchSpace read_open_space(const std::string& text, const std::string& source);

/// The index of a parameter in an open space, which it is added to. Of numbers the range becomes the widest
/// that was asked for. InvalidConfig where the name stands for another kind, scale or list of choices.
std::size_t add_parameter(SearchSpace& space, const Parameter& parameter);

}  // namespace ingot::tune
