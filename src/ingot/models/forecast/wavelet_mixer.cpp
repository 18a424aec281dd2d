#include "ingot/models/forecast/wavelet_mixer.h"

#include <algorithm>
#include <array>
#include <bit>

#include "ingot/models/forecast/fourier_mixer.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/complex.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/fft.h"
#include "ingot/ops/matmul.h"
#include "ingot/ops/view.h"

namespace ingot {

WaveletTransform::WaveletTransform(std::int64_t order, std::int64_t skipped, Device device)
    : filters_(legendre_multiwavelets(order)), skipped_(skipped) {
  filters_ = {to(filters_.analysis, device), to(filters_.synthesis, device)};
}

WaveletLevels WaveletTransform::take_apart(const Tensor& series) const {
  const std::int64_t n = series.dim(1), order = series.dim(3);
  const auto whole = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(n)));
  Tensor x = whole == n ? series : concat(std::array{series, slice(series, 1, 0, whole - n)}, 1);
  WaveletLevels levels;
  const std::int64_t count = std::bit_width(static_cast<std::uint64_t>(n)) - 1 - skipped_;
  for (std::int64_t level = 0; level < count; ++level) {
    const std::int64_t half = x.dim(1) / 2;
    const Tensor pairs = permute(reshape(x, {x.dim(0), half, 2, x.dim(2), order}), {0, 1, 3, 2, 4});
    const Tensor y = matmul(reshape(pairs, {x.dim(0), half, x.dim(2), 2 * order}), filters_.analysis);
    levels.details.push_back(slice(y, 3, 0, order));
    levels.sums.push_back(slice(y, 3, order));
    x = levels.sums.back();
  }
  if (levels.sums.empty()) levels.sums.push_back(x);
  return levels;
}

Tensor WaveletTransform::put_together(Tensor x, const WaveletLevels& levels, std::int64_t length) const {
  for (std::size_t level = levels.details.size(); level-- > 0;) {
    const Tensor both = concat(std::array{x + levels.sums[level], levels.details[level]}, 3);
    const std::int64_t n = x.dim(1), channels = x.dim(2), order = x.dim(3);
    const Tensor pairs = reshape(matmul(both, filters_.synthesis), {x.dim(0), n, channels, 2, order});
    x = reshape(permute(pairs, {0, 1, 3, 2, 4}), {x.dim(0), 2 * n, channels, order});
  }
  return slice(x, 1, 0, length);
}

SpectralMatrix::SpectralMatrix(const ParamSource& source, std::int64_t modes, std::int64_t width)
    : weights(source.take("weights1", {2, modes, width, width},
                          init::Uniform{0, 1 / static_cast<double>(width * width)})) {}

Tensor SpectralMatrix::operator()(const Tensor& x) const {
  const std::int64_t batch = x.dim(0), n = x.dim(1), width = x.dim(2) * x.dim(3);
  const std::int64_t modes = std::min(weights.value.dim(1), n / 2 + 1);
  const Tensor z = permute(rfft(reshape(x, {batch, n, width}), 1, modes), {0, 2, 1, 3});
  const Tensor w = modes == weights.value.dim(1) ? weights.value : slice(weights.value, 1, 0, modes);
  return reshape(irfft(permute(complex_matmul(z, w), {0, 2, 1, 3}), n, 1), x.shape());
}

void SpectralMatrix::visit(ParamVisitor& v) { v("weights1", weights); }

WaveletMixer::WaveletMixer(const ParamSource& source, const ForecastModelConfig& c)
    : channels_(c.wavelet_channels),
      order_(c.wavelet_order),
      in_(source.scope("Lk0"), {.in = c.d_model, .out = channels_ * order_}),
      out_(source.scope("Lk1"), {.in = channels_ * order_, .out = c.d_model}),
      transform_(c.wavelet_order, c.wavelet_skip, in_.device()),
      of_details_(source.scope("MWT_CZ.0.A"), c.wavelet_modes, channels_ * order_),
      of_sums_(source.scope("MWT_CZ.0.B"), c.wavelet_modes, channels_ * order_),
      to_sums_(source.scope("MWT_CZ.0.C"), c.wavelet_modes, channels_ * order_),
      coarsest_(source.scope("MWT_CZ.0.T0"), {.in = order_, .out = order_}) {}

Tensor WaveletMixer::operator()(const Tensor&, const Tensor&, const Tensor& value, bool) const {
  const std::int64_t batch = value.dim(0), n = value.dim(1);
  const WaveletLevels levels = transform_.take_apart(reshape(in_(value), {batch, n, channels_, order_}));
  WaveletLevels changed;
  for (std::size_t i = 0; i < levels.details.size(); ++i) {
    changed.details.push_back(of_details_(levels.details[i]) + of_sums_(levels.sums[i]));
    changed.sums.push_back(to_sums_(levels.details[i]));
  }
  const Tensor y = transform_.put_together(coarsest_(levels.sums.back()), changed, n);
  return out_(reshape(y, {batch, n, channels_ * order_}));
}

void WaveletMixer::visit(ParamVisitor& v) {
  v("Lk0", in_);
  v("Lk1", out_);
  v("MWT_CZ.0.A", of_details_);
  v("MWT_CZ.0.B", of_sums_);
  v("MWT_CZ.0.C", to_sums_);
  v("MWT_CZ.0.T0", coarsest_);
}

WaveletCross::WaveletCross(const ParamSource& source, const ForecastModelConfig& c)
    : channels_(std::max<std::int64_t>(1, c.wavelet_channels / 2)),
      order_(c.wavelet_order),
      modes_(c.modes),
      scale_(1 / static_cast<double>(c.d_model * c.d_model)),
      follow_paper_(c.follow_paper),
      activation_(c.cross_activation),
      query_(source.scope("Lq"), {.in = c.d_model, .out = channels_ * order_}),
      key_(source.scope("Lk"), {.in = c.d_model, .out = channels_ * order_}),
      value_(source.scope("Lv"), {.in = c.d_model, .out = channels_ * order_}),
      out_(source.scope("out"), {.in = channels_ * order_, .out = c.d_model}),
      transform_(c.wavelet_order, 0, out_.device()) {}

// All of one length: [B, n, channels, order]. Attention runs between frequencies, over channels.
Tensor WaveletCross::attend(const Tensor& query, const Tensor& key, const Tensor& value) const {
  const std::int64_t n = query.dim(1), modes = std::min(n / 2, modes_);
  if (modes == 0) return Tensor::zeros(query.shape(), query.dtype(), query.device());
  const auto spectrum = [&](const Tensor& x) { return permute(rfft(x, 1, modes), {0, 1, 4, 2, 3}); };
  const Tensor keys = spectrum(key);
  const Tensor values = follow_paper_ ? spectrum(value) : keys;
  const Tensor y = attend_spectra(spectrum(query), keys, values, activation_);
  return irfft(permute(y * scale_, {0, 1, 3, 4, 2}), n, 1);
}

Tensor WaveletCross::operator()(const Tensor& query, const Tensor& key, const Tensor& value, bool) const {
  const std::int64_t batch = query.dim(0), n = query.dim(1);
  const auto levels_of = [&](const Linear& projection, const Tensor& x) {
    const Tensor y = projection(x);
    return transform_.take_apart(fit_length(reshape(y, {batch, y.dim(1), channels_, order_}), n));
  };
  const WaveletLevels q = levels_of(query_, query), k = levels_of(key_, key);
  const WaveletLevels v = follow_paper_ ? levels_of(value_, value) : k;
  WaveletLevels attended;
  for (std::size_t i = 0; i < q.details.size(); ++i) {
    attended.sums.push_back(attend(q.details[i], k.details[i], v.details[i]));
    attended.details.push_back(attended.sums.back() + attend(q.sums[i], k.sums[i], v.sums[i]));
  }
  const Tensor coarsest = attend(q.sums.back(), k.sums.back(), v.sums.back());
  return out_(reshape(transform_.put_together(coarsest, attended, n), {batch, n, channels_ * order_}));
}

void WaveletCross::visit(ParamVisitor& v) {
  v("Lq", query_);
  v("Lk", key_);
  v("Lv", value_);
  v("out", out_);
}

}  // namespace ingot
