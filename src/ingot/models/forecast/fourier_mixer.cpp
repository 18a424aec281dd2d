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
Parameter take_weights(const ParamSource& source, const ForecastModelConfig& c, std::size_t modes) {
  const std::int64_t each = c.d_model / c.heads;
  const double scale = 1 / static_cast<double>(c.d_model * c.d_model);
  return source.take("weights1", {2, static_cast<std::int64_t>(modes), c.heads, each, each},
                     init::Uniform{0, scale});
}

bool are_lowest(const std::vector<std::int64_t>& modes) {
  return modes.back() + 1 == static_cast<std::int64_t>(modes.size());
}

Tensor as_indices(const std::vector<std::int64_t>& values) {
  return Tensor::from(values, {static_cast<std::int64_t>(values.size())});
}

// x [B, length, d] at some frequencies, by heads: [2, B, modes, heads, d / heads].
Tensor take_modes(const Tensor& x, const std::vector<std::int64_t>& modes, std::int64_t heads) {
  Tensor z = rfft(x, 1, modes.back() + 1);
  if (!are_lowest(modes)) z = index_select(z, 2, as_indices(modes));
  return reshape(z, {2, z.dim(1), z.dim(2), heads, z.dim(3) / heads});
}

// Every frequency's own product: z [2, B, heads, modes, in] with weights [2, modes, heads, in, out] gives
// [2, B, modes, heads · out].
Tensor mix(const Tensor& z, const Tensor& weights) {
  const Tensor y = permute(complex_matmul(permute(z, {0, 3, 2, 1, 4}), weights), {0, 3, 1, 2, 4});
  return reshape(y, {2, y.dim(1), y.dim(2), y.dim(3) * y.dim(4)});
}

// The series whose spectrum has z's frequencies at `modes` and nothing elsewhere. z: [2, B, modes, d].
Tensor to_series(const Tensor& z, const std::vector<std::int64_t>& modes, std::int64_t length) {
  if (are_lowest(modes)) return irfft(z, length, 1);
  const auto count = static_cast<std::int64_t>(modes.size());
  std::vector<std::int64_t> places(static_cast<std::size_t>(modes.back() + 1), count);  // a row of zeros
  for (std::int64_t i = 0; i < count; ++i) {
    places[static_cast<std::size_t>(modes[static_cast<std::size_t>(i)])] = i;
  }
  const Tensor zeros = Tensor::zeros(z.shape().with(2, 1), z.dtype(), z.device());
  return irfft(index_select(concat(std::array{z, zeros}, 2), 2, as_indices(places)), length, 1);
}

// [B, length, d], its memory first laid out as [B, d, length].
Tensor misread(const Tensor& x) { return reshape(transpose(x, 1, 2), x.shape()); }

std::vector<std::int64_t> first_modes(std::size_t count) {
  std::vector<std::int64_t> modes(count);
  std::iota(modes.begin(), modes.end(), 0);
  return modes;
}

}  // namespace

std::vector<std::int64_t> choose_modes(const ForecastModelConfig& c, std::int64_t length,
                                       std::uint64_t place) {
  std::vector<std::int64_t> all =
      first_modes(static_cast<std::size_t>(std::max<std::int64_t>(1, length / 2)));
  const auto count = std::min(static_cast<std::size_t>(c.modes), all.size());
  if (c.mode_select == "random") {
    Rng rng(RngKey{.seed = c.mode_seed, .stream = place});
    for (std::size_t i = 0; i < count; ++i) std::swap(all[i], all[i + rng.below(all.size() - i)]);
  }
  all.resize(count);
  std::ranges::sort(all);
  return all;
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
      modes_(choose_modes(c, length, place)),
      weights_(take_weights(source, c, modes_.size())) {}

Tensor FourierMixer::operator()(const Tensor& query, const Tensor&, const Tensor&, bool) const {
  const Tensor z = permute(take_modes(query, modes_, heads_), {0, 1, 3, 2, 4});
  const Tensor mixed = mix(z, weights_.value);
  const std::int64_t length = query.dim(1);
  return follow_paper_ ? to_series(mixed, modes_, length)
                       : misread(to_series(mixed, first_modes(modes_.size()), length));
}

void FourierMixer::visit(ParamVisitor& v) { v("weights1", weights_); }

FourierCross::FourierCross(const ParamSource& source, const ForecastModelConfig& c, std::int64_t query_length,
                           std::int64_t key_length, std::uint64_t place)
    : heads_(c.heads),
      follow_paper_(c.follow_paper),
      activation_(c.cross_activation),
      query_modes_(choose_modes(c, query_length, place)),
      key_modes_(choose_modes(c, key_length, place + 1)),
      weights_(take_weights(source, c, query_modes_.size())) {}

Tensor FourierCross::operator()(const Tensor& query, const Tensor& key, const Tensor& value, bool) const {
  const auto spectrum = [&](const Tensor& x, const std::vector<std::int64_t>& modes) {
    return permute(take_modes(x, modes, heads_), {0, 1, 3, 2, 4});
  };
  const Tensor keys = spectrum(key, key_modes_);
  const Tensor values = follow_paper_ ? spectrum(value, key_modes_) : keys;
  const Tensor attended = attend_spectra(spectrum(query, query_modes_), keys, values, activation_);
  const auto d = static_cast<double>(query.dim(2));
  const Tensor y = to_series(mix(attended, weights_.value) * (1 / (d * d)), query_modes_, query.dim(1));
  return follow_paper_ ? y : misread(y);
}

void FourierCross::visit(ParamVisitor& v) { v("weights1", weights_); }

}  // namespace ingot
