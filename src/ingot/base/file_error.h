#pragma once

#include <cerrno>
#include <string>
#include <string_view>

namespace ingot {

/// Throws the IoError "cannot DOING: No space left on device; 12 MiB free there: ..." about the file, what
/// can be done included. `code` is an errno.
[[noreturn]] void throw_file_error(const std::string& path, std::string_view doing, int code = errno);

}  // namespace ingot
