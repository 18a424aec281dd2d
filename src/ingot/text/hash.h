#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace ingot::text {

/// Folds the 128-bit product: every input bit reaches every output bit in one multiplication.
inline std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
  const auto product = static_cast<unsigned __int128>(a) * b;
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}

/// A fast hash for table look-ups: not for untrusted multi-user tables, not stable across versions.
inline std::uint64_t hash_bytes(std::string_view bytes) {
  constexpr std::uint64_t k0 = 0x9E3779B97F4A7C15ULL, k1 = 0xD1B54A32D192ED03ULL;
  std::uint64_t h = bytes.size() * k0;
  const char* p = bytes.data();
  std::size_t n = bytes.size();
  for (; n > 8; p += 8, n -= 8) {
    std::uint64_t word;
    std::memcpy(&word, p, 8);
    h = mix(h ^ word, k1);
  }
  std::uint64_t word = 0;
  if (n != 0) std::memcpy(&word, p, n);
  return mix(h ^ word, k0);
}

inline std::uint64_t hash_pair(std::uint32_t a, std::uint32_t b) {
  return mix((static_cast<std::uint64_t>(a) << 32) | b, 0x9E3779B97F4A7C15ULL);
}

}  // namespace ingot::text
