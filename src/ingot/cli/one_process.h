#pragma once

#include <string_view>

namespace ingot::cli {

/// InvalidConfig where mpirun or the like started this process as one of several, and `command` does its work
/// in one: each would do all of it, into the same files.
void check_one_process(std::string_view command);

}  // namespace ingot::cli
