#include "ingot/quant/blocks/search.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace ingot::quant::blocks {
namespace {

// Weighted sums over codes q and values x, from which a fit follows.
struct Moments {
  float w = 0, q = 0, qq = 0, x = 0, qx = 0;
  void add(float weight, float code, float value) {
    w += weight;
    q += weight * code;
    qq += weight * code * code;
    x += weight * value;
    qx += weight * code * value;
  }
};

// The best line through (q, x) whose offset is not positive; false where the codes are all equal.
bool solve(const Moments& m, float& scale, float& offset) {
  const float determinant = m.w * m.qq - m.q * m.q;
  if (determinant <= 0) return false;
  scale = (m.w * m.qx - m.x * m.q) / determinant;
  offset = (m.qq * m.x - m.q * m.qx) / determinant;
  if (offset > 0) {
    offset = 0;
    scale = m.qx / m.qq;
  }
  return scale > 0;
}

int rounded(float x, float inverse_scale, int low, int high) {
  return std::clamp(static_cast<int>(std::nearbyint(x * inverse_scale)), low, high);
}

}  // namespace

void weigh(std::span<const float> x, const float* importance, float spread, float* weights) {
  for (std::size_t i = 0; i < x.size(); ++i) weights[i] = importance[i] * std::sqrt(spread + x[i] * x[i]);
}

float mean_square(std::span<const float> x) {
  float sum = 0;
  for (const float v : x) sum += v * v;
  return sum / static_cast<float>(x.size());
}

AffineFit fit_affine(std::span<const float> x, std::span<const float> weights, const AffineSearch& search) {
  const auto [lowest, highest] = std::minmax_element(x.begin(), x.end());
  const float low = std::min(*lowest, 0.0F), span = *highest - low;
  if (span <= 0) return {0, -low};
  std::array<float, 32> codes{};
  const auto try_codes = [&](float inverse) {
    Moments m;
    for (std::size_t i = 0; i < x.size(); ++i) {
      codes[i] = static_cast<float>(rounded(x[i] - low, inverse, 0, search.top));
      m.add(weights[i], codes[i], x[i]);
    }
    return m;
  };
  const auto error = [&](float scale, float offset) {
    float sum = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const float difference = std::abs(scale * codes[i] + offset - x[i]);
      sum += weights[i] * (search.absolute_error ? difference : difference * difference);
    }
    return sum;
  };
  const auto top = static_cast<float>(search.top);
  float best_scale = span / top, best_offset = low;
  try_codes(top / span);
  float best = error(best_scale, best_offset);
  for (int i = 0; i <= search.count; ++i) {
    const Moments m = try_codes((search.first + search.step * static_cast<float>(i) + top) / span);
    float scale = 0, offset = 0;
    if (!solve(m, scale, offset)) continue;
    const float now = error(scale, offset);
    if (now >= best) continue;
    best = now;
    best_scale = scale;
    best_offset = offset;
  }
  return {best_scale, -best_offset};
}

float fit_symmetric(std::span<const float> x, std::span<const float> weights, int top) {
  const float extreme =
      *std::max_element(x.begin(), x.end(), [](float a, float b) { return std::abs(a) < std::abs(b); });
  if (std::abs(extreme) < 1e-15F) return 0;
  float best = -1, best_scale = 0;
  for (int i = -9; i <= 9; ++i) {
    // The extreme gets code −top, or nearly: the range reaches one step further below zero.
    const float inverse = -(static_cast<float>(top) + 0.1F * static_cast<float>(i)) / extreme;
    float qx = 0, qq = 0;
    for (std::size_t k = 0; k < x.size(); ++k) {
      const auto code = static_cast<float>(rounded(x[k], inverse, -top, top - 1));
      qx += weights[k] * code * x[k];
      qq += weights[k] * code * code;
    }
    if (qq > 0 && qx * qx > best * qq) {  // what the fit explains, qx² / qq, is what the error lacks
      best = qx * qx / qq;
      best_scale = qx / qq;
    }
  }
  return best_scale;
}

float fit_levels(std::span<const float> x, std::span<const float> weights,
                 std::span<const std::int8_t> levels) {
  const float extreme =
      *std::max_element(x.begin(), x.end(), [](float a, float b) { return std::abs(a) < std::abs(b); });
  if (std::abs(extreme) < 1e-15F) return 0;
  float best = -1, best_scale = 0;
  const auto try_inverse = [&](float inverse) {
    float qx = 0, qq = 0;
    for (std::size_t k = 0; k < x.size(); ++k) {
      const auto level = static_cast<float>(levels[nearest_level(x[k] * inverse, levels)]);
      qx += weights[k] * level * x[k];
      qq += weights[k] * level * level;
    }
    if (qq > 0 && qx * qx > best * qq) {  // as in fit_symmetric
      best = qx * qx / qq;
      best_scale = qx / qq;
    }
  };
  // The extreme gets the lowest or the highest level, or nearly.
  for (const float end : {static_cast<float>(levels.front()), static_cast<float>(levels.back())})
    for (int i = -7; i <= 7; ++i) try_inverse((end + static_cast<float>(i)) / extreme);
  return best_scale;
}

std::uint8_t nearest_level(float x, std::span<const std::int8_t> levels) {
  const auto above =
      std::ranges::lower_bound(levels, x, {}, [](std::int8_t level) { return static_cast<float>(level); });
  if (above == levels.begin()) return 0;
  const auto index = static_cast<std::uint8_t>(above - levels.begin());
  if (above == levels.end()) return static_cast<std::uint8_t>(index - 1);
  const float low = levels[index - 1U], high = levels[index];
  return static_cast<std::uint8_t>(x - low <= high - x ? index - 1 : index);
}

int nearest_code(float x, float scale, int low, int high) {
  if (scale == 0) return std::clamp(0, low, high);
  return std::clamp(static_cast<int>(std::nearbyint(x / scale)), low, high);
}

}  // namespace ingot::quant::blocks
