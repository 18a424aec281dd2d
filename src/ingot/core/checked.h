#pragma once

#include <cstdint>
#include <span>

namespace ingot {

/// No tensor has more elements. Sizes below this stay in range through everything that follows: times the
/// bytes of an element, plus padding, plus each other.
inline constexpr std::int64_t kMaxElements = std::int64_t{1} << 56;

/// a * b, a + b and a - b of sizes that come from files. A size that wrapped would pass every check after it:
/// DimensionMismatch naming `where` instead.
std::int64_t checked_mul(std::int64_t a, std::int64_t b, const char* where);
std::int64_t checked_add(std::int64_t a, std::int64_t b, const char* where);
std::int64_t checked_sub(std::int64_t a, std::int64_t b, const char* where);

/// How many elements axes of these sizes hold; DimensionMismatch naming `where` for a negative size, and
/// where the sizes that are not 0 make more than kMaxElements.
std::int64_t checked_numel(std::span<const std::int64_t> sizes, const char* where);

}  // namespace ingot
