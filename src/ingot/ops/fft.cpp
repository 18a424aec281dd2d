#include "ingot/ops/fft.h"

#include <string>

#include "ingot/autograd/node.h"
#include "ingot/base/error.h"
#include "ingot/kernels/fft.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/common.h"
#include "ingot/ops/complex.h"

namespace ingot {
namespace {

// A series' axis, and what lies around it.
struct Lines {
  std::int64_t outer = 1, length = 0, inner = 1;
  View series(const View& v) const {
    return contiguous_view(v.data, {outer, length, inner}, v.dtype, v.device);
  }
  View spectrum(const View& v, std::int64_t bins) const {
    return contiguous_view(v.data, {2, outer, bins, inner}, v.dtype, v.device);
  }
};

// The axis `axis` of those from `first` on.
int find_axis(const char* op, const Tensor& x, int first, int axis) {
  const int at = first + normalize_axis(axis, x.rank() - first, op);
  INGOT_CHECK(x.dim(at) > 0, DimensionMismatch(std::string(op) + ": axis " + std::to_string(axis) + " of " +
                                               to_string(x.shape()) + " is empty"));
  return at;
}

Lines lines_of(const Shape& shape, int first, int axis, std::int64_t length) {
  Lines lines{.length = length};
  for (int i = first; i < axis; ++i) lines.outer *= shape[i];
  for (int i = axis + 1; i < shape.rank(); ++i) lines.inner *= shape[i];
  return lines;
}

void check_bins(const char* op, std::int64_t bins, std::int64_t n) {
  INGOT_CHECK(bins >= 1 && bins <= n / 2 + 1,
              DimensionMismatch(std::string(op) + ": " + std::to_string(n) + " values have 1 to " +
                                std::to_string(n / 2 + 1) + " frequencies, not " + std::to_string(bins)));
}

struct RealFftNode final : Node {
  static constexpr const char* kName = "rfft";
  Lines lines;
  std::int64_t bins;
  RealFftNode(const Lines& lines_, std::int64_t bins_) : lines(lines_), bins(bins_) {}
  std::string_view name() const override { return kName; }

  void backward(BackwardContext& ctx) override {
    const GradSlot dx = ctx.slot(0);
    kernels::launch(kernels::inverse_real_fft, ctx.stream(),
                    {.x = lines.spectrum(ctx.grad().view(), bins),
                     .y = lines.series(dx.view),
                     .accumulate = dx.accumulate});
  }
};

struct InverseRealFftNode final : Node {
  static constexpr const char* kName = "irfft";
  Lines lines;
  std::int64_t bins;
  InverseRealFftNode(const Lines& lines_, std::int64_t bins_) : lines(lines_), bins(bins_) {}
  std::string_view name() const override { return kName; }

  void backward(BackwardContext& ctx) override {
    const GradSlot dz = ctx.slot(0);
    kernels::launch(kernels::real_fft, ctx.stream(),
                    {.x = lines.series(ctx.grad().view()),
                     .y = lines.spectrum(dz.view, bins),
                     .edge = 1.0 / static_cast<double>(lines.length),
                     .interior = 2.0 / static_cast<double>(lines.length),
                     .accumulate = dz.accumulate});
  }
};

}  // namespace

Tensor rfft(const Tensor& input, int axis, std::int64_t bins) {
  const OpScope op_scope(RealFftNode::kName, {&input});
  const int at = find_axis(RealFftNode::kName, input, 0, axis);
  const std::int64_t n = input.dim(at);
  if (bins == 0) bins = n / 2 + 1;
  check_bins(RealFftNode::kName, bins, n);
  const Tensor x = contiguous(input);
  Tensor z = Tensor::empty(x.shape().with(at, bins).insert(0, 2), x.dtype(), x.device());
  const Lines lines = lines_of(x.shape(), 0, at, n);
  if (x.numel() > 0) {
    kernels::launch(kernels::real_fft, current_stream(x.device()),
                    {.x = lines.series(x.view()), .y = lines.spectrum(z.view(), bins)});
  }
  return record<RealFftNode>(z, {&x}, lines, bins);
}

Tensor irfft(const Tensor& input, std::int64_t n, int axis) {
  const OpScope op_scope(InverseRealFftNode::kName, {&input});
  check_complex(InverseRealFftNode::kName, input);
  const int at = find_axis(InverseRealFftNode::kName, input, 1, axis);
  const std::int64_t bins = input.dim(at);
  check_bins(InverseRealFftNode::kName, bins, n);
  const Tensor z = contiguous(input);
  Tensor x = Tensor::empty(z.shape().with(at, n).erase(0), z.dtype(), z.device());
  const Lines lines = lines_of(z.shape(), 1, at, n);
  if (x.numel() > 0) {
    kernels::launch(kernels::inverse_real_fft, current_stream(z.device()),
                    {.x = lines.spectrum(z.view(), bins),
                     .y = lines.series(x.view()),
                     .edge = 1.0 / static_cast<double>(n),
                     .interior = 2.0 / static_cast<double>(n)});
  }
  return record<InverseRealFftNode>(x, {&z}, lines, bins);
}

}  // namespace ingot
