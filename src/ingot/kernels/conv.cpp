#include "ingot/kernels/conv.h"

#include <algorithm>

#include "ingot/base/parallel.h"

namespace ingot::kernels {
namespace {

// Packed weights for `outputs` columns, and for each thread one sample with its zero padding. This is what
// the direct kernel for channels-last 1-d convolution uses; the others need none.
std::int64_t direct_scratch(std::int64_t columns, std::int64_t depth, std::int64_t padded_sample) {
  return round_up(columns, kConvPanel) * depth + num_threads() * round_up(padded_sample, 16);
}

bool is_direct(const View& x, const ConvGeometry& g, std::int64_t kernel_height) {
  return x.device.is_cpu() && g.channels_last && kernel_height == 1;
}

// A GPU cuts the sums over places of the weight and bias gradients into parts of at least this many.
constexpr std::int64_t kPartPlaces = 1024;
constexpr std::int64_t kMostParts = 32;

std::int64_t device_scratch(const ConvBackwardWeightArgs& args) {
  const std::int64_t outputs = args.dy.dim(args.geometry.channels_last ? 3 : 1);
  const std::int64_t places = outputs == 0 ? 0 : args.dy.numel() / outputs;
  const std::int64_t sums = std::max(outputs, args.dweight ? args.dweight.numel() : 0);
  return std::clamp<std::int64_t>(places / kPartPlaces, 1, kMostParts) * sums;
}

}  // namespace

std::int64_t conv_scratch(const ConvArgs& args) {
  if (!is_direct(args.x, args.geometry, args.weight.dim(2))) return 0;
  const std::int64_t c = args.x.dim(3), k = args.weight.dim(3);
  return direct_scratch(args.weight.dim(0), k * c, (args.x.dim(2) + 2 * args.geometry.padding[1]) * c);
}

std::int64_t conv_scratch(const ConvBackwardDataArgs& args) {
  if (!is_direct(args.dx, args.geometry, args.weight.dim(2))) return 0;
  const std::int64_t o = args.weight.dim(0), k = args.weight.dim(3);
  return direct_scratch(args.dx.dim(3), k * o, (args.dy.dim(2) + 2 * (k - 1)) * o);
}

std::int64_t conv_scratch(const ConvBackwardWeightArgs& args) {
  if (!args.x.device.is_cpu()) return device_scratch(args);
  if (!args.dweight || !is_direct(args.x, args.geometry, args.dweight.dim(2))) return 0;
  const std::int64_t o = args.dy.dim(3), c = round_up(args.x.dim(3), kConvPanel), k = args.dweight.dim(3);
  const std::int64_t rows = args.x.dim(2) + 2 * args.geometry.padding[1];
  // Per thread: its sum of the gradient, a packed block of x and one of dy.
  return num_threads() * (k * o * c + kConvBlock * (rows * c + args.dy.dim(2) * round_up(o + 12, 16)));
}

std::int64_t conv_scratch(const ConvPackedArgs& args) {
  if (!args.x.device.is_cpu()) return 0;
  return num_threads() * round_up((args.x.dim(1) + 2 * args.padding) * args.x.dim(2), 16);
}

}  // namespace ingot::kernels
