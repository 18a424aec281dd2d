#pragma once

#include <initializer_list>
#include <string>

#include <nlohmann/json_fwd.hpp>

namespace ingot {

/// The value of a setting as trackers show it: a number or a boolean where its text is one, else the text.
nlohmann::ordered_json setting_json(const std::string& text);
/// JSON has no NaN and no infinity: trackers take them as these words.
nlohmann::ordered_json number_json(double value);
/// What is set, else the first environment variable that is.
std::string set_or_variable(const std::string& set, std::initializer_list<const char*> variables);

}  // namespace ingot
