#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ingot::text {

/// A chat template by the name of its format: for base models, whose tokenizers have none.
std::optional<std::string> chat_template_by_name(std::string_view name);
std::vector<std::string> chat_template_names();

}  // namespace ingot::text
