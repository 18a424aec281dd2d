#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "ingot/base/error.h"
#include "ingot/onnx/host.h"
#include "ingot/onnx/op.h"
#include "ingot/onnx/rearrange.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/resample.h"

// Images and the like in another size, one axis after another: for these ways to interpolate it is the same
// as all at once.

namespace ingot::onnx {
namespace {

/// One axis of a Resize: to how many positions, by which factor (that of the sizes before they were rounded).
struct ResizedAxis {
  int axis = 0;
  std::int64_t from = 0, to = 0;
  double factor = 1;
  double start = 0, end = 1;  ///< of the region that is cropped, in parts of the axis
};

struct ResizeMode {
  std::string kind, positions, rounding;
  double cubic = 0, extrapolation = 0;
  bool exclude_outside = false, antialias = false;

  bool crops() const { return positions == "tf_crop_and_resize"; }
};

/// Where an element of the result lies on the axis of the input. In f32, as PyTorch and ONNX Runtime do it:
/// there 2.5 is 2.5, where the f64 of a scale of 0.7 is a little less, and another pixel the nearest.
float original_position(const ResizeMode& mode, const ResizedAxis& axis, std::int64_t at) {
  const auto x = static_cast<float>(at), factor = static_cast<float>(axis.factor),
             from = static_cast<float>(axis.from), to = static_cast<float>(axis.to);
  if (mode.positions == "asymmetric") return x / factor;
  if (mode.positions == "tf_half_pixel_for_nn") return (x + 0.5F) / factor;
  if (mode.positions == "align_corners") {
    // Between the corners that there are, as in PyTorch and ONNX Runtime. ONNX' reference takes the size
    // before it is rounded; its node tests hold us to that where an axis shrinks.
    const float last = factor > 1 ? to - 1 : factor * from - 1;
    return last == 0 ? 0 : x * (from - 1) / last;
  }
  if (mode.crops()) {
    const auto start = static_cast<float>(axis.start), end = static_cast<float>(axis.end);
    if (axis.to == 1) return (start + end) * (from - 1) / 2;
    return start * (from - 1) + x * (end - start) * (from - 1) / (factor * from - 1);
  }
  if (mode.positions == "half_pixel_symmetric")  // factor * from is not rounded, unlike `to`
    return from / 2 * (1 - to / (factor * from)) + (x + 0.5F) / factor - 0.5F;
  if (mode.positions == "pytorch_half_pixel" && axis.to == 1) return 0;
  return (x + 0.5F) / factor - 0.5F;
}

std::int64_t nearest(const std::string& rounding, float x) {
  if (rounding == "floor") return static_cast<std::int64_t>(std::floor(x));
  if (rounding == "ceil") return static_cast<std::int64_t>(std::ceil(x));
  if (rounding == "round_prefer_ceil") return static_cast<std::int64_t>(std::floor(x + 0.5F));
  return static_cast<std::int64_t>(std::ceil(x - 0.5F));  // round_prefer_floor
}

std::vector<std::int64_t> nearest_positions(const ResizeMode& mode, const ResizedAxis& axis) {
  std::vector<std::int64_t> positions;
  for (std::int64_t at = 0; at < axis.to; ++at) {
    const std::int64_t position = nearest(mode.rounding, original_position(mode, axis, at));
    positions.push_back(std::clamp(position, std::int64_t{0}, axis.from - 1));
  }
  return positions;
}

/// How often each position is taken, if that is the same for all, in order; else 0.
std::int64_t whole_factor(const std::vector<std::int64_t>& positions, std::int64_t from) {
  const auto to = static_cast<std::int64_t>(positions.size());
  if (from == 0 || to % from != 0) return 0;
  for (std::int64_t i = 0; i < to; ++i) {
    if (positions[static_cast<std::size_t>(i)] != i / (to / from)) return 0;
  }
  return to / from;
}

Tensor resize_nearest(Tensor x, const std::vector<ResizedAxis>& axes, const ResizeMode& mode) {
  std::vector<std::int64_t> repeats(static_cast<std::size_t>(x.rank()), 1);
  for (const ResizedAxis& axis : axes) {
    const std::vector<std::int64_t> positions = nearest_positions(mode, axis);
    const std::int64_t factor = whole_factor(positions, axis.from);
    if (factor > 0) {
      repeats[static_cast<std::size_t>(axis.axis)] = factor;
    } else {
      x = pick(x, axis.axis, positions);
    }
  }
  return repeat_each(x, repeats);
}

/// Triangles, or cubic convolution (Keys 1981) with free parameter a: the weight of a position at distance d.
double tap_weight(const ResizeMode& mode, double d) {
  const double a = mode.cubic;
  d = std::abs(d);
  if (mode.kind != "cubic") return std::max(0.0, 1 - d);
  if (d <= 1) return ((a + 2) * d - (a + 3)) * d * d + 1;
  return d < 2 ? ((a * d - 5 * a) * d + 8 * a) * d - 4 * a : 0;
}

Resampling interpolation(const OpCall& call, const ResizeMode& mode, const ResizedAxis& axis) {
  // Where an axis shrinks, antialiasing widens the filter by as much.
  const double stretch = mode.antialias ? std::min(axis.factor, 1.0) : 1;
  const double support = (mode.kind == "cubic" ? 2 : 1) / stretch;
  constexpr double kMostTaps = 1 << 16;
  INGOT_CHECK(support < kMostTaps && (2 * support + 2) * static_cast<double>(axis.to) < 1e9,
              DimensionMismatch(call.where() + ": the filter is too wide"));
  const auto before = static_cast<std::int64_t>(std::floor(-support)) + 1;
  const auto taps = static_cast<std::size_t>(2 - 2 * before), positions = static_cast<std::size_t>(axis.to);
  Resampling how{.positions = axis.to,
                 .taps = static_cast<std::int64_t>(taps),
                 .indices = std::vector<std::int32_t>(taps * positions),
                 .weights = std::vector<double>(taps * positions)};
  for (std::size_t i = 0; i < positions; ++i) {
    const double position = static_cast<double>(original_position(mode, axis, static_cast<std::int64_t>(i)));
    const auto first = static_cast<std::int64_t>(std::ceil(position)) - 1 + before;
    double total = 0;
    for (std::size_t k = 0; k < taps; ++k) {
      const std::int64_t at = first + static_cast<std::int64_t>(k);
      const bool counts = !mode.exclude_outside || (at >= 0 && at < axis.from);
      const double weight = counts ? tap_weight(mode, (static_cast<double>(at) - position) * stretch) : 0;
      total += weight;
      how.indices[k * positions + i] =
          static_cast<std::int32_t>(std::clamp(at, std::int64_t{0}, axis.from - 1));
      how.weights[k * positions + i] = weight;
    }
    for (std::size_t k = 0; total != 0 && k < taps; ++k) how.weights[k * positions + i] /= total;
  }
  return how;
}

/// Positions of the result that lie outside of the image get a value of their own.
Tensor extrapolated(const Tensor& x, const std::vector<ResizedAxis>& axes, const ResizeMode& mode) {
  Tensor y = x;
  const auto beside = [&](const Tensor& t) { return to(t, x.device()); };
  const Tensor beyond = beside(to(Tensor::from(std::vector<double>{mode.extrapolation}, {}), x.dtype()));
  for (const ResizedAxis& axis : axes) {
    std::vector<float> inside;
    for (std::int64_t i = 0; i < axis.to; ++i) {
      const float position = original_position(mode, axis, i);
      inside.push_back(position >= 0 && position <= static_cast<float>(axis.from - 1) ? 1.0F : 0.0F);
    }
    std::vector<std::int64_t> dims(static_cast<std::size_t>(x.rank()), 1);
    dims[static_cast<std::size_t>(axis.axis)] = axis.to;
    y = where(beside(to(Tensor::from(inside, to_shape(dims)), DType::boolean)), y, beyond);
  }
  return y;
}

ResizeMode read_mode(const OpCall& call, bool upsample) {
  ResizeMode mode{
      .kind = call.text("mode", "nearest"),
      .positions = call.text("coordinate_transformation_mode", upsample ? "asymmetric" : "half_pixel"),
      .rounding = call.text("nearest_mode", upsample ? "floor" : "round_prefer_floor"),
      .cubic = call.number("cubic_coeff_a", -0.75F),
      .extrapolation = call.number("extrapolation_value", 0),
      .exclude_outside = call.integer("exclude_outside", 0) != 0,
      .antialias = call.integer("antialias", 0) != 0};
  if (mode.kind != "nearest" && mode.kind != "linear" && mode.kind != "cubic")
    call.refuse("mode " + mode.kind);
  return mode;
}

/// Sizes that keep the ratio of the axes: none larger, or none smaller, than is given.
void keep_ratio(const OpCall& call, std::vector<ResizedAxis>& axes) {
  const std::string policy = call.text("keep_aspect_ratio_policy", "stretch");
  if (policy == "stretch" || axes.empty()) return;
  if (policy != "not_larger" && policy != "not_smaller") call.refuse("keep_aspect_ratio_policy " + policy);
  double factor = axes[0].factor;
  for (const ResizedAxis& axis : axes)
    factor = policy == "not_larger" ? std::min(factor, axis.factor) : std::max(factor, axis.factor);
  for (ResizedAxis& axis : axes) {
    axis.factor = factor;
    axis.to = static_cast<std::int64_t>(std::floor(factor * static_cast<double>(axis.from) + 0.5));
  }
}

/// A scale or size for each of the axes; whether they are sizes.
std::pair<std::vector<double>, bool> read_sizes(const OpCall& call, bool upsample) {
  const std::size_t scale_input = upsample ? 1 : 2;
  if (call.has(3) && call.in(3).numel() > 0) return {as_doubles(call.in(3)), true};
  if (call.has(scale_input)) return {as_doubles(call.in(scale_input)), false};
  const std::vector<float>& scales = call.attribute("scales").numbers;
  return {{scales.begin(), scales.end()}, false};
}

/// The axes that change.
std::vector<ResizedAxis> read_axes(const OpCall& call, const Tensor& x, const ResizeMode& mode,
                                   bool upsample) {
  std::vector<std::int64_t> axes = call.integers("axes");
  if (axes.empty()) {
    axes.resize(static_cast<std::size_t>(x.rank()));
    std::iota(axes.begin(), axes.end(), 0);
  }
  const auto [given, by_size] = read_sizes(call, upsample);
  const std::vector<double> region =
      mode.crops() && call.has(1) ? as_doubles(call.in(1)) : std::vector<double>{};
  INGOT_CHECK(given.size() == axes.size() && (region.empty() || region.size() == 2 * axes.size()),
              DimensionMismatch(call.where() + ": a scale or size, and a region, for each axis"));
  std::vector<ResizedAxis> resized;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    ResizedAxis axis{.axis = call.axis_of(axes[i], x.rank())};
    axis.from = x.dim(axis.axis);
    if (!region.empty()) axis.start = region[i], axis.end = region[i + axes.size()];
    const auto size = static_cast<double>(axis.from);
    const double wanted = by_size ? given[i] : std::floor(size * (axis.end - axis.start) * given[i]);
    INGOT_CHECK(wanted >= 0 && wanted <= INT32_MAX && axis.from <= INT32_MAX && given[i] > 0,
                DimensionMismatch(call.where() + ": no such size"));
    axis.factor = by_size ? wanted / size : given[i];
    axis.to = static_cast<std::int64_t>(wanted);
    resized.push_back(axis);
  }
  if (by_size) keep_ratio(call, resized);
  std::erase_if(resized, [](const ResizedAxis& a) {
    return a.to == a.from && a.factor == 1 && a.start == 0 && a.end == 1;
  });
  for (const ResizedAxis& axis : resized)
    INGOT_CHECK(axis.from > 0, DimensionMismatch(call.where() + ": an axis has nothing to resize"));
  return resized;
}

Values resize(const OpCall& call) {
  Tensor x = call.in(0);
  const bool upsample = call.node().op == "Upsample" || call.opset() < 11;
  const ResizeMode mode = read_mode(call, upsample);
  std::vector<ResizedAxis> axes = read_axes(call, x, mode, upsample);
  // What makes it smaller comes first, and the innermost axis, where positions are adjacent, before
  // others.
  std::ranges::sort(axes, [](const ResizedAxis& a, const ResizedAxis& b) {
    return a.factor != b.factor ? a.factor < b.factor : a.axis > b.axis;
  });
  if (mode.kind == "nearest") {
    x = resize_nearest(x, axes, mode);
  } else {
    for (const ResizedAxis& axis : axes) x = resample(x, axis.axis, interpolation(call, mode, axis));
  }
  return {mode.crops() ? extrapolated(x, axes, mode) : x};
}

constexpr std::array kResizeOps = {OpRow{"Resize", resize, 1}, OpRow{"Upsample", resize, 1}};

}  // namespace

std::span<const OpRow> resize_ops() { return kResizeOps; }

}  // namespace ingot::onnx
