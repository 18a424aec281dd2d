#include "ingot/models/forecast/fourier_mixer.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "ingot/base/rng.h"
#include "ingot/ops/complex.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/fft.h"
#include "ingot/ops/index.h"
#include "ingot/ops/matmul.h"
#include "ingot/ops/reduce.h"
#include "ingot/ops/view.h"

namespace ingot {
namespace {

// Scaled as the published code: uniform in [0, 1 / d_model²), both parts.
Parameter take_weights(const ParamSource& source, const ForecastModelConfig& c, std::int64_t modes) {
  const std::int64_t each = c.d_model / c.heads;
  const double scale = 1 / static_cast<double>(c.d_model * c.d_model);
  return source.take("weights1", {2, modes, c.heads, each, each}, init::Uniform{0, scale});
}

Tensor as_indices(const std::vector<std::int64_t>& values, Device device) {
  return Tensor::from(values, {static_cast<std::int64_t>(values.size())}, device);
}

// Every frequency's own matmul: z [2, B, heads, modes, in] with weights [2, modes, heads, in, out] gives
// [2, B, modes, heads · out].
Tensor mix(const Tensor& z, const Tensor& weights) {
  const Tensor y = permute(complex_matmul(permute(z, {0, 3, 2, 1, 4}), weights), {0, 3, 1, 2, 4});
  return reshape(y, {2, y.dim(1), y.dim(2), y.dim(3) * y.dim(4)});
}

// [B, length, d], its memory first laid out as [B, d, length].
Tensor misread(const Tensor& x) { return reshape(transpose(x, 1, 2), x.shape()); }

// All that there are of a series, and those that are kept.
std::int64_t most_modes(std::int64_t length) { return std::max<std::int64_t>(1, length / 2); }
std::int64_t mode_count(const ForecastModelConfig& c, std::int64_t length) {
  return std::min(c.modes, most_modes(length));
}

}  // namespace

std::vector<std::int64_t> choose_modes(const ForecastModelConfig& c, std::int64_t length,
                                       std::uint64_t place) {
  std::vector<std::int64_t> all(static_cast<std::size_t>(most_modes(length)));
  std::iota(all.begin(), all.end(), 0);
  const auto count = static_cast<std::size_t>(mode_count(c, length));
  if (c.mode_select == "random") {
    Rng rng(RngKey{.seed = c.mode_seed, .stream = place});
    for (std::size_t i = 0; i < count; ++i) std::swap(all[i], all[i + rng.below(all.size() - i)]);
  }
  all.resize(count);
  std::ranges::sort(all);
  return all;
}

KeptModes::KeptModes(const std::vector<std::int64_t>& modes, Device device) : end_(modes.back() + 1) {
  const auto count = static_cast<std::int64_t>(modes.size());
  if (end_ == count) return;
  std::vector<std::int64_t> places(static_cast<std::size_t>(end_), count);
  for (std::int64_t i = 0; i < count; ++i) {
    places[static_cast<std::size_t>(modes[static_cast<std::size_t>(i)])] = i;
  }
  modes_ = as_indices(modes, device);
  places_ = as_indices(places, device);
}

Tensor KeptModes::take(const Tensor& x, std::int64_t heads) const {
  Tensor z = rfft(x, 1, end_);
  if (modes_.defined()) z = index_select_within(z, 2, modes_);
  return reshape(z, {2, z.dim(1), z.dim(2), heads, z.dim(3) / heads});
}

Tensor KeptModes::to_series(const Tensor& z, std::int64_t length) const {
  if (!modes_.defined()) return irfft(z, length, 1);
  const Tensor zeros = Tensor::zeros(z.shape().with(2, 1), z.dtype(), z.device());
  return irfft(index_select_within(concat(std::array{z, zeros}, 2), 2, places_), length, 1);
}

Tensor attend_spectra(const Tensor& query, const Tensor& key, const Tensor& value,
                      const std::string& activation) {
  const Tensor scores = complex_matmul(query, transpose(key, 3, 4));
  if (activation == "tanh") return complex_matmul(complex_tanh(scores), value);
  return matmul(softmax(complex_abs(scores)), value);  // real weights, for both parts alike
}

FourierMixer::FourierMixer(const ParamSource& source, const ForecastModelConfig& c, std::int64_t length,
                           std::uint64_t place)
    : heads_(c.heads),
      follow_paper_(c.follow_paper),
      weights_(take_weights(source, c, mode_count(c, length))),
      modes_(choose_modes(c, length, place), weights_.value.device()) {}

Tensor FourierMixer::operator()(const Tensor& query, const Tensor&, const Tensor&, bool) const {
  const Tensor z = permute(modes_.take(query, heads_), {0, 1, 3, 2, 4});
  const Tensor mixed = mix(z, weights_.value);
  const std::int64_t length = query.dim(1);
  return follow_paper_ ? modes_.to_series(mixed, length) : misread(irfft(mixed, length, 1));
}

void FourierMixer::visit(ParamVisitor& v) { v("weights1", weights_); }

FourierCross::FourierCross(const ParamSource& source, const ForecastModelConfig& c, std::int64_t query_length,
                           std::int64_t key_length, std::uint64_t place)
    : heads_(c.heads),
      follow_paper_(c.follow_paper),
      activation_(c.cross_activation),
      weights_(take_weights(source, c, mode_count(c, query_length))),
      query_modes_(choose_modes(c, query_length, place), weights_.value.device()),
      key_modes_(choose_modes(c, key_length, place + 1), weights_.value.device()) {}

Tensor FourierCross::operator()(const Tensor& query, const Tensor& key, const Tensor& value, bool) const {
  const auto spectrum = [&](const Tensor& x, const KeptModes& modes) {
    return permute(modes.take(x, heads_), {0, 1, 3, 2, 4});
  };
  const Tensor keys = spectrum(key, key_modes_);
  const Tensor values = follow_paper_ ? spectrum(value, key_modes_) : keys;
  const Tensor attended = attend_spectra(spectrum(query, query_modes_), keys, values, activation_);
  const auto d = static_cast<double>(query.dim(2));
  const Tensor y = query_modes_.to_series(mix(attended, weights_.value) * (1 / (d * d)), query.dim(1));
  return follow_paper_ ? y : misread(y);
}

void FourierCross::visit(ParamVisitor& v) { v("weights1", weights_); }

}  // namespace ingot
