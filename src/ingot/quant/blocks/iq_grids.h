#pragma once

#include <array>
#include <cstdint>

// The grids of GGUF's IQ formats (ggml-common.h): points that hold the magnitudes of 8 or 4 neighbouring
// weights. Element i of a point has two bits (three, of IQ3) from the lowest on, an index into the values.
namespace ingot::quant::blocks {

/// Of IQ2_XXS, IQ2_XS and IQ2_S.
inline constexpr std::array<std::int8_t, 3> kIq2Values{8, 25, 43};
extern const std::array<std::uint16_t, 256> kIq2XxsGrid;
extern const std::array<std::uint16_t, 512> kIq2XsGrid;
extern const std::array<std::uint16_t, 1024> kIq2SGrid;

inline constexpr std::array<std::int8_t, 8> kIq3XxsValues{4, 12, 20, 28, 36, 44, 52, 62};
extern const std::array<std::uint16_t, 256> kIq3XxsGrid;
inline constexpr std::array<std::int8_t, 8> kIq3SValues{1, 3, 5, 7, 9, 11, 13, 15};
extern const std::array<std::uint16_t, 512> kIq3SGrid;

/// Of IQ1_S and IQ1_M, whose points have signs: indices are of −1, 0, 1.
extern const std::array<std::uint16_t, 2048> kIq1Grid;

}  // namespace ingot::quant::blocks
