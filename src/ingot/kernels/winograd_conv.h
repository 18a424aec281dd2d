#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "ingot/kernels/kernel.h"

namespace ingot::kernels {

/// Windows of 3 × 3 at stride 1 by Winograd's F(2 × 2, 3 × 3) (Lavin and Gray, "Fast algorithms for
/// convolutional neural networks", 2015): four outputs of 16 inputs take 16 multiplications instead of 36. y
/// = conv(x, w) + bias + residual, then max(0, y) with `relu`, on images in blocks of channels
/// (blocked_conv.h). x: [N, C / b, H, W, b]; weight: G·w·Gᵀ of each pair of channels, [16, C, O];
/// y: [N, O / b, OH, OW, b]; bias: [O] or absent; residual: y's shape or absent, may be y itself; scratch: at
/// least winograd_scratch() elements. `padding`: rows above and columns to the left; y's sizes say what
/// follows. f32, contiguous.
struct WinogradConvArgs {
  View x, weight, bias, residual, y, scratch;
  std::array<std::int64_t, 2> padding{0, 0};
  bool relu = false;
};
inline Kernel<WinogradConvArgs> winograd_conv("winograd_conv");  // CPU only: cuDNN has layouts of its own
inline double flops(const WinogradConvArgs& args) {
  return 18 * static_cast<double>(args.y.numel()) * static_cast<double>(args.weight.dim(1));
}

/// Tiles of 2 × 2 outputs that are computed at once: their products stay in the caches.
inline constexpr std::int64_t kWinogradTiles = 256;
inline constexpr std::int64_t kWinogradPositions = 16;
/// How many there are.
inline std::int64_t winograd_tiles(const WinogradConvArgs& args) {
  return args.y.dim(0) * ((args.y.dim(2) + 1) / 2) * ((args.y.dim(3) + 1) / 2);
}
/// For so many tiles, input and output channels.
inline std::int64_t winograd_scratch(std::int64_t tiles, std::int64_t inputs, std::int64_t outputs) {
  return kWinogradPositions * std::min(tiles, kWinogradTiles) * (inputs + outputs);
}

}  // namespace ingot::kernels
