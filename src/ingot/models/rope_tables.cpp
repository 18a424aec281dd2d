#include "ingot/models/rope_tables.h"

#include <algorithm>
#include <cmath>
#include <numbers>

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

// Beyond the context it was trained on, the base grows with the sequence.
double dynamic_theta(const RotaryConfig& config, std::int64_t length) {
  const auto context = static_cast<double>(config.max_position_embeddings);
  const auto size = static_cast<double>(config.size);
  const double factor = config.scaling.factor, reached = std::max(static_cast<double>(length), context);
  return config.theta * std::pow(factor * reached / context - (factor - 1), size / (size - 2));
}

double yarn_mscale(double scale, double mscale) {
  return scale <= 1 ? 1.0 : 0.1 * mscale * std::log(scale) + 1.0;
}

// Pairs that rotate often keep their frequency, slow ones are stretched, with a ramp between.
void apply_yarn(const RotaryConfig& config, RopeFrequencies& frequencies) {
  const RopeScaling& rope = config.scaling;
  const auto size = static_cast<double>(config.size);
  const auto original = static_cast<double>(rope.original_max_position_embeddings);
  const auto pair_of = [&](double turns) {  // the pair that rotates this often over the original context
    return size * std::log(original / (turns * 2 * std::numbers::pi)) / (2 * std::log(config.theta));
  };
  double low = pair_of(rope.beta_fast), high = pair_of(rope.beta_slow);
  if (rope.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, size - 1);
  if (low == high) high += 0.001;
  for (std::size_t i = 0; i < frequencies.inverse.size(); ++i) {
    const double stretched = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    const double frequency = frequencies.inverse[i];
    frequencies.inverse[i] = static_cast<float>(frequency * (stretched / rope.factor + (1 - stretched)));
  }
  double attention = rope.attention_factor;
  if (attention == 0 && rope.mscale > 0 && rope.mscale_all_dim > 0) {
    attention = yarn_mscale(rope.factor, rope.mscale) / yarn_mscale(rope.factor, rope.mscale_all_dim);
  } else if (attention == 0) {
    attention = yarn_mscale(rope.factor, 1);
  }
  frequencies.attention_factor = static_cast<float>(attention);
}

void apply_longrope(const RopeScaling& rope, std::int64_t length, RopeFrequencies& frequencies) {
  const bool is_long = length > rope.original_max_position_embeddings;
  const std::vector<double>& factors = is_long ? rope.long_factor : rope.short_factor;
  for (std::size_t i = 0; i < frequencies.inverse.size(); ++i) {
    frequencies.inverse[i] = static_cast<float>(frequencies.inverse[i] / factors[i]);
  }
  const auto original = static_cast<double>(rope.original_max_position_embeddings);
  double attention = rope.attention_factor;
  if (attention == 0) {
    attention = rope.factor <= 1 ? 1.0 : std::sqrt(1 + std::log(rope.factor) / std::log(original));
  }
  if (const double mscale = is_long ? rope.long_mscale : rope.short_mscale; mscale > 0) attention = mscale;
  frequencies.attention_factor = static_cast<float>(attention);
}

// The first pairs turn as those of a whole head do, the others stand still (Gemma 4).
void apply_proportional(const RotaryConfig& config, RopeFrequencies& frequencies) {
  const auto turning = static_cast<std::size_t>(config.turning * static_cast<double>(config.size) / 2);
  for (std::size_t i = 0; i < frequencies.inverse.size(); ++i)
    frequencies.inverse[i] =
        i < turning ? frequencies.inverse[i] / static_cast<float>(config.scaling.factor) : 0.0F;
}

// Lengths of one class share their frequencies.
std::int64_t length_class(const RotaryConfig& config, std::int64_t length) {
  const RopeScaling& rope = config.scaling;
  if (rope.type == "dynamic") return std::max(length, config.max_position_embeddings);
  if (rope.type == "longrope") return length > rope.original_max_position_embeddings ? 1 : 0;
  return 0;
}

std::int64_t rows_of(const RopeTable& table) { return table.cos.defined() ? table.cos.dim(0) : 0; }

}  // namespace

RopeFrequencies scaled_rope_frequencies(const RotaryConfig& config, std::int64_t length) {
  const RopeScaling& rope = config.scaling;
  const double theta = rope.type == "dynamic" ? dynamic_theta(config, length) : config.theta;
  RopeFrequencies frequencies{.inverse = rope_frequencies(config.size, theta)};
  if (rope.type == "yarn") apply_yarn(config, frequencies);
  if (rope.type == "longrope") apply_longrope(rope, length, frequencies);
  if (rope.type == "proportional") apply_proportional(config, frequencies);
  for (float& frequency : frequencies.inverse) {
    if (rope.type == "linear") frequency /= static_cast<float>(rope.factor);
    if (rope.type == "llama3") frequency = static_cast<float>(llama3_frequency(frequency, rope));
  }
  return frequencies;
}

void RopeTables::prepare(const RotaryConfig& config, std::int64_t length, Device device) {
  const std::int64_t variant = length_class(config, length), known = rows_of(full_);
  if (variant == variant_ && known >= length) return;
  // Doubling keeps generation from computing the tables again for every token.
  const std::int64_t count = known >= length ? known : std::max({length, 2 * known, std::int64_t{256}});
  const RopeFrequencies frequencies = scaled_rope_frequencies(config, length);
  full_ = rope_table(frequencies.inverse, count, frequencies.attention_factor, device);
  variant_ = variant;
  if (config.local_theta > 0 && rows_of(sliding_) < count) {
    const std::int64_t size = config.local_size > 0 ? config.local_size : config.size;
    sliding_ = rope_table(rope_frequencies(size, config.local_theta), count, 1.0F, device);
  }
}

}  // namespace ingot
