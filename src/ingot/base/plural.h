#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace ingot {

/// "1 row", "2 rows".
std::string counted(std::int64_t count, std::string_view noun);
/// "1 row is", "2 rows are".
std::string counted_are(std::int64_t count, std::string_view noun);

}  // namespace ingot
