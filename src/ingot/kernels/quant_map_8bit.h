#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

// Moments of optimizers in 8 bits (Dettmers et al. 2021, "8-bit Optimizers via Block-wise Quantization"):
// each block of 256 elements has a scale, its largest magnitude, and an element is the code of element /
// scale in a map of 256 values, whose density follows their size. Every implementation gives the same codes
// and scales.
namespace ingot::kernels {

/// Elements that share a scale; a tensor's last block may be shorter.
inline constexpr std::int64_t kMomentBlock = 256;
constexpr std::int64_t moment_blocks(std::int64_t n) { return (n + kMomentBlock - 1) / kMomentBlock; }

/// What codes stand for. The seven decades from 1e-7 to 1 have 1, 2, ... 64 values of either sign, or 2, 4,
/// ... 128 without one: each decade's tenths from 0.1 to 1 are cut into parts of one size, whose middles they
/// are. Then there are 0 and 1, but no -1.
struct QuantMap8bit {
  std::array<float, 256> values{};  ///< by code, ascending
  /// limits[a]: halfway between magnitudes a and a + 1, counted from 0; infinity behind the last.
  std::array<float, 256> limits{};
  int zero = 0;  ///< the code of 0; magnitude a of a positive value has code zero + a, of a negative zero - a
};

namespace quant_map_detail {

// Middle j of `count` parts of [0.1, 1], rounded as in the maps that PyTorch's linspace makes, which rounds
// once from either end.
constexpr float middle(int j, int count) {
  const double step = static_cast<double>((1.0F - 0.1F) / static_cast<float>(count));
  const auto bound = [&](int i) {
    return static_cast<float>(i < (count + 1) / 2 ? static_cast<double>(0.1F) + step * i
                                                  : 1 - step * (count - i));
  };
  return (bound(j) + bound(j + 1)) / 2;
}

constexpr QuantMap8bit make(bool is_signed) {
  constexpr std::array<float, 7> kTops{1e-6F, 1e-5F, 1e-4F, 1e-3F, 1e-2F, 1e-1F, 1};
  QuantMap8bit map;
  map.zero = is_signed ? 127 : 0;
  auto code = static_cast<std::size_t>(map.zero);
  for (std::size_t decade = 0; decade < kTops.size(); ++decade) {
    const int count = (is_signed ? 1 : 2) << decade;
    for (int j = 0; j < count; ++j) {
      const float value = kTops[decade] * middle(j, count);
      map.values[++code] = value;
      if (is_signed) map.values[254 - code] = -value;
    }
  }
  map.values[255] = 1;
  for (std::size_t a = 0; a < 256; ++a) {
    const std::size_t here = static_cast<std::size_t>(map.zero) + a;
    map.limits[a] =
        here < 255 ? (map.values[here] + map.values[here + 1]) / 2 : std::numeric_limits<float>::infinity();
  }
  return map;
}

}  // namespace quant_map_detail

/// Of the first moment, and of the second, which is never negative.
inline constexpr QuantMap8bit kSignedMap = quant_map_detail::make(true);
inline constexpr QuantMap8bit kUnsignedMap = quant_map_detail::make(false);

/// A block's scale, and what its elements are multiplied by before they get a code: 1 / scale, or 0 where all
/// get the code of 0.
struct MomentScale {
  float scale = 0, inverse = 0;
};

/// From the largest bits of |element|, where a NaN is above infinity, and that above every number. A block
/// with either has the scale NaN, so that all of it is NaN from then on, instead of made up. One whose
/// elements are all below the normal numbers (2^-126) becomes 0.
constexpr MomentScale moment_scale(std::uint32_t largest) {
  if (largest >= 0x7f800000U) return {std::numeric_limits<float>::quiet_NaN(), 0};
  if (largest < 0x00800000U) return {};
  const auto scale = std::bit_cast<float>(largest);
  return {scale, 1 / scale};
}

/// The code of the value that is nearest to value · inverse; halfway, of the one nearer to 0.
inline std::uint8_t moment_code(const QuantMap8bit& map, float value, float inverse) {
  const float y = inverse == 0 ? 0 : value * inverse;
  const auto magnitude =
      static_cast<int>(std::ranges::lower_bound(map.limits, std::abs(y)) - map.limits.begin());
  return static_cast<std::uint8_t>(y < 0 ? map.zero - std::min(magnitude, map.zero) : map.zero + magnitude);
}

/// A magnitude t of the signed map lies at index r(t), the least of these seven lines, one for each decade:
/// middles of parts have whole numbers and a half. Every limit of the map is at a whole number or up to 0.2
/// above (0.75 below the last), so that floor(r(t) - 0.25) is the nearest magnitude or the one before it. The
/// unsigned map has 2 r(t) - 1.
struct MagnitudeLine {
  float slope, offset;
};
inline constexpr int kDecades = 7;
inline constexpr std::array<MagnitudeLine, kDecades> kMagnitudeLines = [] {
  std::array<MagnitudeLine, kDecades> lines{};
  double slope = 1e6 / 0.9, offset = 8.0 / 9;
  for (MagnitudeLine& line : lines) {
    line = {static_cast<float>(slope), static_cast<float>(offset)};
    slope /= 5;
    offset *= 2;
  }
  return lines;
}();

}  // namespace ingot::kernels
