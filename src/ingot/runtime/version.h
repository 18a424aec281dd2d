#pragma once

#include <string_view>

namespace ingot {

/// The version of this build: "0.1.0". Headers and library of two versions do not go together.
std::string_view version();

}  // namespace ingot
