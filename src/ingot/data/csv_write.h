#pragma once

#include <string>
#include <string_view>

namespace ingot::data {

/// A cell as a line of CSV has it: in quotes where it holds a comma, a quote or a line break.
std::string csv_cell(std::string_view text);

}  // namespace ingot::data
