#include "ingot/kernels/winograd_conv.h"

#include <algorithm>
#include <vector>

#include "ingot/kernels/cpu/register.h"

namespace ingot::kernels::cpu {
namespace {

/// Bᵀ·d, and Aᵀ·m, of F(2, 3).
constexpr double kToPositions[4][4] = {{1, 0, -1, 0}, {0, 1, 1, 0}, {0, -1, 1, 0}, {0, 1, 0, -1}};
constexpr double kToPair[2][4] = {{1, 1, 1, 0}, {0, 1, -1, -1}};

void winograd_forward(const WinogradConvArgs& args, Stream) {
  const View &x = args.x, &y = args.y;
  const std::int64_t b = x.dim(4), inputs = args.weight.dim(1), outputs = args.weight.dim(2), h = x.dim(2),
                     w = x.dim(3), rows = (y.dim(2) + 1) / 2, columns = (y.dim(3) + 1) / 2;
  const auto value = [&](std::int64_t n, std::int64_t c, std::int64_t row, std::int64_t col) {
    if (row < 0 || row >= h || col < 0 || col >= w) return 0.0;
    return double{x.as<float>()[(((n * x.dim(1) + c / b) * h + row) * w + col) * b + c % b]};
  };
  std::vector<double> positions(static_cast<std::size_t>(16 * inputs));
  for (std::int64_t tile = 0; tile < winograd_tiles(args); ++tile) {
    const std::int64_t n = tile / columns / rows, row = tile / columns % rows * 2, col = tile % columns * 2;
    for (std::int64_t k = 0; k < 16 * inputs; ++k) {
      const std::int64_t p = k / inputs, c = k % inputs;
      double sum = 0;
      for (int i = 0; i < 4; ++i) {
        for (int j = 0; j < 4; ++j)
          sum += kToPositions[p / 4][i] * kToPositions[p % 4][j] *
                 value(n, c, row - args.padding[0] + i, col - args.padding[1] + j);
      }
      positions[static_cast<std::size_t>(k)] = sum;
    }
    for (std::int64_t o = 0; o < outputs; ++o) {
      double products[16] = {};
      for (std::int64_t k = 0; k < 16 * inputs; ++k)
        products[k / inputs] +=
            positions[static_cast<std::size_t>(k)] * args.weight.as<float>()[k * outputs + o];
      for (std::int64_t i = 0; i < std::min<std::int64_t>(2, y.dim(2) - row); ++i) {
        for (std::int64_t j = 0; j < std::min<std::int64_t>(2, y.dim(3) - col); ++j) {
          double sum = args.bias ? args.bias.as<float>()[o] : 0;
          for (int p = 0; p < 16; ++p) sum += kToPair[i][p / 4] * kToPair[j][p % 4] * products[p];
          const std::int64_t at =
              (((n * y.dim(1) + o / b) * y.dim(2) + row + i) * y.dim(3) + col + j) * b + o % b;
          if (args.residual) sum += args.residual.as<float>()[at];
          y.as<float>()[at] = static_cast<float>(args.relu && sum < 0 ? 0 : sum);
        }
      }
    }
  }
}

}  // namespace

void register_winograd_conv_reference() {
  winograd_conv.add(DeviceType::cpu, {"reference", ImplKind::reference, nullptr, winograd_forward});
}

}  // namespace ingot::kernels::cpu
