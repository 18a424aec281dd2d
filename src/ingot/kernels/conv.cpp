#include "ingot/kernels/conv.h"

#include <algorithm>

#include "ingot/base/parallel.h"

namespace ingot::kernels {
namespace {

// For each thread a group of samples with their zero padding.
std::int64_t group_scratch(std::int64_t padded_sample) {
  return num_threads() * kConvGroup * round_up(padded_sample, 16);
}

// Those, and packed weights for `columns` outputs. This is what the direct kernel for channels-last 1-d
// convolution uses; the others need none.
std::int64_t direct_scratch(std::int64_t columns, std::int64_t depth, std::int64_t padded_sample) {
  return round_up(columns, kConvPanel) * depth + group_scratch(padded_sample);
}

// For three taps, Winograd's algorithm: weights of four positions, a row of zeros, and for each thread the
// positions of a group of samples with a panel of their results.
std::int64_t winograd_scratch(std::int64_t columns, std::int64_t channels, std::int64_t out_width) {
  const std::int64_t rows = kConvGroup * ((out_width + 1) / 2);
  return 4 * round_up(columns, kConvPanel) * channels + round_up(channels, 16) +
         num_threads() * 4 * rows * (channels + kConvPanel);
}

bool is_direct(const View& x, const ConvGeometry& g, std::int64_t kernel_height) {
  return x.device.is_cpu() && g.channels_last && kernel_height == 1;
}

// A GPU puts filters of several taps into another order for its tensor cores.
std::int64_t device_scratch(const View& weight, const ConvGeometry& g) {
  const bool packs = is_half_precision(weight.dtype) && g.channels_last && g.groups == 1 &&
                     weight.dim(2) * weight.dim(3) > 1;
  return packs ? (weight.numel() + 1) / 2 : 0;
}

// A GPU cuts the sums over positions of the weight and bias gradients into parts of at least this many.
constexpr std::int64_t kPartPositions = 1024;
constexpr std::int64_t kMostParts = 32;

std::int64_t device_scratch(const ConvBackwardWeightArgs& args) {
  const std::int64_t outputs = args.dy.dim(args.geometry.channels_last ? 3 : 1);
  const std::int64_t positions = outputs == 0 ? 0 : args.dy.numel() / outputs;
  const std::int64_t sums = std::max(outputs, args.dweight ? args.dweight.numel() : 0);
  return std::clamp<std::int64_t>(positions / kPartPositions, 1, kMostParts) * sums;
}

}  // namespace

std::int64_t conv_scratch(const ConvArgs& args) {
  if (!args.x.device.is_cpu()) return device_scratch(args.weight, args.geometry);
  if (!is_direct(args.x, args.geometry, args.weight.dim(2))) return 0;
  const std::int64_t c = args.x.dim(3), o = args.weight.dim(0), k = args.weight.dim(3);
  const std::int64_t direct = direct_scratch(o, k * c, (args.x.dim(2) + 2 * args.geometry.padding[1]) * c);
  return k == 3 ? std::max(direct, winograd_scratch(o, c, args.y.dim(2))) : direct;
}

std::int64_t conv_scratch(const ConvBackwardDataArgs& args) {
  if (!args.dx.device.is_cpu()) return device_scratch(args.weight, args.geometry);
  if (!is_direct(args.dx, args.geometry, args.weight.dim(2))) return 0;
  const std::int64_t o = args.weight.dim(0), c = args.dx.dim(3), k = args.weight.dim(3);
  const std::int64_t direct = direct_scratch(c, k * o, (args.dy.dim(2) + 2 * (k - 1)) * o);
  return k == 3 ? std::max(direct, winograd_scratch(c, o, args.dx.dim(2))) : direct;
}

std::int64_t conv_scratch(const ConvBackwardWeightArgs& args) {
  if (!args.x.device.is_cpu()) return device_scratch(args);
  if (!args.dweight || !is_direct(args.x, args.geometry, args.dweight.dim(2))) return 0;
  const std::int64_t o = args.dy.dim(3), c = round_up(args.x.dim(3), kConvPanel), k = args.dweight.dim(3);
  const std::int64_t rows = args.x.dim(2) + 2 * args.geometry.padding[1];
  // Per thread: its sum of the gradient, a packed block of x and one of dy.
  const std::int64_t direct =
      num_threads() * (k * o * c + kConvBlock * (rows * c + args.dy.dim(2) * round_up(o + 12, 16)));
  if (k != 3) return direct;
  // By Winograd's algorithm the same of four positions, and a row of zeros.
  const std::int64_t pairs = kConvBlock * ((args.dy.dim(2) + 1) / 2);
  return std::max(direct, round_up(std::max(c, o), 16) + num_threads() * 4 * (o * c + pairs * (c + o + 16)));
}

std::int64_t conv_scratch(const ConvPackedArgs& args) {
  if (!args.x.device.is_cpu()) return 0;
  return group_scratch((args.x.dim(1) + 2 * args.padding) * args.x.dim(2));
}

}  // namespace ingot::kernels
