#include "ingot/quant/blocks/nibbles.h"

#include <algorithm>
#include <cmath>

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
