#pragma once

#include <array>
#include <cstdint>

#include "ingot/kernels/kernel.h"

namespace ingot::kernels {

/// How a convolution or pooling walks its input; index 0 is the height, 1 the width. A 1-d one has height 1.
struct ConvGeometry {
  std::array<std::int64_t, 2> stride{1, 1};
  std::array<std::int64_t, 2> padding{0, 0};
  std::array<std::int64_t, 2> dilation{1, 1};
  std::int64_t groups = 1;
  bool channels_last = false;  ///< x and y are [N, H, W, C] instead of [N, C, H, W]
};

/// Cross-correlation, as the field calls convolution:
/// y[n, o, i, j] = bias[o] + Σ_{c,h,w} weight[o, c, h, w] · x[n, c, i·stride − padding + h·dilation, ...]
/// x, y: rank 4, contiguous, in the geometry's layout; weight: [O, C / groups, KH, KW], contiguous; bias: [O]
/// or absent; scratch: at least conv_scratch(args) f32 elements.
struct ConvArgs {
  View x, weight, bias, y, scratch;
  ConvGeometry geometry;
};
inline Kernel<ConvArgs> conv("conv");
/// Those that meet the padding count.
inline double flops(const ConvArgs& args) {
  return 2 * static_cast<double>(args.y.numel()) * static_cast<double>(args.weight.numel()) /
         static_cast<double>(args.weight.dim(0));
}
std::int64_t conv_scratch(const ConvArgs& args);

/// dx of conv from dy; shapes and layouts as there.
struct ConvBackwardDataArgs {
  View weight, dy, dx, scratch;
  ConvGeometry geometry;
  bool accumulate = false;
};
inline Kernel<ConvBackwardDataArgs> conv_backward_data("conv_backward_data");
inline double flops(const ConvBackwardDataArgs& args) {
  return 2 * static_cast<double>(args.dy.numel()) * static_cast<double>(args.weight.numel()) /
         static_cast<double>(args.weight.dim(0));
}
std::int64_t conv_scratch(const ConvBackwardDataArgs& args);

/// dweight and dbias of conv; each may be absent and has its own accumulate flag.
struct ConvBackwardWeightArgs {
  View x, dy, dweight, dbias, scratch;
  ConvGeometry geometry;
  bool accumulate_dweight = false, accumulate_dbias = false;
};
inline Kernel<ConvBackwardWeightArgs> conv_backward_weight("conv_backward_weight");
/// 0 where the weight's gradient is absent: sums alone are left.
inline double flops(const ConvBackwardWeightArgs& args) {
  if (!args.dweight) return 0;
  return 2 * static_cast<double>(args.dy.numel()) * static_cast<double>(args.dweight.numel()) /
         static_cast<double>(args.dweight.dim(0));
}
std::int64_t conv_scratch(const ConvBackwardWeightArgs& args);

/// Channels-last 1-d convolution (stride 1, one group) with weights already in the order the kernel reads:
/// x: [N, W, C]; packed: [ceil(O / 32), K · C, 32], from conv_pack; y: [N, W + 2·padding − K + 1, O]. For
/// inference, where packing anew on each call would cost more than the convolution.
struct ConvPackedArgs {
  View x, packed, bias, y, scratch;
  std::int64_t padding = 0;
};
inline Kernel<ConvPackedArgs> conv_packed("conv_packed");
inline double flops(const ConvPackedArgs& args) {
  return 2 * static_cast<double>(args.y.numel()) * static_cast<double>(args.packed.dim(1));
}
std::int64_t conv_scratch(const ConvPackedArgs& args);

/// packed[p, k·C + c, j] = weight[32·p + j, c, k], zero past the last output. weight: [O, C, K].
struct ConvPackArgs {
  View weight, packed;
};
inline Kernel<ConvPackArgs> conv_pack("conv_pack");

/// Columns of a panel of packed weights: two AVX-512 registers.
inline constexpr std::int64_t kConvPanel = 32;
/// Samples that a thread multiplies with a panel before it takes the next one.
inline constexpr std::int64_t kConvGroup = 4;
/// Samples whose parts the weight gradient sums before it goes back to memory.
inline constexpr std::int64_t kConvBlock = 8;

constexpr std::int64_t round_up(std::int64_t n, std::int64_t to) { return (n + to - 1) / to * to; }

}  // namespace ingot::kernels
