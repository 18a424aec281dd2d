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

/// Formats that weights can be loaded in, for completion: f32, bf16, f16 and the quantized ones.
std::vector<std::string> load_formats();
/// --format of a command that loads an encoder or a classifier.
void add_load_format_option(Command& command, std::string& format);

/// The ending of a file's name in lower case, with its point: ".csv"; empty where it has none.
std::string ending_of(const std::string& path);
/// InvalidConfig for `option` where a file to write ends in none of `known` (".csv", ".json"), whatever its
/// case. Names without an ending pass, and so does "-".
void check_ending(const std::string& option, const std::string& path, const std::vector<std::string>& known);
/// Whether what a command writes is its standard output ("-"), where nothing else then belongs.
inline bool is_standard_output(const std::string& path) { return path == "-"; }

}  // namespace ingot::cli
