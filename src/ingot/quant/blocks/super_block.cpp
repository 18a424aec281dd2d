#include "ingot/quant/blocks/super_block.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "ingot/quant/blocks/blocks.h"

namespace ingot::quant::blocks {
namespace {

std::uint8_t level_code(float value, float top_value, int level) {
  return top_value > 0
             ? static_cast<std::uint8_t>(nearest_code(value, top_value / static_cast<float>(level), 0, level))
             : std::uint8_t{0};
}

}  // namespace

SuperAffine round_super_affine(const float* x, const float* importance, int group, int level,
                               bool squared_mean, const AffineSearch& search) {
  const auto size = static_cast<std::size_t>(group), groups = 256 / size;
  std::array<AffineFit, 16> fits{};
  const float spread = mean_square({x, 256});
  float top_scale = 0, top_min = 0;
  for (std::size_t g = 0; g < groups; ++g) {
    const std::span<const float> values(x + g * size, size);
    float mean = 0;
    for (const float v : values) mean += v * v;
    mean = squared_mean ? std::sqrt(mean / static_cast<float>(size)) : 0;
    std::array<float, 32> weights{};
    for (std::size_t i = 0; i < size; ++i) weights[i] = mean + std::abs(values[i]);
    if (importance != nullptr) weigh(values, importance + g * size, spread, weights.data());
    fits[g] = fit_affine(values, std::span(weights).first(size), search);
    top_scale = std::max(top_scale, fits[g].scale);
    top_min = std::max(top_min, fits[g].minimum);
  }
  SuperAffine result;
  result.d = to_half(top_scale / static_cast<float>(level));
  result.dmin = to_half(top_min / static_cast<float>(level));
  for (std::size_t g = 0; g < groups; ++g) {
    result.scales[g] = level_code(fits[g].scale, top_scale, level);
    result.mins[g] = level_code(fits[g].minimum, top_min, level);
    // Codes for the scale and minimum that the block really keeps.
    const float scale = to_float(result.d) * result.scales[g],
                minimum = to_float(result.dmin) * result.mins[g];
    for (std::size_t i = g * size; i < (g + 1) * size; ++i)
      result.codes[i] = static_cast<std::uint8_t>(nearest_code(x[i] + minimum, scale, 0, search.top));
  }
  return result;
}

SuperSymmetric round_super_symmetric(const float* x, const float* importance, int level, int top) {
  constexpr std::size_t kGroup = 16;
  const float spread = mean_square({x, 256});
  std::array<float, 16> fits{};
  for (std::size_t g = 0; g < 16; ++g) {
    std::array<float, kGroup> weights{};
    for (std::size_t i = 0; i < kGroup; ++i) weights[i] = x[g * kGroup + i] * x[g * kGroup + i];
    if (importance != nullptr)
      weigh({x + g * kGroup, kGroup}, importance + g * kGroup, spread, weights.data());
    fits[g] = fit_symmetric({x + g * kGroup, kGroup}, weights, top);
  }
  const float extreme =
      *std::max_element(fits.begin(), fits.end(), [](float a, float b) { return std::abs(a) < std::abs(b); });
  SuperSymmetric result;
  result.codes.fill(static_cast<std::uint8_t>(top));
  if (extreme == 0) return result;
  result.d = to_half(extreme / static_cast<float>(-level));
  const float d = to_float(result.d);
  for (std::size_t g = 0; g < 16; ++g) {
    result.scales[g] = static_cast<std::int8_t>(nearest_code(fits[g], d, -level, level - 1));
    const float scale = d * result.scales[g];
    for (std::size_t i = g * kGroup; i < (g + 1) * kGroup; ++i)
      result.codes[i] = static_cast<std::uint8_t>(nearest_code(x[i], scale, -top, top - 1) + top);
  }
  return result;
}

void unpack_six_bits(const std::uint8_t* packed, std::int8_t* scales, std::uint8_t* mins) {
  for (std::size_t j = 0; j < 4; ++j) {
    scales[j] = static_cast<std::int8_t>(packed[j] & 63);
    mins[j] = packed[j + 4] & 63;
    scales[j + 4] = static_cast<std::int8_t>((packed[j + 8] & 15) | ((packed[j] >> 6) << 4));
    mins[j + 4] = static_cast<std::uint8_t>((packed[j + 8] >> 4) | ((packed[j + 4] >> 6) << 4));
  }
}

void pack_six_bits(const std::uint8_t* scales, const std::uint8_t* mins, std::uint8_t* packed) {
  for (std::size_t j = 0; j < 4; ++j) {
    packed[j] = static_cast<std::uint8_t>(scales[j] | ((scales[j + 4] >> 4) << 6));
    packed[j + 4] = static_cast<std::uint8_t>(mins[j] | ((mins[j + 4] >> 4) << 6));
    packed[j + 8] = static_cast<std::uint8_t>((scales[j + 4] & 15) | ((mins[j + 4] & 15) << 4));
  }
}

}  // namespace ingot::quant::blocks
