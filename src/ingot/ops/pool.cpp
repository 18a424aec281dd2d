#include "ingot/ops/pool.h"

#include <string>

#include "ingot/autograd/node.h"
#include "ingot/base/error.h"
#include "ingot/base/parallel.h"
#include "ingot/core/checked.h"
#include "ingot/kernels/pool.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/common.h"

namespace ingot {
namespace {

using kernels::ConvGeometry;
using kernels::PoolMode;

struct PoolOptions {
  std::array<std::int64_t, 2> window{1, 1}, padding_end{0, 0};
  ConvGeometry geometry;
  PoolMode mode = PoolMode::max;
  bool adaptive = false, ceil = false;
};

// Signals and images as [N, C, H, W] or [N, H, W, C]: the kernel's shape of a tensor.
Shape four_axes(const Shape& s, bool last) {
  if (s.rank() == 4) return s;
  if (s.rank() == 3) return s.insert(last ? 1 : 2, 1);
  return last ? Shape{s[0], 1, 1, s[1]} : Shape{s[0], s[1], 1, 1};
}
View four_axes(const View& v, const Shape& shape, bool last) {
  return v ? contiguous_view(v.data, four_axes(shape, last), v.dtype, v.device) : v;
}

struct PoolNode final : Node {
  static constexpr const char* kName = "pool";
  SavedTensor index;
  Shape in, out;
  PoolOptions options;
  PoolNode(const Tensor& index_, const Shape& in_, const Shape& out_, const PoolOptions& options_)
      : in(in_), out(out_), options(options_) {
    if (index_.defined()) index = SavedTensor(index_);
  }
  std::string_view name() const override { return kName; }
  std::vector<SavedTensor*> saved() override {
    if (options.mode == PoolMode::max) return {&index};
    return {};
  }

  void backward(BackwardContext& ctx) override {
    const GradSlot dx = ctx.slot(0);
    if (!dx) return;
    const bool last = options.geometry.channels_last;
    const Tensor& dy = ctx.grad();
    const std::int64_t sample = in[0] > 0 ? in.numel() / in[0] : 0;
    const Tensor scratch = Tensor::empty({num_threads(), sample}, accumulator_dtype(dy.dtype()), dy.device());
    kernels::launch(kernels::pool_backward, ctx.stream(),
                    {.dy = four_axes(dy.view(), out, last),
                     .index = options.mode == PoolMode::max ? index.view() : View{},
                     .dx = four_axes(dx.view, in, last),
                     .scratch = scratch.view(),
                     .window = options.window,
                     .padding_end = options.padding_end,
                     .geometry = options.geometry,
                     .mode = options.mode,
                     .adaptive = options.adaptive,
                     .accumulate = dx.accumulate});
  }
};

// `out` has as many axes as the result shall have.
Tensor run_pool(const Tensor& x, const Shape& out, const PoolOptions& options) {
  const bool last = options.geometry.channels_last;
  Tensor y = Tensor::empty(out, x.dtype(), x.device());
  Tensor index;
  if (options.mode == PoolMode::max && needs_grad({&x})) index = Tensor::empty(out, DType::i32, x.device());
  kernels::launch(kernels::pool, current_stream(x.device()),
                  {.x = four_axes(x.view(), x.shape(), last),
                   .y = four_axes(y.view(), out, last),
                   .index = index.view(),
                   .window = options.window,
                   .padding_end = options.padding_end,
                   .geometry = options.geometry,
                   .mode = options.mode,
                   .adaptive = options.adaptive});
  return record<PoolNode>(y, {&x}, index, x.shape(), out, options);
}

void check_rank(const char* op, const Tensor& x, int dims) {
  check_defined(op, {&x});
  INGOT_CHECK(x.rank() == dims + 2,
              DimensionMismatch(std::string(op) + ": the input must have rank " + std::to_string(dims + 2) +
                                ", got " + to_string(x.shape())));
}

Tensor windows(const char* op, const Tensor& input, PoolOptions options, int dims) {
  const Scope scope(ScopeKind::op, op);
  check_rank(op, input, dims);
  ConvGeometry& g = options.geometry;
  const Tensor x = contiguous(input);
  Shape out = x.shape();
  for (int i = 0; i < dims; ++i) {
    const auto axis = static_cast<std::size_t>(i + 2 - dims);
    const int at = i + (g.channels_last ? 1 : 2);
    const std::int64_t window = options.window[axis];
    if (g.stride[axis] == 0) g.stride[axis] = window;
    std::int64_t& end = options.padding_end[axis];
    if (end < 0) end = g.padding[axis];
    const std::int64_t reach =
        checked_add(checked_mul(g.dilation[axis], checked_sub(window, 1, op), op), 1, op);
    INGOT_CHECK(
        window >= 1 && g.stride[axis] >= 1 && g.dilation[axis] >= 1 && g.padding[axis] >= 0 &&
            g.padding[axis] < reach && end < reach,
        InvalidConfig(op,
                      "window, stride and dilation must be at least 1 and padding less than the window "
                      "reaches over, got " +
                          std::to_string(window) + ", " + std::to_string(g.stride[axis]) + ", " +
                          std::to_string(g.dilation[axis]) + " and " + std::to_string(g.padding[axis]) +
                          " before, " + std::to_string(end) + " after"));
    const std::int64_t inside = checked_add(x.dim(at), g.padding[axis], op),
                       padded = checked_add(inside, end, op);
    INGOT_CHECK(padded >= reach,
                DimensionMismatch(std::string(op) + ": a window over " + std::to_string(reach) +
                                  " does not fit into a padded input of " + std::to_string(padded)));
    const std::int64_t rest = (padded - reach) % g.stride[axis];
    out[at] = (padded - reach) / g.stride[axis] + 1;
    if (options.ceil && rest > 0 && checked_mul(out[at], g.stride[axis], op) < inside) ++out[at];
  }
  return run_pool(x, out, options);
}

PoolOptions from(const Pool1dOptions& o, PoolMode mode) {
  return {.window = {1, o.window},
          .padding_end = {0, o.padding_end},
          .geometry = {.stride = {1, o.stride},
                       .padding = {0, o.padding},
                       .dilation = {1, o.dilation},
                       .channels_last = o.layout == ChannelLayout::last},
          .mode = mode,
          .ceil = o.ceil};
}
PoolOptions from(const Pool2dOptions& o, PoolMode mode) {
  return {.window = o.window,
          .padding_end = o.padding_end,
          .geometry = {.stride = o.stride,
                       .padding = o.padding,
                       .dilation = o.dilation,
                       .channels_last = o.layout == ChannelLayout::last},
          .mode = mode,
          .ceil = o.ceil};
}
PoolMode average(bool count_padding) { return count_padding ? PoolMode::average : PoolMode::average_inside; }

Tensor adaptive(const char* op, const Tensor& input, std::array<std::int64_t, 2> size, ChannelLayout layout,
                int dims) {
  check_rank(op, input, dims);
  const Tensor x = contiguous(input);
  Shape out = x.shape();
  for (int i = 0; i < dims; ++i) {
    const int at = i + (layout == ChannelLayout::last ? 1 : 2);
    out[at] = size[static_cast<std::size_t>(i + 2 - dims)];
    INGOT_CHECK(out[at] >= 1 && x.dim(at) >= 1,
                DimensionMismatch(std::string(op) + ": cannot divide " + std::to_string(x.dim(at)) +
                                  " positions into " + std::to_string(out[at]) + " windows"));
  }
  return run_pool(x, out,
                  {.geometry = {.channels_last = layout == ChannelLayout::last},
                   .mode = PoolMode::average,
                   .adaptive = true});
}

}  // namespace

Tensor max_pool1d(const Tensor& x, const Pool1dOptions& o) {
  return windows("max_pool1d", x, from(o, PoolMode::max), 1);
}
Tensor max_pool2d(const Tensor& x, const Pool2dOptions& o) {
  return windows("max_pool2d", x, from(o, PoolMode::max), 2);
}
Tensor avg_pool1d(const Tensor& x, const Pool1dOptions& o) {
  return windows("avg_pool1d", x, from(o, average(o.count_padding)), 1);
}
Tensor avg_pool2d(const Tensor& x, const Pool2dOptions& o) {
  return windows("avg_pool2d", x, from(o, average(o.count_padding)), 2);
}

Tensor adaptive_avg_pool1d(const Tensor& x, std::int64_t size, ChannelLayout layout) {
  return adaptive("adaptive_avg_pool1d", x, {1, size}, layout, 1);
}
Tensor adaptive_avg_pool2d(const Tensor& x, std::array<std::int64_t, 2> size, ChannelLayout layout) {
  return adaptive("adaptive_avg_pool2d", x, size, layout, 2);
}

Tensor global_avg_pool(const Tensor& input, ChannelLayout layout) {
  const OpScope op_scope("global_avg_pool", {&input});
  const bool last = layout == ChannelLayout::last;
  INGOT_CHECK((input.rank() == 3 || input.rank() == 4) && input.numel() > 0,
              DimensionMismatch("global_avg_pool: the input must be a batch of signals or images, got " +
                                to_string(input.shape())));
  const Tensor x = contiguous(input);
  return run_pool(x, {x.dim(0), x.dim(last ? -1 : 1)},
                  {.geometry = {.channels_last = last}, .mode = PoolMode::average, .adaptive = true});
}

}  // namespace ingot
