#pragma once

#include <cstdint>
#include <optional>

#include <nlohmann/json_fwd.hpp>

namespace ingot {

/// A number that is whole and fits 64 bits, 64.0 as well as 64; nothing for any other value. The JSON
/// library's own conversion cuts 64.7 to 64, wraps what is too large, and is undefined for 1e308.
template <class Json>
std::optional<std::int64_t> whole_number(const Json& json);

}  // namespace ingot
