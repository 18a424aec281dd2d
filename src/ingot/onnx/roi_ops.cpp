#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/onnx/host.h"
#include "ingot/onnx/op.h"
#include "ingot/onnx/window.h"
#include "ingot/ops/cast.h"

// Images read between their pixels where regions, filters or a transform say.

namespace ingot::onnx {
namespace {

/// A plane of an image; what lies beyond it is zero.
struct Plane {
  const double* values = nullptr;
  std::int64_t height = 0, width = 0;

  double at(std::int64_t row, std::int64_t column) const {
    const bool inside = row >= 0 && row < height && column >= 0 && column < width;
    return inside ? values[row * width + column] : 0;
  }
  /// Between four pixels, those beyond being zero.
  double between(double y, double x) const {
    if (!(y > -1 && x > -1 && y < static_cast<double>(height) && x < static_cast<double>(width))) return 0;
    const double top = std::floor(y), left = std::floor(x), down = y - top, right = x - left;
    const auto row = static_cast<std::int64_t>(top), column = static_cast<std::int64_t>(left);
    return (1 - down) * ((1 - right) * at(row, column) + right * at(row, column + 1)) +
           down * ((1 - right) * at(row + 1, column) + right * at(row + 1, column + 1));
  }
};

/// The four weighted pixels around a point of a region; points up to a pixel beyond the edge count as on it.
std::array<double, 4> weighted_corners(const Plane& plane, double y, double x) {
  const double height = static_cast<double>(plane.height), width = static_cast<double>(plane.width);
  if (!(y >= -1 && y <= height && x >= -1 && x <= width)) return {};
  y = std::clamp(y, 0.0, height - 1);
  x = std::clamp(x, 0.0, width - 1);
  const auto row = static_cast<std::int64_t>(y), column = static_cast<std::int64_t>(x);
  const std::int64_t below = std::min(row + 1, plane.height - 1),
                     beside = std::min(column + 1, plane.width - 1);
  const double down = y - static_cast<double>(row), right = x - static_cast<double>(column);
  return {(1 - down) * (1 - right) * plane.at(row, column), (1 - down) * right * plane.at(row, beside),
          down * (1 - right) * plane.at(below, column), down * right * plane.at(below, beside)};
}

struct RoiOptions {
  std::int64_t height, width, samples;
  double scale, shift;
  bool largest;
};

RoiOptions read_roi(const OpCall& call) {
  const RoiOptions options{
      call.integer("output_height", 1),
      call.integer("output_width", 1),
      call.integer("sampling_ratio", 0),
      call.number("spatial_scale", 1),
      call.opset() >= 16 && call.text("coordinate_transformation_mode", "half_pixel") == "half_pixel" ? 0.5
                                                                                                      : 0,
      call.text("mode", "avg") == "max"};
  constexpr std::int64_t kMost = 1 << 14;
  INGOT_CHECK(
      options.height > 0 && options.height <= kMost && options.width > 0 && options.width <= kMost &&
          options.samples >= 0 && options.samples <= kMost,
      FormatError(call.where(), -1, "output_height",
                  fmt::format("{} x {} with {} samples", options.height, options.width, options.samples)));
  return options;
}

/// One cell of a region: the mean or largest of its samples.
double pooled(const Plane& plane, const RoiOptions& o, double top, double left, double height, double width,
              std::int64_t rows, std::int64_t columns) {
  double sum = 0, largest = -INFINITY;
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < columns; ++j) {
      const double y = top + (static_cast<double>(i) + 0.5) * height / static_cast<double>(rows),
                   x = left + (static_cast<double>(j) + 0.5) * width / static_cast<double>(columns);
      for (const double corner : weighted_corners(plane, y, x)) {
        sum += corner;
        largest = std::max(largest, corner);
      }
    }
  }
  if (o.largest) return std::isinf(largest) ? 0 : largest;
  return sum / static_cast<double>(std::max<std::int64_t>(rows * columns, 1));
}

Values roi_align(const OpCall& call) {
  const Tensor &x = call.in(0, 4, 4), &rois = call.in(1, 2, 2);
  const RoiOptions o = read_roi(call);
  const std::vector<std::int64_t> batches = call.integers_in(2);
  INGOT_CHECK(rois.dim(1) == 4 && static_cast<std::int64_t>(batches.size()) == rois.dim(0) && x.dim(2) > 0 &&
                  x.dim(3) > 0,
              DimensionMismatch(fmt::format("{}: image {}, regions {}", call.where(), to_string(x.shape()),
                                            to_string(rois.shape()))));
  const std::vector<double> image = as_doubles(x), regions = as_doubles(rois);
  const Shape shape = to_shape({rois.dim(0), x.dim(1), o.height, o.width});
  std::vector<double> y;
  y.reserve(static_cast<std::size_t>(shape.numel()));
  for (std::size_t n = 0; n < batches.size(); ++n) {
    INGOT_CHECK(batches[n] >= 0 && batches[n] < x.dim(0),
                DimensionMismatch(fmt::format("{}: image {} of {}", call.where(), batches[n], x.dim(0))));
    const auto edge = [&](std::size_t i) { return regions[n * 4 + i] * o.scale - o.shift; };
    double width = edge(2) - edge(0), height = edge(3) - edge(1);
    if (o.shift == 0) width = std::max(width, 1.0), height = std::max(height, 1.0);
    const double cell_height = height / static_cast<double>(o.height),
                 cell_width = width / static_cast<double>(o.width);
    constexpr double kMostSamples = 1 << 14;
    const auto samples = [&](double size) {
      INGOT_CHECK(size < kMostSamples, DimensionMismatch(call.where() + ": a region is too large to sample"));
      return o.samples > 0 ? o.samples
                           : std::max<std::int64_t>(0, static_cast<std::int64_t>(std::ceil(size)));
    };
    const std::int64_t rows = samples(cell_height), columns = samples(cell_width);
    for (std::int64_t c = 0; c < x.dim(1); ++c) {
      const Plane plane{image.data() + (batches[n] * x.dim(1) + c) * x.dim(2) * x.dim(3), x.dim(2), x.dim(3)};
      for (std::int64_t i = 0; i < o.height; ++i) {
        for (std::int64_t j = 0; j < o.width; ++j) {
          y.push_back(pooled(plane, o, edge(1) + static_cast<double>(i) * cell_height,
                             edge(0) + static_cast<double>(j) * cell_width, cell_height, cell_width, rows,
                             columns));
        }
      }
    }
  }
  return {from_doubles(y, shape, x.dtype())};
}

/// A convolution whose every tap is read at an offset of its own, times a factor.
struct DeformedTaps {
  std::vector<double> offsets, factors;
  std::int64_t groups = 1, taps = 0, positions = 0;

  const double* offset(std::int64_t n, std::int64_t group, std::int64_t tap) const {
    return offsets.data() + ((n * groups + group) * taps + tap) * 2 * positions;
  }
  double factor(std::int64_t n, std::int64_t group, std::int64_t tap, std::int64_t position) const {
    if (factors.empty()) return 1;
    return factors[static_cast<std::size_t>(((n * groups + group) * taps + tap) * positions + position)];
  }
};

Values deformed_convolution(const OpCall& call) {
  const Tensor &x = call.in(0), &weight = call.in(1), &offset = call.in(2);
  if (x.rank() != 4) call.refuse(fmt::format("images of {} axes", x.rank() - 2));
  INGOT_CHECK(weight.rank() == 4 && offset.rank() == 4,
              DimensionMismatch(call.where() + ": ranks of weight and offset"));
  const std::int64_t rows = weight.dim(2), columns = weight.dim(3), groups = call.integer("group", 1);
  const Window w = read_window(call, x.shape(), {rows, columns});
  DeformedTaps taps{as_doubles(offset), call.has(4) ? as_doubles(call.in(4)) : std::vector<double>{},
                    call.integer("offset_group", 1), rows * columns, offset.dim(2) * offset.dim(3)};
  const std::int64_t batch = x.dim(0), channels = x.dim(1), outputs = weight.dim(0),
                     out_width = offset.dim(3);
  INGOT_CHECK(
      groups > 0 && taps.groups > 0 && channels == weight.dim(1) * groups && outputs % groups == 0 &&
          channels % taps.groups == 0 && offset.dim(0) == batch &&
          offset.dim(1) == taps.groups * taps.taps * 2 &&
          (taps.factors.empty() ||
           call.in(4).shape() == Shape({batch, taps.groups * taps.taps, offset.dim(2), out_width})),
      DimensionMismatch(fmt::format("{}: image {}, weight {}, offset {}", call.where(), to_string(x.shape()),
                                    to_string(weight.shape()), to_string(offset.shape()))));
  const std::vector<double> image = as_doubles(x), filters = as_doubles(weight);
  const std::vector<double> bias = call.has(3) ? as_doubles(call.in(3, 1, 1)) : std::vector<double>{};
  INGOT_CHECK(bias.empty() || static_cast<std::int64_t>(bias.size()) == outputs,
              DimensionMismatch(call.where() + ": one bias for each output channel"));
  const Shape shape = to_shape({batch, outputs, offset.dim(2), out_width});
  std::vector<double> y(static_cast<std::size_t>(shape.numel()), 0);
  const std::int64_t each = weight.dim(1), group_outputs = outputs / groups;
  for (std::int64_t n = 0; n < batch; ++n) {
    for (std::int64_t c = 0; c < channels; ++c) {
      const Plane plane{image.data() + (n * channels + c) * x.dim(2) * x.dim(3), x.dim(2), x.dim(3)};
      const std::int64_t group = c / (channels / taps.groups), filter_group = c / each;
      for (std::int64_t tap = 0; tap < taps.taps; ++tap) {
        const double* moved = taps.offset(n, group, tap);
        for (std::int64_t position = 0; position < taps.positions; ++position) {
          const std::int64_t row = position / out_width * w.strides[0] - w.begin[0] +
                                   tap / columns * w.dilations[0],
                             column = position % out_width * w.strides[1] - w.begin[1] +
                                      tap % columns * w.dilations[1];
          const double top = static_cast<double>(row), left = static_cast<double>(column);
          const double value = taps.factor(n, group, tap, position) *
                               plane.between(top + moved[position], left + moved[taps.positions + position]);
          for (std::int64_t o = 0; value != 0 && o < group_outputs; ++o) {
            const std::int64_t output = filter_group * group_outputs + o;
            y[static_cast<std::size_t>((n * outputs + output) * taps.positions + position)] +=
                value * filters[static_cast<std::size_t>((output * each + c % each) * taps.taps + tap)];
          }
        }
      }
    }
  }
  for (std::size_t i = 0; !bias.empty() && i < y.size(); ++i)
    y[i] += bias[i / static_cast<std::size_t>(taps.positions) % bias.size()];
  return {from_doubles(y, shape, x.dtype())};
}

/// Points in [-1, 1] of an image's axes, moved by a matrix [N, d, d + 1]: [N, ..., d], x first.
Values affine_grid(const OpCall& call) {
  const Tensor& theta = call.in(0, 3, 3);
  const std::vector<std::int64_t> size = call.integers_in(1);
  const std::int64_t axes = theta.dim(1);
  INGOT_CHECK((axes == 2 || axes == 3) && theta.dim(2) == axes + 1 &&
                  static_cast<std::int64_t>(size.size()) == axes + 2 && size[0] == theta.dim(0),
              DimensionMismatch(fmt::format("{}: matrices {} for an image of {} axes", call.where(),
                                            to_string(theta.shape()), size.size())));
  const bool align = call.integer("align_corners", 0) != 0;
  std::vector<std::int64_t> dims{size[0]};
  dims.insert(dims.end(), size.begin() + 2, size.end());
  dims.push_back(axes);
  const Shape shape = to_shape(dims);
  const std::int64_t points = size[0] == 0 ? 0 : shape.numel() / (size[0] * axes);
  const std::vector<double> matrices = as_doubles(theta);
  std::vector<double> grid;
  grid.reserve(static_cast<std::size_t>(shape.numel()));
  for (std::int64_t n = 0; n < size[0]; ++n) {
    for (std::int64_t point = 0; point < points; ++point) {
      std::array<double, 4> position{1, 1, 1, 1};
      std::int64_t rest = point;
      for (std::int64_t axis = 0; axis < axes; ++axis) {  // x is the last of the image's axes
        const std::int64_t length = size[static_cast<std::size_t>(axes + 1 - axis)], at = rest % length;
        rest /= length;
        position[static_cast<std::size_t>(axis)] =
            align ? (length == 1 ? -1 : 2 * static_cast<double>(at) / static_cast<double>(length - 1) - 1)
                  : (2 * static_cast<double>(at) + 1) / static_cast<double>(length) - 1;
      }
      position[static_cast<std::size_t>(axes)] = 1;
      for (std::int64_t row = 0; row < axes; ++row) {
        double sum = 0;
        for (std::int64_t k = 0; k <= axes; ++k)
          sum += matrices[static_cast<std::size_t>((n * axes + row) * (axes + 1) + k)] *
                 position[static_cast<std::size_t>(k)];
        grid.push_back(sum);
      }
    }
  }
  return {from_doubles(grid, shape, theta.dtype())};
}

constexpr std::array kRoiOps = {OpRow{"AffineGrid", affine_grid}, OpRow{"DeformConv", deformed_convolution},
                                OpRow{"RoiAlign", roi_align}};

}  // namespace

std::span<const OpRow> roi_ops() { return kRoiOps; }

}  // namespace ingot::onnx
