#include "ingot/kernels/weight_only.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "ingot/base/parallel.h"
#include "ingot/kernels/cpu/packed_block.h"
#include "ingot/kernels/cpu/register.h"

namespace ingot::kernels::cpu {
namespace {

float row_dot(const WeightOnlyMatmulArgs& args, std::int64_t row, std::int64_t col) {
  const PackedLayout layout = packed_layout(args.format);
  const std::uint8_t* panel = args.weight.as<std::uint8_t>() + col / kPanelRows * args.weight.dim(-1);
  const float* x = args.x.as<float>() + row * args.x.stride(0);
  const std::int64_t k = args.x.dim(-1);
  float y = 0;
  if (args.format == PackedFormat::f32) {
    for (std::int64_t i = 0; i < k; ++i) {
      const PackedRow w = read_packed_row(layout, panel, col % kPanelRows, i / 32);
      y = std::fma(x[i], packed_value(args.format, w.codes[static_cast<std::size_t>(i % 32)]), y);
    }
    return y;
  }
  const std::int64_t group = scale_columns(args.format);
  std::array<float, 2> sum{};
  for (std::int64_t i = 0; i < k;) {
    const PackedRow w = read_packed_row(layout, panel, col % kPanelRows, i / 32);
    for (const std::int64_t end = std::min(k, (i / 32 + 1) * 32); i < end;) {
      float& s = sum[static_cast<std::size_t>(i % 2)];
      s = std::fma(x[i], packed_value(args.format, w.codes[static_cast<std::size_t>(i % 32)]), s);
      const float scale = w.scale[static_cast<std::size_t>(i % 32 / 16)];
      if (++i % group != 0 && i != k) continue;
      y = std::fma(sum[0] + sum[1], scale, y);
      sum = {};
    }
  }
  return y;
}

void multiply(const WeightOnlyMatmulArgs& args, Stream) {
  parallel_for(args.y.dim(-1), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t col = begin; col < end; ++col) {
      for (std::int64_t row = 0; row < args.y.dim(0); ++row) {
        const float y = row_dot(args, row, col);
        args.y.as<float>()[row * args.y.stride(0) + col] = args.bias ? y + args.bias.as<float>()[col] : y;
      }
    }
  });
}

}  // namespace

void register_weight_only_reference() {
  weight_only_matmul.add(DeviceType::cpu, {"reference", ImplKind::reference, nullptr, multiply});
}

}  // namespace ingot::kernels::cpu
