#include "ingot/quant/blocks/nibbles.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "ingot/quant/blocks/blocks.h"
#include "ingot/quant/blocks/search.h"

namespace ingot::quant::blocks {

// Truncating after adding a half, rather than rounding, is ggml's rule; tests compare the bits.
float round_symmetric(const float* x, int top, std::uint8_t* codes) {
  const float* largest =
      std::max_element(x, x + 32, [](float a, float b) { return std::abs(a) < std::abs(b); });
  const int zero = (top + 1) / 2;
  const float d = *largest / static_cast<float>(-zero), inverse = d != 0 ? 1 / d : 0;
  for (int i = 0; i < 32; ++i) {
    const float code = std::trunc(x[i] * inverse + static_cast<float>(zero) + 0.5F);
    codes[i] = static_cast<std::uint8_t>(std::clamp(code, 0.0F, static_cast<float>(top)));
  }
  return d;
}

// The importance alone is the weight of an error: with more of it for large values, as llama.cpp has it and
// as formats with minima take it, language models diverge 4 % more.
float round_symmetric(const float* x, const float* importance, int top, std::uint8_t* codes) {
  if (importance == nullptr) return round_symmetric(x, top, codes);
  const int zero = (top + 1) / 2;
  const float d = to_float(to_half(fit_symmetric({x, 32}, {importance, 32}, zero)));
  for (int i = 0; i < 32; ++i)
    codes[i] = static_cast<std::uint8_t>(nearest_code(x[i], d, -zero, zero - 1) + zero);
  return d;
}

Affine round_affine(const float* x, const float* importance, int top, std::uint8_t* codes) {
  if (importance == nullptr || *std::min_element(x, x + 32) > 0) return round_affine(x, top, codes);
  std::array<float, 32> weights;
  weigh({x, 32}, importance, mean_square({x, 32}), weights.data());
  const AffineFit fit = fit_affine(
      {x, 32}, weights, {.top = top, .first = -0.9F, .step = 0.05F, .count = 36, .absolute_error = false});
  const float d = to_float(to_half(fit.scale)), minimum = to_float(to_half(-fit.minimum));
  for (int i = 0; i < 32; ++i) codes[i] = static_cast<std::uint8_t>(nearest_code(x[i] - minimum, d, 0, top));
  return {d, minimum};
}

Affine round_affine(const float* x, int top, std::uint8_t* codes) {
  const auto [low, high] = std::minmax_element(x, x + 32);
  const float d = (*high - *low) / static_cast<float>(top), inverse = d != 0 ? 1 / d : 0;
  for (int i = 0; i < 32; ++i) {
    const float code = std::trunc((x[i] - *low) * inverse + 0.5F);
    codes[i] = static_cast<std::uint8_t>(std::clamp(code, 0.0F, static_cast<float>(top)));
  }
  return {d, *low};
}

}  // namespace ingot::quant::blocks
