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
  const std::vector<double> places = as_doubles(boxes), values = as_doubles(scores);
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
      const Box box = box_at(places, (static_cast<std::size_t>(batch) * count + i) * 4, centred);
      if (std::ranges::any_of(kept, [&](const Box& other) { return overlap(box, other) > threshold; }))
        continue;
      kept.push_back(box);
      chosen.insert(chosen.end(), {batch, row % scores.dim(1), static_cast<std::int64_t>(i)});
    }
  }
  return {Tensor::from(chosen, {static_cast<std::int64_t>(chosen.size()) / 3, 3})};
}

/// One axis of an image that is read at places between and beyond its pixels.
struct SampledAxis {
  std::int64_t size;
  bool align_corners;
  std::string padding;

  double low() const { return align_corners ? 0 : -0.5; }
  double high() const { return static_cast<double>(size) - (align_corners ? 1 : 0.5); }

  /// From [-1, 1] to pixels.
  double place(double x) const {
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
  /// A place beyond the image as `padding` says; zeros are left to pixel().
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

/// Weights of the pixels around a place, the first of which is `first`.
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

Values grid_sample(const OpCall& call) {
  const Tensor &x = call.in(0), &grid = call.in(1);
  if (x.rank() != 4) call.refuse(fmt::format("images of {} axes", x.rank() - 2));
  INGOT_CHECK(grid.rank() == 4 && grid.dim(3) == 2 && grid.dim(0) == x.dim(0),
              DimensionMismatch(fmt::format("{}: image {} and grid {}", call.where(), to_string(x.shape()),
                                            to_string(grid.shape()))));
  const std::string mode = call.text("mode", call.opset() < 20 ? "bilinear" : "linear");
  const bool align = call.integer("align_corners", 0) != 0;
  const std::string padding = call.text("padding_mode", "zeros");
  const SampledAxis rows{x.dim(2), align, padding}, cols{x.dim(3), align, padding};
  const std::vector<double> image = as_doubles(x), places = as_doubles(grid);
  const std::int64_t points = grid.dim(1) * grid.dim(2), channels = x.dim(1), plane = x.dim(2) * x.dim(3);
  std::vector<double> result(static_cast<std::size_t>(x.dim(0) * channels * points));
  const auto start = [&](const SampledAxis& axis, double at) {
    at = axis.place(at);
    return taps_of(mode, axis.padded(mode == "nearest" ? std::nearbyint(at) : at));
  };
  for (std::int64_t i = 0; i < x.dim(0) * points; ++i) {
    const Taps across = start(cols, places[static_cast<std::size_t>(2 * i)]),
               down = start(rows, places[static_cast<std::size_t>(2 * i + 1)]);
    for (std::size_t r = 0; r < down.weights.size(); ++r) {
      for (std::size_t c = 0; c < across.weights.size(); ++c) {
        const std::int64_t row = rows.pixel(down.first + static_cast<double>(r)),
                           col = cols.pixel(across.first + static_cast<double>(c));
        if (row < 0 || col < 0) continue;
        for (std::int64_t channel = 0; channel < channels; ++channel) {
          const std::int64_t from = (i / points * channels + channel) * plane + row * x.dim(3) + col,
                             to = (i / points * channels + channel) * points + i % points;
          result[static_cast<std::size_t>(to)] +=
              down.weights[r] * across.weights[c] * image[static_cast<std::size_t>(from)];
        }
      }
    }
  }
  return {from_doubles(result, {x.dim(0), channels, grid.dim(1), grid.dim(2)}, x.dtype())};
}

constexpr std::array kVisionOps = {OpRow{"GridSample", grid_sample},
                                   OpRow{"NonMaxSuppression", non_max_suppression}};

}  // namespace

std::span<const OpRow> vision_ops() { return kVisionOps; }

}  // namespace ingot::onnx
