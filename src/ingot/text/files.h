#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace ingot::text {

/// The whole file. Throws IoError.
std::string read_file(const std::filesystem::path& path);
void write_file(const std::filesystem::path& path, std::string_view content);

}  // namespace ingot::text
