#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "ingot/base/error.h"
#include "ingot/onnx/host.h"
#include "ingot/onnx/op.h"
#include "ingot/onnx/rearrange.h"
#include "ingot/ops/resample.h"

// Images and the like in another size, one axis after another: for these ways to interpolate it is the same
// as all at once.

namespace ingot::onnx {
namespace {

/// One axis of a Resize: to how many places, by which factor (that of the sizes before they were rounded).
struct ResizedAxis {
  int axis = 0;
  std::int64_t from = 0, to = 0;
  double factor = 1;
};

struct ResizeMode {
  std::string kind, places, rounding;
  double cubic = 0;
  bool exclude_outside = false;
};

/// Where an element of the result lies on the axis of the input.
double original_place(const ResizeMode& mode, const ResizedAxis& axis, std::int64_t at) {
  const auto x = static_cast<double>(at);
  if (mode.places == "asymmetric") return x / axis.factor;
  if (mode.places == "tf_half_pixel_for_nn") return (x + 0.5) / axis.factor;
  if (mode.places == "align_corners") {
    const double last = axis.factor * static_cast<double>(axis.from) - 1;  // not rounded, unlike the size
    return last == 0 ? 0 : x * static_cast<double>(axis.from - 1) / last;
  }
  if (mode.places == "pytorch_half_pixel" && axis.to == 1) return 0;
  return (x + 0.5) / axis.factor - 0.5;
}

std::int64_t nearest(const std::string& rounding, double x) {
  if (rounding == "floor") return static_cast<std::int64_t>(std::floor(x));
  if (rounding == "ceil") return static_cast<std::int64_t>(std::ceil(x));
  if (rounding == "round_prefer_ceil") return static_cast<std::int64_t>(std::floor(x + 0.5));
  return static_cast<std::int64_t>(std::ceil(x - 0.5));  // round_prefer_floor
}

std::vector<std::int64_t> nearest_places(const ResizeMode& mode, const ResizedAxis& axis) {
  std::vector<std::int64_t> places;
  for (std::int64_t at = 0; at < axis.to; ++at) {
    const std::int64_t place = nearest(mode.rounding, original_place(mode, axis, at));
    places.push_back(std::clamp(place, std::int64_t{0}, axis.from - 1));
  }
  return places;
}

/// How often each place is taken, if that is the same for all, in order; else 0.
std::int64_t whole_factor(const std::vector<std::int64_t>& places, std::int64_t from) {
  const auto to = static_cast<std::int64_t>(places.size());
  if (from == 0 || to % from != 0) return 0;
  for (std::int64_t i = 0; i < to; ++i) {
    if (places[static_cast<std::size_t>(i)] != i / (to / from)) return 0;
  }
  return to / from;
}

Tensor resize_nearest(Tensor x, const std::vector<ResizedAxis>& axes, const ResizeMode& mode) {
  std::vector<std::int64_t> repeats(static_cast<std::size_t>(x.rank()), 1);
  for (const ResizedAxis& axis : axes) {
    const std::vector<std::int64_t> places = nearest_places(mode, axis);
    const std::int64_t factor = whole_factor(places, axis.from);
    if (factor > 0) {
      repeats[static_cast<std::size_t>(axis.axis)] = factor;
    } else {
      x = pick(x, axis.axis, places);
    }
  }
  return repeat_each(x, repeats);
}

/// Weights of the places around one at distance t behind the first in the middle: cubic convolution (Keys
/// 1981) with free parameter a.
std::array<double, 4> cubic_weights(double t, double a) {
  const auto near = [a](double d) { return ((a + 2) * d - (a + 3)) * d * d + 1; };
  const auto far = [a](double d) { return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a; };
  return {far(t + 1), near(t), near(1 - t), far(2 - t)};
}

Resampling interpolation(const ResizeMode& mode, const ResizedAxis& axis) {
  const bool cubic = mode.kind == "cubic";
  const auto taps = static_cast<std::size_t>(cubic ? 4 : 2), places = static_cast<std::size_t>(axis.to);
  Resampling how{.places = axis.to,
                 .taps = cubic ? 4 : 2,
                 .indices = std::vector<std::int32_t>(taps * places),
                 .weights = std::vector<double>(taps * places)};
  for (std::size_t i = 0; i < places; ++i) {
    const double place = original_place(mode, axis, static_cast<std::int64_t>(i));
    const double t = place - std::floor(place);
    const std::int64_t first = static_cast<std::int64_t>(std::floor(place)) - (cubic ? 1 : 0);
    std::array<double, 4> weights{1 - t, t};
    if (cubic) weights = cubic_weights(t, mode.cubic);
    double total = 1;
    if (cubic && mode.exclude_outside) {
      total = 0;
      for (std::size_t k = 0; k < taps; ++k) {
        const std::int64_t at = first + static_cast<std::int64_t>(k);
        if (at < 0 || at >= axis.from) weights[k] = 0;
        total += weights[k];
      }
    }
    for (std::size_t k = 0; k < taps; ++k) {
      const std::int64_t at =
          std::clamp(first + static_cast<std::int64_t>(k), std::int64_t{0}, axis.from - 1);
      how.indices[k * places + i] = static_cast<std::int32_t>(at);
      how.weights[k * places + i] = weights[k] / total;
    }
  }
  return how;
}

ResizeMode read_mode(const OpCall& call, bool upsample) {
  ResizeMode mode{
      .kind = call.text("mode", "nearest"),
      .places = call.text("coordinate_transformation_mode", upsample ? "asymmetric" : "half_pixel"),
      .rounding = call.text("nearest_mode", upsample ? "floor" : "round_prefer_floor"),
      .cubic = call.number("cubic_coeff_a", -0.75F),
      .exclude_outside = call.integer("exclude_outside", 0) != 0};
  if (mode.kind != "nearest" && mode.kind != "linear" && mode.kind != "cubic")
    call.refuse("mode " + mode.kind);
  if (mode.places == "tf_crop_and_resize" || mode.places == "half_pixel_symmetric" ||
      call.integer("antialias", 0) != 0 || call.has_attribute("keep_aspect_ratio_policy")) {
    call.refuse("this way to place the samples (" + mode.places + ")");
  }
  return mode;
}

/// The axes that change.
std::vector<ResizedAxis> read_axes(const OpCall& call, const Tensor& x, bool upsample) {
  const std::size_t scale_input = upsample ? 1 : 2;
  const bool by_size = call.has(3);
  std::vector<std::int64_t> axes = call.integers("axes");
  if (axes.empty()) {
    axes.resize(static_cast<std::size_t>(x.rank()));
    std::iota(axes.begin(), axes.end(), 0);
  }
  std::vector<double> given = by_size                 ? as_doubles(call.in(3))
                              : call.has(scale_input) ? as_doubles(call.in(scale_input))
                                                      : std::vector<double>{};
  if (given.empty()) {
    for (const float f : call.attribute("scales").numbers) given.push_back(f);
  }
  INGOT_CHECK(given.size() == axes.size(),
              DimensionMismatch(call.where() + ": a scale or size for each axis"));
  std::vector<ResizedAxis> resized;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const int axis = call.axis_of(axes[i], x.rank());
    const std::int64_t from = x.dim(axis);
    const double wanted = by_size ? given[i] : std::floor(static_cast<double>(from) * given[i]);
    INGOT_CHECK(wanted >= 0 && wanted <= INT32_MAX && from <= INT32_MAX,
                DimensionMismatch(call.where() + ": no such size"));
    const double factor = by_size ? wanted / static_cast<double>(from) : given[i];
    if (wanted == static_cast<double>(from) && factor == 1) continue;
    INGOT_CHECK(from > 0, DimensionMismatch(call.where() + ": an axis has nothing to resize"));
    resized.push_back({axis, from, static_cast<std::int64_t>(wanted), factor});
  }
  return resized;
}

std::vector<Tensor> resize(const OpCall& call) {
  Tensor x = call.in(0);
  const bool upsample = call.node().op == "Upsample" || call.opset() < 11;
  const ResizeMode mode = read_mode(call, upsample);
  std::vector<ResizedAxis> axes = read_axes(call, x, upsample);
  // What makes it smaller comes first, and the innermost axis, where places lie side by side, before others.
  std::ranges::sort(axes, [](const ResizedAxis& a, const ResizedAxis& b) {
    return a.factor != b.factor ? a.factor < b.factor : a.axis > b.axis;
  });
  if (mode.kind == "nearest") return {resize_nearest(x, axes, mode)};
  for (const ResizedAxis& axis : axes) x = resample(x, axis.axis, interpolation(mode, axis));
  return {x};
}

constexpr std::array kResizeOps = {OpRow{"Resize", resize, 1}, OpRow{"Upsample", resize, 1}};

}  // namespace

std::span<const OpRow> resize_ops() { return kResizeOps; }

}  // namespace ingot::onnx
