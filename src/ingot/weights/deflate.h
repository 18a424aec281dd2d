#pragma once

#include <cstdint>

namespace ingot {

/// How many times smaller deflate can make bytes at most: what claims more is damaged.
inline constexpr std::uint64_t kMaxDeflateRatio = 1032;

}  // namespace ingot
