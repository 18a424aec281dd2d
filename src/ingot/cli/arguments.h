#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ingot/cli/command.h"
#include "ingot/models/open_tokenizer.h"

namespace ingot::cli {

/// "1,2,3" or "1 2 3" as ids; InvalidConfig naming `option` otherwise.
std::vector<std::int32_t> parse_ids(std::string_view text, const std::string& option);

/// --device, for choose_device().
void add_device_option(Command& command, std::string& device);
/// For a command whose configuration may name the device, too: nothing where the option is not given.
void add_device_option(Command& command, std::optional<std::string>& device);

}  // namespace ingot::cli
