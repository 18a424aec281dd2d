#pragma once

#include <string_view>

/// Files of tools/bench that are inside the binary (see src/ingot/CMakeLists.txt).
namespace ingot::bench_scripts {

std::string_view train_torch();
std::string_view policy_torch();
std::string_view selfplay_torch();

}  // namespace ingot::bench_scripts
