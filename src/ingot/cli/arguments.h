#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ingot/text/tokenizer.h"

namespace ingot::cli {

/// "1,2,3" or "1 2 3" as ids; InvalidConfig naming `option` otherwise.
std::vector<std::int32_t> parse_ids(std::string_view text, const std::string& option);

/// The tokenizer of a model directory, or of a tokenizer.json.
text::Tokenizer open_tokenizer(const std::string& path);

}  // namespace ingot::cli
