#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/onnx/host.h"
#include "ingot/onnx/op.h"

// What detectors need: boxes that do not overlap, and images read between their pixels.

namespace ingot::onnx {
namespace {

struct Box {
  double top, left, bottom, right;

  double area() const { return (bottom - top) * (right - left); }
};

Box box_at(const std::vector<double>& values, std::size_t at, bool centred) {
  const double a = values[at], b = values[at + 1], c = values[at + 2], d = values[at + 3];
  if (centred) return {b - d / 2, a - c / 2, b + d / 2, a + c / 2};  // x, y, width, height
  return {std::min(a, c), std::min(b, d), std::max(a, c), std::max(b, d)};
}

double overlap(const Box& a, const Box& b) {
  const double height = std::min(a.bottom, b.bottom) - std::max(a.top, b.top);
  const double width = std::min(a.right, b.right) - std::max(a.left, b.left);
  if (height <= 0 || width <= 0) return 0;
  return height * width / (a.area() + b.area() - height * width);
}

Values non_max_suppression(const OpCall& call) {
  const Tensor &boxes = call.in(0), &scores = call.in(1);
  INGOT_CHECK(boxes.rank() == 3 && boxes.dim(2) == 4 && scores.rank() == 3 && scores.dim(0) == boxes.dim(0) &&
                  scores.dim(2) == boxes.dim(1),
              DimensionMismatch(fmt::format("{}: boxes {} and scores {}", call.where(),
                                            to_string(boxes.shape()), to_string(scores.shape()))));
  const std::int64_t limit = call.has(2) ? call.integer_in(2) : 0;
  const double threshold = call.has(3) ? call.number_in(3) : 0;
  const double least = call.has(4) ? call.number_in(4) : -std::numeric_limits<double>::infinity();
  const bool centred = call.integer("center_point_box", 0) != 0;
  const std::vector<double> positions = as_doubles(boxes), values = as_doubles(scores);
  const auto count = static_cast<std::size_t>(boxes.dim(1));
  std::vector<std::int64_t> chosen;
  for (std::int64_t row = 0; row < scores.dim(0) * scores.dim(1); ++row) {
    const std::int64_t batch = row / scores.dim(1);
    const double* score = values.data() + static_cast<std::size_t>(row) * count;
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < count; ++i) {
      if (score[i] > least) order.push_back(i);
    }
    std::ranges::stable_sort(order, [score](std::size_t a, std::size_t b) { return score[a] > score[b]; });
    std::vector<Box> kept;
    for (const std::size_t i : order) {
      if (static_cast<std::int64_t>(kept.size()) >= limit) break;
      const Box box = box_at(positions, (static_cast<std::size_t>(batch) * count + i) * 4, centred);
      if (std::ranges::any_of(kept, [&](const Box& other) { return overlap(box, other) > threshold; }))
        continue;
      kept.push_back(box);
      chosen.insert(chosen.end(), {batch, row % scores.dim(1), static_cast<std::int64_t>(i)});
    }
  }
  return {Tensor::from(chosen, {static_cast<std::int64_t>(chosen.size()) / 3, 3})};
}

/// One axis of an image that is read at positions between and beyond its pixels.
struct SampledAxis {
  std::int64_t size;
  bool align_corners;
  std::string padding;

  double low() const { return align_corners ? 0 : -0.5; }
  double high() const { return static_cast<double>(size) - (align_corners ? 1 : 0.5); }

  /// From [-1, 1] to pixels.
  double position(double x) const {
    return align_corners ? (x + 1) / 2 * static_cast<double>(size - 1)
                         : ((x + 1) * static_cast<double>(size) - 1) / 2;
  }
  double reflected(double x) const {
    const double range = high() - low();
    if (range <= 0) return 0;
    const double beyond = x < low() ? low() - x : x - high();
    if (beyond <= 0) return x;
    const double turns = std::floor(beyond / range), rest = beyond - turns * range;
    const bool from_low = (x < low()) == (std::fmod(turns, 2) == 0);
    return from_low ? low() + rest : high() - rest;
  }
  /// A position beyond the image as `padding` says; zeros are left to pixel().
  double padded(double x) const {
    if (padding == "border") return std::clamp(x, 0.0, static_cast<double>(size - 1));
    return padding == "reflection" ? reflected(x) : x;
  }
  /// The index of a pixel; -1 for one that is zero.
  std::int64_t pixel(double x) const {
    const double at =
        padding == "zeros" ? x : std::clamp(std::trunc(padded(x)), 0.0, static_cast<double>(size - 1));
    return at >= 0 && at < static_cast<double>(size) ? static_cast<std::int64_t>(at) : -1;
  }
};

/// Weights of the pixels around a position, the first of which is `first`.
struct Taps {
  double first = 0;
  std::vector<double> weights;
};

Taps taps_of(const std::string& mode, double x) {
  if (mode == "nearest") return {x, {1}};
  const double floor = std::floor(x), t = x - floor;
  if (mode == "bilinear" || mode == "linear") return {floor, {1 - t, t}};
  constexpr double kA = -0.75;  // the cubic convolution's free parameter
  const auto near = [](double d) { return ((kA + 2) * d - (kA + 3)) * d * d + 1; };
  const auto far = [](double d) { return ((kA * d - 5 * kA) * d + 8 * kA) * d - 4 * kA; };
  return {floor - 1, {far(t + 1), near(t), near(1 - t), far(2 - t)}};
}

/// A pixel of an image (of one channel) and how much of it is read.
struct WeightedPixel {
  std::int64_t at = 0;
  double weight = 1;
};

/// The pixels around a point, whose last coordinate comes first.
void read_pixels(const std::vector<SampledAxis>& axes, const std::string& mode, const double* point,
                 std::vector<WeightedPixel>& pixels) {
  pixels.assign(1, {});
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const SampledAxis& axis = axes[i];
    const double position = axis.position(point[axes.size() - 1 - i]);
    // The taps of a cubic, as in PyTorch, are those around the position itself: each is padded on its own.
    const bool cubic = mode == "bicubic" || mode == "cubic", nearest = mode == "nearest";
    const Taps taps =
        taps_of(mode, cubic ? position : axis.padded(nearest ? std::nearbyint(position) : position));
    std::vector<WeightedPixel> next;
    for (const WeightedPixel& from : pixels) {
      for (std::size_t t = 0; t < taps.weights.size(); ++t) {
        const std::int64_t pixel = axis.pixel(taps.first + static_cast<double>(t));
        if (pixel >= 0) next.push_back({from.at * axis.size + pixel, from.weight * taps.weights[t]});
      }
    }
    pixels = std::move(next);
  }
}

/// Images, volumes and signals [N, C, ...] at the points of a grid [N, ..., axes].
Values grid_sample(const OpCall& call) {
  const Tensor &x = call.in(0, 3), &grid = call.in(1);
  const std::int64_t spatial = x.rank() - 2;
  INGOT_CHECK(grid.rank() == x.rank() && grid.dim(-1) == spatial && grid.dim(0) == x.dim(0),
              DimensionMismatch(fmt::format("{}: image {} and grid {}", call.where(), to_string(x.shape()),
                                            to_string(grid.shape()))));
  const std::string mode = call.text("mode", call.opset() < 20 ? "bilinear" : "linear");
  const bool align = call.integer("align_corners", 0) != 0;
  const std::string padding = call.text("padding_mode", "zeros");
  std::vector<SampledAxis> axes;
  std::vector<std::int64_t> dims{x.dim(0), x.dim(1)};
  for (int i = 2; i < x.rank(); ++i) {
    axes.push_back({x.dim(i), align, padding});
    dims.push_back(grid.dim(i - 1));
  }
  const Shape shape = to_shape(dims);
  const std::vector<double> image = as_doubles(x), positions = as_doubles(grid);
  const std::int64_t channels = x.dim(1), points = grid.numel() == 0 ? 0 : grid.numel() / x.dim(0) / spatial,
                     plane = x.numel() == 0 ? 0 : x.numel() / x.dim(0) / channels;
  std::vector<double> result(static_cast<std::size_t>(shape.numel()));
  std::vector<WeightedPixel> pixels;
  for (std::int64_t i = 0; plane > 0 && i < x.dim(0) * points; ++i) {
    read_pixels(axes, mode, positions.data() + i * spatial, pixels);
    for (std::int64_t channel = 0; channel < channels; ++channel) {
      const std::int64_t row = i / points * channels + channel;
      double& to = result[static_cast<std::size_t>(row * points + i % points)];
      for (const WeightedPixel& pixel : pixels)
        to += pixel.weight * image[static_cast<std::size_t>(row * plane + pixel.at)];
    }
  }
  return {from_doubles(result, shape, x.dtype())};
}

constexpr std::array kVisionOps = {OpRow{"GridSample", grid_sample},
                                   OpRow{"NonMaxSuppression", non_max_suppression}};

}  // namespace

std::span<const OpRow> vision_ops() { return kVisionOps; }

}  // namespace ingot::onnx
