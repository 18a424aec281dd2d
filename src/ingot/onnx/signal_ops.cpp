#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <complex>
#include <numbers>

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/onnx/host.h"
#include "ingot/onnx/op.h"

// Spectra, as networks for sound compute them. In f64: lengths that are powers of two by halving, others as
// they are defined.

namespace ingot::onnx {
namespace {

using Complex = std::complex<double>;
using Row = std::vector<Complex>;

/// exp(±2πi k / n) for k = 0 ... n - 1.
Row roots_of_unity(std::size_t n, bool inverse) {
  Row roots(n);
  for (std::size_t k = 0; k < n; ++k) {
    const double angle = 2 * std::numbers::pi * static_cast<double>(k) / static_cast<double>(n);
    roots[k] = std::polar(1.0, inverse ? angle : -angle);
  }
  return roots;
}

/// Without a factor, in both directions.
class Transform {
 public:
  Transform(std::size_t n, bool inverse) : roots_(roots_of_unity(n, inverse)) {}

  Row operator()(const Row& x) const { return std::has_single_bit(x.size()) ? halved(x) : summed(x); }

 private:
  Row summed(const Row& x) const {
    const std::size_t n = x.size();
    Row y(n);
    for (std::size_t k = 0; k < n; ++k) {
      for (std::size_t t = 0; t < n; ++t) y[k] += x[t] * roots_[k * t % n];
    }
    return y;
  }

  // Cooley and Tukey 1965, from the smallest blocks up.
  Row halved(Row y) const {
    const std::size_t n = y.size();
    for (std::size_t i = 1, j = 0; i < n; ++i) {
      std::size_t bit = n / 2;
      for (; (j & bit) != 0; bit /= 2) j ^= bit;
      j ^= bit;
      if (i < j) std::swap(y[i], y[j]);
    }
    for (std::size_t size = 2; size <= n; size *= 2) {
      for (std::size_t start = 0; start < n; start += size) {
        for (std::size_t k = 0; k < size / 2; ++k) {
          const Complex even = y[start + k], odd = y[start + k + size / 2] * roots_[k * (n / size)];
          y[start + k] = even + odd;
          y[start + k + size / 2] = even - odd;
        }
      }
    }
    return y;
  }

  Row roots_;
};

constexpr std::int64_t kLongest = std::int64_t{1} << 24;

std::int64_t checked_length(const OpCall& call, std::int64_t length, const char* what) {
  INGOT_CHECK(length > 0 && length <= kLongest,
              DimensionMismatch(fmt::format("{}: {} is {}", call.where(), what, length)));
  return length;
}

/// The other side of a real signal's spectrum: the conjugate of the one that is there.
void mirror(Row& spectrum) {
  const std::size_t n = spectrum.size();
  spectrum[0] = spectrum[0].real();
  if (n % 2 == 0) spectrum[n / 2] = spectrum[n / 2].real();
  for (std::size_t k = n / 2 + 1; k < n; ++k) spectrum[k] = std::conj(spectrum[n - k]);
}

/// Input [..., 1 or 2], the last axis being real and imaginary parts.
Values fourier(const OpCall& call) {
  const Tensor& x = call.in(0);
  INGOT_CHECK(x.rank() > 1 && (x.dim(-1) == 1 || x.dim(-1) == 2),
              DimensionMismatch(fmt::format("{}: {} does not end in real and imaginary parts", call.where(),
                                            to_string(x.shape()))));
  const bool inverse = call.integer("inverse", 0) != 0, one_sided = call.integer("onesided", 0) != 0;
  const int axis = call.axis_of(call.opset() < 20 ? call.integer("axis", 1)
                                : call.has(2)     ? call.integer_in(2)
                                                  : -2,
                                x.rank());
  INGOT_CHECK(axis < x.rank() - 1, DimensionMismatch(fmt::format("{}: no axis {}", call.where(), axis)));
  const std::int64_t have = x.dim(axis);
  // One side of a spectrum stands for a real signal, of an even length where none is given.
  const bool to_real = inverse && one_sided;
  const std::int64_t natural = to_real ? 2 * (have - 1) : have;
  const std::int64_t length = checked_length(call, call.has(1) ? call.integer_in(1) : natural, "the length");
  const std::int64_t parts = to_real ? 1 : 2;
  Shape shape = x.shape().with(x.rank() - 1, parts);
  shape = shape.with(axis, one_sided && !inverse ? length / 2 + 1 : length);
  const std::vector<double> values = as_doubles(x);
  const std::vector<std::int64_t> from = strides_of(x.shape()), to = strides_of(shape);
  std::vector<double> result(static_cast<std::size_t>(shape.numel()));
  const Transform transform(static_cast<std::size_t>(length), inverse);
  const double factor = inverse ? 1 / static_cast<double>(length) : 1;
  const auto at_axis = static_cast<std::size_t>(axis);
  const std::int64_t inner = from[at_axis] / x.dim(-1), block_size = have * from[at_axis],
                     outer = block_size == 0 ? 0 : x.numel() / block_size;
  const bool is_complex = x.dim(-1) == 2;
  for (std::int64_t row = 0; row < outer * inner; ++row) {
    const std::int64_t block = row / inner, position = row % inner;
    const auto source = static_cast<std::size_t>(block * have * from[at_axis] + position * x.dim(-1));
    const auto target = static_cast<std::size_t>(block * shape[axis] * to[at_axis] + position * parts);
    Row line(static_cast<std::size_t>(length));
    for (std::size_t t = 0; t < static_cast<std::size_t>(std::min(have, length)); ++t) {
      const std::size_t at = source + t * static_cast<std::size_t>(from[at_axis]);
      line[t] = {values[at], is_complex ? values[at + 1] : 0};
    }
    if (to_real) mirror(line);
    const Row spectrum = transform(line);
    for (std::size_t k = 0; k < static_cast<std::size_t>(shape[axis]); ++k) {
      const std::size_t at = target + k * static_cast<std::size_t>(to[at_axis]);
      result[at] = spectrum[k].real() * factor;
      if (!to_real) result[at + 1] = spectrum[k].imag() * factor;
    }
  }
  return {from_doubles(result, shape, x.dtype())};
}

/// signal [N, L] or [N, L, 1 or 2] to [N, frames, bins, 2].
Values short_time_fourier(const OpCall& call) {
  const Tensor& signal = call.in(0);
  const std::int64_t parts = signal.rank() == 3 ? signal.dim(2) : 1;
  INGOT_CHECK((signal.rank() == 2 || signal.rank() == 3) && (parts == 1 || parts == 2),
              DimensionMismatch(fmt::format("{}: a signal of {}", call.where(), to_string(signal.shape()))));
  INGOT_CHECK(call.has(2) || call.has(3),
              FormatError(call.where(), -1, "input", "neither a window nor a length"));
  const std::vector<double> window = call.has(2) ? as_doubles(call.in(2)) : std::vector<double>{};
  const std::int64_t step = checked_length(call, call.integer_in(1), "frame_step"), samples = signal.dim(1);
  const std::int64_t length = checked_length(
      call, call.has(3) ? call.integer_in(3) : static_cast<std::int64_t>(window.size()), "frame_length");
  INGOT_CHECK(window.empty() || static_cast<std::int64_t>(window.size()) == length,
              DimensionMismatch(
                  fmt::format("{}: a window of {} for frames of {}", call.where(), window.size(), length)));
  const bool one_sided = call.integer("onesided", 1) != 0;
  if (one_sided && parts == 2) call.refuse("one side of a complex signal");
  const std::int64_t frames = samples < length ? 0 : (samples - length) / step + 1,
                     bins = one_sided ? length / 2 + 1 : length;
  const std::vector<double> values = as_doubles(signal);
  std::vector<double> result;
  result.reserve(static_cast<std::size_t>(signal.dim(0) * frames * bins * 2));
  const Transform transform(static_cast<std::size_t>(length), false);
  for (std::int64_t frame = 0; frame < signal.dim(0) * frames; ++frame) {
    const std::int64_t first = frame / frames * samples + frame % frames * step;
    Row line(static_cast<std::size_t>(length));
    for (std::size_t t = 0; t < line.size(); ++t) {
      const std::size_t at = (static_cast<std::size_t>(first) + t) * static_cast<std::size_t>(parts);
      line[t] = Complex(values[at], parts == 2 ? values[at + 1] : 0) * (window.empty() ? 1.0 : window[t]);
    }
    const Row spectrum = transform(line);
    for (std::size_t k = 0; k < static_cast<std::size_t>(bins); ++k) {
      result.push_back(spectrum[k].real());
      result.push_back(spectrum[k].imag());
    }
  }
  return {from_doubles(result, Shape{signal.dim(0), frames, bins, 2}, signal.dtype())};
}

/// Triangles that lie evenly on the mel scale: [dft_length / 2 + 1, bands].
Values mel_weights(const OpCall& call) {
  const std::int64_t bands = checked_length(call, call.integer_in(0), "num_mel_bins"),
                     length = checked_length(call, call.integer_in(1), "dft_length"),
                     rate = checked_length(call, call.integer_in(2), "sample_rate"), bins = length / 2 + 1;
  INGOT_CHECK(bands * bins <= kLongest,
              DimensionMismatch(fmt::format("{}: {} bands of {}", call.where(), bands, bins)));
  const std::int64_t type = call.integer("output_datatype", 1);
  if (type != 1 && type != 11) call.refuse("other weights than f32 and f64");
  const auto mel = [](double hertz) { return 2595 * std::log10(1 + hertz / 700); };
  const double low = mel(call.number_in(3)), high = mel(call.number_in(4));
  std::vector<std::int64_t> edges;  // in bins
  for (std::int64_t i = 0; i < bands + 2; ++i) {
    const double at = low + (high - low) / static_cast<double>(bands + 2) * static_cast<double>(i);
    const double hertz = 700 * (std::pow(10, at / 2595) - 1);
    edges.push_back(static_cast<std::int64_t>(
        std::floor(static_cast<double>(length + 1) * hertz / static_cast<double>(rate))));
    INGOT_CHECK(edges.back() >= 0 && edges.back() < bins,
                DimensionMismatch(fmt::format("{}: {} Hz are beyond {} bins", call.where(), hertz, bins)));
  }
  std::vector<double> weights(static_cast<std::size_t>(bins * bands));
  for (std::int64_t band = 0; band < bands; ++band) {
    const auto at = [&](std::int64_t bin) -> double& {
      return weights[static_cast<std::size_t>(bin * bands + band)];
    };
    const auto edge = [&](std::int64_t i) { return edges[static_cast<std::size_t>(band + i)]; };
    const std::int64_t rise = edge(1) - edge(0), fall = edge(2) - edge(1);
    for (std::int64_t bin = edge(0); bin <= edge(1); ++bin)
      at(bin) = rise == 0 ? 1 : static_cast<double>(bin - edge(0)) / static_cast<double>(rise);
    for (std::int64_t bin = edge(1); bin < edge(2); ++bin)
      at(bin) = static_cast<double>(edge(2) - bin) / static_cast<double>(fall);
  }
  return {from_doubles(weights, Shape{bins, bands}, type == 1 ? DType::f32 : DType::f64)};
}

constexpr std::array kSignalOps = {OpRow{"DFT", fourier}, OpRow{"MelWeightMatrix", mel_weights},
                                   OpRow{"STFT", short_time_fourier}};

}  // namespace

std::span<const OpRow> signal_ops() { return kSignalOps; }

}  // namespace ingot::onnx
