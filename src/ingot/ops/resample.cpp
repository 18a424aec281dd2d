#include "ingot/ops/resample.h"

#include <algorithm>
#include <string>

#include "ingot/autograd/node.h"
#include "ingot/base/error.h"
#include "ingot/kernels/resample.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/common.h"

namespace ingot {
namespace {

// [outer, length, inner] of a contiguous view.
View around_axis(const View& view, int axis) {
  std::int64_t outer = 1, inner = 1;
  for (int i = 0; i < axis; ++i) outer *= view.dim(i);
  for (int i = axis + 1; i < view.rank; ++i) inner *= view.dim(i);
  return contiguous_view(view.data, {outer, view.dim(axis), inner}, view.dtype, view.device);
}

// What gradients take: to each position of the argument from the results that read it.
Resampling transposed(const Resampling& how, std::int64_t length) {
  std::vector<std::int64_t> held(static_cast<std::size_t>(length), 0);
  Resampling back{.positions = length};
  for (const std::int32_t to : how.indices)
    back.taps = std::max(back.taps, ++held[static_cast<std::size_t>(to)]);
  back.indices.resize(static_cast<std::size_t>(back.taps * length), 0);
  back.weights.resize(back.indices.size(), 0);
  std::ranges::fill(held, 0);
  for (std::size_t k = 0; k < how.indices.size(); ++k) {
    const std::int32_t to = how.indices[k];
    const auto at = static_cast<std::size_t>(held[static_cast<std::size_t>(to)]++ * length + to);
    back.indices[at] = static_cast<std::int32_t>(static_cast<std::int64_t>(k) % how.positions);
    back.weights[at] = how.weights[k];
  }
  // Taps that are left over weigh nothing; they read what the position reads anyway, or a NaN elsewhere would
  // show.
  for (std::size_t k = 0; k < back.indices.size(); ++k) {
    const std::size_t position = k % static_cast<std::size_t>(length);
    if (static_cast<std::int64_t>(k) / length >= held[position]) back.indices[k] = back.indices[position];
  }
  return back;
}

void launch(const View& x, const View& y, int axis, const Resampling& how, bool accumulate) {
  if (y.numel() == 0) return;
  const Shape shape{how.taps, how.positions};
  const Tensor indices = to(Tensor::from(how.indices, shape), x.device);
  const Tensor weights = to(to(Tensor::from(how.weights, shape), accumulator_dtype(x.dtype)), x.device);
  kernels::launch(kernels::resample, current_stream(x.device),
                  {.x = around_axis(x, axis),
                   .indices = indices.view(),
                   .weights = weights.view(),
                   .y = around_axis(y, axis),
                   .accumulate = accumulate});
}

struct ResampleNode final : Node {
  static constexpr const char* kName = "resample";
  Resampling how;
  int axis;
  ResampleNode(const Resampling& how_, int axis_) : how(how_), axis(axis_) {}
  std::string_view name() const override { return kName; }

  void backward(BackwardContext& ctx) override {
    const GradSlot dx = ctx.slot(0);
    launch(ctx.grad().view(), dx.view, axis, transposed(how, dx.view.dim(axis)), dx.accumulate);
  }
};

}  // namespace

Tensor resample(const Tensor& input, int axis, const Resampling& how) {
  const OpScope op_scope("resample", {&input});
  const int at = normalize_axis(axis, input.rank(), "resample");
  const auto size = static_cast<std::size_t>(how.taps * how.positions);
  INGOT_CHECK(
      how.taps >= 0 && how.positions >= 0 && how.indices.size() == size && how.weights.size() == size,
      DimensionMismatch("resample: " + std::to_string(how.indices.size()) + " indices and " +
                        std::to_string(how.weights.size()) + " weights for " + std::to_string(how.positions) +
                        " positions of " + std::to_string(how.taps) + " taps"));
  for (const std::int32_t index : how.indices) {
    INGOT_CHECK(index >= 0 && index < input.dim(at),
                DimensionMismatch("resample: index " + std::to_string(index) + " is outside of axis " +
                                  std::to_string(axis) + " of " + to_string(input.shape())));
  }
  const Tensor x = contiguous(input);
  Tensor y = Tensor::empty(x.shape().with(at, how.positions), x.dtype(), x.device());
  launch(x.view(), y.view(), at, how, false);
  return record<ResampleNode>(y, {&x}, how, at);
}

}  // namespace ingot
