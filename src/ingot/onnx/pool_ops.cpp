#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/core/checked.h"
#include "ingot/onnx/host.h"
#include "ingot/onnx/op.h"
#include "ingot/onnx/rearrange.h"
#include "ingot/onnx/window.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/pool.h"
#include "ingot/ops/reduce.h"
#include "ingot/ops/view.h"

// Pooling.

namespace ingot::onnx {

std::vector<std::int64_t> read_window_numbers(const OpCall& call, const char* name, std::size_t count,
                                              std::int64_t fallback, std::int64_t least) {
  std::vector<std::int64_t> numbers = call.integers(name, std::vector<std::int64_t>(count, fallback));
  INGOT_CHECK(numbers.size() == count,
              FormatError(call.where(), -1, name,
                          fmt::format("has {} numbers, but the input needs {}", numbers.size(), count)));
  for (const std::int64_t n : numbers) {
    INGOT_CHECK(n >= least && n <= kMaxWindow,
                FormatError(call.where(), -1, name,
                            fmt::format("is {}, expected from {} to {}", n, least, kMaxWindow)));
  }
  return numbers;
}

Window read_window(const OpCall& call, const Shape& x, const std::vector<std::int64_t>& kernel, bool ceil) {
  const std::size_t axes = kernel.size();
  INGOT_CHECK(x.rank() == static_cast<int>(axes) + 2,
              FormatError(call.where(), -1, "kernel_shape",
                          fmt::format("has {} axes, but the input is {}", axes, to_string(x))));
  Window w{.kernel = kernel,
           .strides = read_window_numbers(call, "strides", axes, 1, 1),
           .dilations = read_window_numbers(call, "dilations", axes, 1, 1)};
  const std::vector<std::int64_t> pads = read_window_numbers(call, "pads", 2 * axes, 0, 0);
  const std::string automatic = call.text("auto_pad", "NOTSET");
  for (std::size_t i = 0; i < axes; ++i) {
    INGOT_CHECK(kernel[i] > 0 && kernel[i] <= kMaxWindow,
                FormatError(call.where(), -1, "kernel_shape",
                            fmt::format("is {}, expected from 1 to {}", kernel[i], kMaxWindow)));
    const std::int64_t size = x[static_cast<int>(i) + 2], reach = (kernel[i] - 1) * w.dilations[i] + 1;
    std::int64_t begin = pads[i], end = pads[i + axes];
    if (automatic.starts_with("SAME")) {
      const std::int64_t outputs = (size + w.strides[i] - 1) / w.strides[i];
      const std::int64_t total = std::max<std::int64_t>(0, (outputs - 1) * w.strides[i] + reach - size);
      begin = automatic == "SAME_LOWER" ? total - total / 2 : total / 2;
      end = total - begin;
    } else if (automatic == "VALID") {
      begin = end = 0;
    }
    w.begin.push_back(begin);
    const std::int64_t rest = (size + begin + end - reach) % w.strides[i];
    w.end.push_back(ceil && rest > 0 ? end + w.strides[i] - rest : end);
  }
  return w;
}

Tensor pad_spatial(const Tensor& x, const Window& w, double value) {
  Padding padding{{0, 0}, {0, 0}};
  padding.before.insert(padding.before.end(), w.begin.begin(), w.begin.end());
  padding.after.insert(padding.after.end(), w.end.begin(), w.end.end());
  const auto is_zero = [](std::int64_t n) { return n == 0; };
  if (std::ranges::all_of(padding.before, is_zero) && std::ranges::all_of(padding.after, is_zero)) return x;
  return pad_with(x, padding, to(Tensor::from(std::vector<double>{value}, {1}), x.dtype()));
}

namespace {

/// A pool over any number of spatial axes: over the last two, then over one after the other. Largest values
/// and means come out the same, and so does what a mean counts.
template <class Pool>
Tensor pool_windows(const OpCall& call, Tensor x, bool count_padding, Pool pool) {
  const Window w = read_window(call, x.shape(), call.integers("kernel_shape"));
  const std::size_t axes = w.kernel.size();
  INGOT_CHECK(axes > 0, FormatError(call.where(), -1, "kernel_shape", "is missing"));
  const auto options_of = [&](std::size_t row, std::size_t column) {  // `axes`: no axis, one position
    const auto pair = [&](const std::vector<std::int64_t>& v, std::int64_t none) {
      return std::array{row < axes ? v[row] : none, column < axes ? v[column] : none};
    };
    return Pool2dOptions{.window = pair(w.kernel, 1),
                         .stride = pair(w.strides, 1),
                         .padding = pair(w.begin, 0),
                         .dilation = pair(w.dilations, 1),
                         .count_padding = count_padding,
                         .padding_end = pair(w.end, 0),
                         .ceil = call.integer("ceil_mode", 0) != 0};
  };
  std::vector<std::int64_t> dims = x.shape().to_vector();
  // The axes [axis, after) as the rows and columns of maps; those before are maps of their own.
  const auto maps = [&](const Tensor& t, std::size_t axis, std::size_t after) {
    const auto product = [&](std::size_t from, std::size_t to) {
      std::int64_t n = 1;
      for (std::size_t i = from; i < to; ++i) n *= dims[i];
      return n;
    };
    return reshape(t, Shape{dims[0], product(1, axis), product(axis, after), product(after, dims.size())});
  };
  const std::size_t last = dims.size() - 1, front = axes < 2 ? 0 : axes - 2;
  x = pool(maps(x, axes < 2 ? 2 : last - 1, axes < 2 ? 2 : last),
           axes < 2 ? options_of(axes, 0) : options_of(front, front + 1));
  if (axes >= 2) dims[last - 1] = x.dim(2);
  dims[last] = x.dim(3);
  for (std::size_t axis = front; axis-- > 0;) {
    x = pool(maps(x, axis + 2, axis + 3), options_of(axis, axes));
    dims[axis + 2] = x.dim(2);
  }
  return reshape(x, to_shape(dims));
}

/// Counts through positions of `sizes`, the last axis fastest; false after the last one.
bool next_position(std::vector<std::int64_t>& position, const std::vector<std::int64_t>& sizes) {
  for (std::size_t i = position.size(); i-- > 0;) {
    if (++position[i] < sizes[i]) return true;
    position[i] = 0;
  }
  return false;
}

/// What max_pool gives and, in the second output, where in x that stands: in plain loops.
Values max_pool_with_indices(const OpCall& call) {
  const Tensor& x = call.in(0, 3);
  const Window w =
      read_window(call, x.shape(), call.integers("kernel_shape"), call.integer("ceil_mode", 0) != 0);
  const std::vector<std::int64_t> sizes(x.dims().begin() + 2, x.dims().end());
  const std::size_t axes = sizes.size();
  std::vector<std::int64_t> outputs(axes), strides(axes, 1);  // strides: of an index
  std::int64_t plane = 1;
  const std::int64_t order = call.integer("storage_order", 0);
  INGOT_CHECK(order == 0 || order == 1,
              FormatError(call.where(), -1, "storage_order", fmt::format("is {}; expected 0 or 1", order)));
  const bool column_major = order == 1;
  for (std::size_t i = 0; i < axes; ++i) {
    const std::size_t axis = column_major ? i : axes - 1 - i;
    strides[axis] = plane;
    plane *= sizes[axis];
    const std::int64_t reach = (w.kernel[i] - 1) * w.dilations[i] + 1;
    outputs[i] = (sizes[i] + w.begin[i] + w.end[i] - reach) / w.strides[i] + 1;
    INGOT_CHECK(outputs[i] > 0, DimensionMismatch(call.where() + ": the window is larger than the input"));
  }
  const std::vector<std::int64_t> steps = strides_of(x.shape());
  const std::vector<double> values = as_doubles(x);
  std::vector<double> largest;
  std::vector<std::int64_t> positions;
  for (std::int64_t row = 0; row < x.dim(0) * x.dim(1); ++row) {
    std::vector<std::int64_t> out(axes, 0);
    do {
      double best = -std::numeric_limits<double>::infinity();
      std::int64_t where = 0;
      std::vector<std::int64_t> in(axes, 0);
      do {
        std::int64_t at = row * plane, index = row * plane;
        bool inside = true;
        for (std::size_t i = 0; i < axes; ++i) {
          const std::int64_t position = out[i] * w.strides[i] - w.begin[i] + in[i] * w.dilations[i];
          inside = inside && position >= 0 && position < sizes[i];
          at += position * steps[i + 2];
          index += position * strides[i];
        }
        if (!inside || values[static_cast<std::size_t>(at)] <= best) continue;
        best = values[static_cast<std::size_t>(at)];
        where = index;
      } while (next_position(in, w.kernel));
      largest.push_back(best);
      positions.push_back(where);
    } while (next_position(out, outputs));
  }
  std::vector<std::int64_t> dims = x.shape().to_vector();
  std::ranges::copy(outputs, dims.begin() + 2);
  return {from_doubles(largest, to_shape(dims), x.dtype()),
          from_integers(positions, to_shape(dims), DType::i64)};
}

/// Puts what max_pool took back to where it stood, among zeros. With an output_shape the positions are those
/// of the smaller default shape.
Values max_unpool(const OpCall& call) {
  const Tensor& x = call.in(0, 3);
  const Window w = read_window(call, x.shape(), call.integers("kernel_shape"));
  std::vector<std::int64_t> dims = x.shape().to_vector();
  for (std::size_t i = 0; i < w.kernel.size(); ++i)
    dims[i + 2] =
        checked_mul(dims[i + 2] - 1, w.strides[i], "MaxUnpool") + w.kernel[i] - w.begin[i] - w.end[i];
  const std::vector<std::int64_t> inner = dims;
  if (call.has(2)) dims = call.integers_in(2);
  bool fits = dims.size() == inner.size();
  for (std::size_t i = 0; fits && i < dims.size(); ++i) fits = inner[i] >= 0 && dims[i] >= inner[i];
  INGOT_CHECK(fits,
              DimensionMismatch(call.where() + ": output_shape is smaller than what the windows cover"));
  const Shape shape = to_shape(dims);
  const std::vector<std::int64_t> from = strides_of(to_shape(inner)), to_strides = strides_of(shape),
                                  positions = as_integers(call.in(1));
  const std::vector<double> values = as_doubles(x);
  INGOT_CHECK(positions.size() == values.size(),
              DimensionMismatch(call.where() + ": an index for each value"));
  std::vector<double> result(static_cast<std::size_t>(shape.numel()));
  const std::int64_t count = to_shape(inner).numel();
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::int64_t rest = positions[i], at = 0;
    INGOT_CHECK(rest >= 0 && rest < count,
                Error(call.where() + ": index " + std::to_string(rest) + " is outside of the result"));
    for (std::size_t axis = 0; axis < from.size(); ++axis) {
      at += rest / from[axis] * to_strides[axis];
      rest %= from[axis];
    }
    result[static_cast<std::size_t>(at)] = values[i];
  }
  return {from_doubles(result, shape, x.dtype())};
}

Values max_pool(const OpCall& call) {
  if (call.output_count() > 1) return max_pool_with_indices(call);
  const DType dtype = call.in(0).dtype();
  const Tensor x = is_floating_point(dtype) ? call.in(0) : to(call.in(0), DType::f32);
  return {to(pool_windows(call, x, false, max_pool2d), dtype)};
}

Values average_pool(const OpCall& call) {
  return {pool_windows(call, call.in(0), call.integer("count_include_pad", 0) != 0, avg_pool2d)};
}

/// The norm of each window: padding counts as zero, so sums are means with it times their number.
Values lp_pool(const OpCall& call) {
  const Tensor& x = call.in(0, 3);
  const auto p = static_cast<double>(call.integer("p", 2));
  INGOT_CHECK(p > 0, FormatError(call.where(), -1, "p", fmt::format("is {}", p)));
  double cells = 1;
  for (const std::int64_t size : call.integers("kernel_shape")) cells *= static_cast<double>(size);
  const auto raised = [](const Tensor& t, double power) { return power == 1 ? t : pow(t, power); };
  const Tensor means = pool_windows(call, raised(abs(x), p), true, avg_pool2d);
  return {raised(scale(means, cells), 1 / p)};
}

Values global_lp_pool(const OpCall& call) {
  const Tensor& x = call.in(0, 2);
  const auto p = static_cast<double>(call.integer("p", 2));
  INGOT_CHECK(p > 0, FormatError(call.where(), -1, "p", fmt::format("is {}", p)));
  Axes axes;
  for (int i = 2; i < x.rank(); ++i) axes.push_back(i);
  return {axes.empty() ? abs(x) : pow(sum(pow(abs(x), p), axes, true), 1 / p)};
}

/// Columns of windows [N, C * window, positions] added up where the windows lay in the image.
Values columns_to_image(const OpCall& call) {
  const Tensor& x = call.in(0, 3, 3);
  const std::vector<std::int64_t> image = call.integers_in(1), window = call.integers_in(2);
  const std::size_t axes = image.size();
  INGOT_CHECK(axes > 0 && axes + 2 <= kMaxRank && window.size() == axes,
              DimensionMismatch(call.where() + ": an image and a window of as many axes"));
  const std::vector<std::int64_t> strides = read_window_numbers(call, "strides", axes, 1, 1),
                                  dilations = read_window_numbers(call, "dilations", axes, 1, 1),
                                  pads = read_window_numbers(call, "pads", 2 * axes, 0, 0);
  std::int64_t taps = 1, count = 1;
  std::vector<std::int64_t> positions;
  for (std::size_t i = 0; i < axes; ++i) {
    INGOT_CHECK(window[i] > 0 && window[i] <= kMaxWindow && image[i] > 0 && image[i] <= kMaxWindow,
                DimensionMismatch(call.where() + ": an image or window without positions"));
    const std::int64_t reach = checked_mul(window[i] - 1, dilations[i], "Col2Im") + 1;
    positions.push_back((image[i] + pads[i] + pads[i + axes] - reach) / strides[i] + 1);
    INGOT_CHECK(positions.back() > 0,
                DimensionMismatch(call.where() + ": the window is larger than the image"));
    taps = checked_mul(taps, window[i], "Col2Im");
    count = checked_mul(count, positions.back(), "Col2Im");
  }
  INGOT_CHECK(x.dim(1) % taps == 0 && x.dim(2) == count,
              DimensionMismatch(fmt::format("{}: columns {}, expected {} values at {} positions",
                                            call.where(), to_string(x.shape()), taps, count)));
  std::vector<std::int64_t> dims{x.dim(0), x.dim(1) / taps};
  dims.insert(dims.end(), image.begin(), image.end());
  const Shape shape = to_shape(dims);
  const std::vector<std::int64_t> steps = strides_of(to_shape(image));
  std::vector<double> result(static_cast<std::size_t>(shape.numel()), 0);
  const std::vector<double> values = as_doubles(x);
  const std::int64_t plane = to_shape(image).numel();
  std::vector<std::int64_t> tap(axes, 0);
  for (std::int64_t t = 0; t < taps; ++t, next_position(tap, window)) {
    std::vector<std::int64_t> position(axes, 0);
    for (std::int64_t p = 0; p < count; ++p, next_position(position, positions)) {
      std::int64_t at = 0;
      bool inside = true;
      for (std::size_t i = 0; i < axes; ++i) {
        const std::int64_t where = position[i] * strides[i] + tap[i] * dilations[i] - pads[i];
        inside = inside && where >= 0 && where < image[i];
        at += where * steps[i];
      }
      for (std::int64_t map = 0; inside && map < dims[0] * dims[1]; ++map)
        result[static_cast<std::size_t>(map * plane + at)] +=
            values[static_cast<std::size_t>((map * taps + t) * count + p)];
    }
  }
  return {from_doubles(result, shape, x.dtype())};
}

template <Tensor (*reduce)(const Tensor&, const Axes&, bool)>
Values global_pool(const OpCall& call) {
  Axes axes;
  for (int i = 2; i < call.in(0, 2).rank(); ++i) axes.push_back(i);
  return {axes.empty() ? call.in(0) : reduce(call.in(0), axes, true)};
}

constexpr std::array kPoolOps = {OpRow{"AveragePool", average_pool, 1},
                                 OpRow{"Col2Im", columns_to_image},
                                 OpRow{"GlobalLpPool", global_lp_pool, 1},
                                 OpRow{"LpPool", lp_pool, 1},
                                 OpRow{"GlobalAveragePool", global_pool<mean>, 1},
                                 OpRow{"GlobalMaxPool", global_pool<max>, 1},
                                 OpRow{"MaxPool", max_pool, 1},
                                 OpRow{"MaxUnpool", max_unpool}};

}  // namespace

std::span<const OpRow> pool_ops() { return kPoolOps; }

}  // namespace ingot::onnx
