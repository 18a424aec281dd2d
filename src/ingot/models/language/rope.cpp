#include "ingot/models/language/rope.h"

#include <numbers>

#include "ingot/ops/rope.h"

namespace ingot {
namespace {

// Llama 3.1: long wavelengths are stretched by the factor, short ones kept, those between blended.
double llama3_frequency(double frequency, const RopeScaling& scaling) {
  const double wavelength = 2 * std::numbers::pi / frequency;
  const auto original = static_cast<double>(scaling.original_max_position_embeddings);
  if (wavelength < original / scaling.high_freq_factor) return frequency;
  if (wavelength > original / scaling.low_freq_factor) return frequency / scaling.factor;
  const double smooth = (original / wavelength - scaling.low_freq_factor) /
                        (scaling.high_freq_factor - scaling.low_freq_factor);
  return (1 - smooth) * frequency / scaling.factor + smooth * frequency;
}

}  // namespace

std::vector<float> scaled_rope_frequencies(const LanguageConfig& config) {
  std::vector<float> frequencies = rope_frequencies(config.head_dim, config.rope_theta);
  for (float& frequency : frequencies) {
    if (config.rope_scaling.type == "linear") frequency /= static_cast<float>(config.rope_scaling.factor);
    if (config.rope_scaling.type == "llama3") {
      frequency = static_cast<float>(llama3_frequency(frequency, config.rope_scaling));
    }
  }
  return frequencies;
}

}  // namespace ingot
