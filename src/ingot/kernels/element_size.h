#pragma once

#include <cstddef>
#include <cstdint>

namespace ingot::kernels {

/// Calls f.template operator()<T>() with the unsigned integer of `bytes` (1, 2, 4 or 8): what moves elements
/// that need no arithmetic.
template <class F>
void dispatch_size(std::size_t bytes, F&& f) {
  switch (bytes) {
    case 1:
      return f.template operator()<std::uint8_t>();
    case 2:
      return f.template operator()<std::uint16_t>();
    case 4:
      return f.template operator()<std::uint32_t>();
    default:
      return f.template operator()<std::uint64_t>();
  }
}

}  // namespace ingot::kernels
