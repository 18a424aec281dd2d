#include "ingot/kernels/winograd_conv.h"

#include <algorithm>

#include "ingot/base/parallel.h"
#include "ingot/core/tensor.h"
#include "ingot/kernels/cpu/register.h"
#include "ingot/kernels/gemm.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ingot/kernels/cpu/simd/winograd_conv.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ingot/kernels/cpu/simd/lanes-inl.h"
#include "ingot/kernels/cpu/unroll.h"

HWY_BEFORE_NAMESPACE();
namespace ingot::kernels::cpu {
#ifndef INGOT_WINOGRAD_CONV
#define INGOT_WINOGRAD_CONV
/// Tiles [first, first + count) of a convolution, row by row of each sample.
struct WinogradTiles {
  const WinogradConvArgs* args;
  std::int64_t first, count;
  float* inputs;   ///< [16, count, C]
  float* outputs;  ///< [16, count, O]

  std::int64_t columns() const { return (args->y.dim(3) + 1) / 2; }
  std::int64_t rows() const { return (args->y.dim(2) + 1) / 2; }
};
#endif
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

// Bᵀ·d of four vectors.
HWY_INLINE void to_positions(hn::Vec<D>& d0, hn::Vec<D>& d1, hn::Vec<D>& d2, hn::Vec<D>& d3) {
  const auto v0 = hn::Sub(d0, d2), v1 = hn::Add(d1, d2), v2 = hn::Sub(d2, d1), v3 = hn::Sub(d1, d3);
  d0 = v0, d1 = v1, d2 = v2, d3 = v3;
}

void transform_tile_inputs(const WinogradTiles& tiles, std::int64_t begin, std::int64_t end) {
  const D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const View& x = tiles.args->x;
  const std::int64_t blocks = x.dim(1), height = x.dim(2), width = x.dim(3), b = x.dim(4);
  const std::int64_t position = tiles.count * blocks * b;
  for (std::int64_t t = begin; t < end; ++t) {
    const std::int64_t tile = tiles.first + t, column = tile % tiles.columns(),
                       row = tile / tiles.columns() % tiles.rows(),
                       sample = tile / tiles.columns() / tiles.rows();
    const std::int64_t top = 2 * row - tiles.args->padding[0], left = 2 * column - tiles.args->padding[1];
    float* to = tiles.inputs + t * blocks * b;
    for (std::int64_t block = 0; block < blocks; ++block) {
      const float* image = x.as<float>() + (sample * blocks + block) * height * width * b;
      for (std::int64_t c = 0; c < b; c += lanes) {
        hn::Vec<D> v[4][4];
        for (std::int64_t i = 0; i < 4; ++i) {
          const bool inside = top + i >= 0 && top + i < height;
          const float* from = image + ((top + i) * width + left) * b + c;
          for (std::int64_t j = 0; j < 4; ++j)
            v[i][j] = inside && left + j >= 0 && left + j < width ? hn::LoadU(d, from + j * b) : hn::Zero(d);
        }
        INGOT_UNROLL
        for (int j = 0; j < 4; ++j) to_positions(v[0][j], v[1][j], v[2][j], v[3][j]);
        INGOT_UNROLL
        for (int i = 0; i < 4; ++i) {
          to_positions(v[i][0], v[i][1], v[i][2], v[i][3]);
          for (int j = 0; j < 4; ++j) hn::StoreU(v[i][j], d, to + (4 * i + j) * position + block * b + c);
        }
      }
    }
  }
}

// Aᵀ·m of four vectors, in the first two.
HWY_INLINE void to_pair(hn::Vec<D>& m0, hn::Vec<D>& m1, hn::Vec<D> m2, hn::Vec<D> m3) {
  const auto y0 = hn::Add(m0, hn::Add(m1, m2)), y1 = hn::Sub(hn::Sub(m1, m2), m3);
  m0 = y0, m1 = y1;
}

void transform_tile_outputs(const WinogradTiles& tiles, std::int64_t begin, std::int64_t end) {
  const D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const WinogradConvArgs& args = *tiles.args;
  const View& y = args.y;
  const std::int64_t blocks = y.dim(1), height = y.dim(2), width = y.dim(3), b = y.dim(4);
  const std::int64_t position = tiles.count * blocks * b;
  for (std::int64_t t = begin; t < end; ++t) {
    const std::int64_t tile = tiles.first + t, column = tile % tiles.columns(),
                       row = tile / tiles.columns() % tiles.rows(),
                       sample = tile / tiles.columns() / tiles.rows();
    const float* from = tiles.outputs + t * blocks * b;
    for (std::int64_t block = 0; block < blocks; ++block) {
      const std::int64_t first = (((sample * blocks + block) * height + 2 * row) * width + 2 * column) * b;
      for (std::int64_t c = 0; c < b; c += lanes) {
        hn::Vec<D> m[4][4];
        INGOT_UNROLL
        for (int j = 0; j < 4; ++j) {
          for (int i = 0; i < 4; ++i) m[i][j] = hn::LoadU(d, from + (4 * i + j) * position + block * b + c);
          to_pair(m[0][j], m[1][j], m[2][j], m[3][j]);
        }
        const auto bias = args.bias ? hn::LoadU(d, args.bias.as<float>() + block * b + c) : hn::Zero(d);
        for (std::int64_t i = 0; i < std::min<std::int64_t>(2, height - 2 * row); ++i) {
          to_pair(m[i][0], m[i][1], m[i][2], m[i][3]);
          for (std::int64_t j = 0; j < std::min<std::int64_t>(2, width - 2 * column); ++j) {
            const std::int64_t at = first + (i * width + j) * b + c;
            auto value = hn::Add(m[i][j], bias);
            if (args.residual) value = hn::Add(value, hn::LoadU(d, args.residual.as<float>() + at));
            if (args.relu) value = hn::Max(value, hn::Zero(d));
            hn::StoreU(value, d, y.as<float>() + at);
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace ingot::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ingot::kernels::cpu {
namespace {
HWY_EXPORT(transform_tile_inputs);
HWY_EXPORT(transform_tile_outputs);

void run_winograd_conv(const WinogradConvArgs& args, Stream stream) {
  const std::int64_t all = winograd_tiles(args), inputs = args.weight.dim(1), outputs = args.weight.dim(2);
  constexpr std::int64_t kGrain = 8192;  // floats of a position, some microseconds
  for (std::int64_t first = 0; first < all; first += kWinogradTiles) {
    const std::int64_t count = std::min(kWinogradTiles, all - first);
    auto* scratch = args.scratch.as<float>();
    const WinogradTiles tiles{&args, first, count, scratch, scratch + kWinogradPositions * count * inputs};
    parallel_for(count, kGrain / inputs + 1, [&](std::int64_t begin, std::int64_t end) {
      HWY_DYNAMIC_DISPATCH(transform_tile_inputs)(tiles, begin, end);
    });
    const auto matrices = [&](float* data, std::int64_t columns) {
      return contiguous_view(data, {kWinogradPositions, count, columns}, DType::f32, args.x.device);
    };
    launch(gemm, stream,
           {.a = matrices(tiles.inputs, inputs), .b = args.weight, .c = matrices(tiles.outputs, outputs)});
    parallel_for(count, kGrain / outputs + 1, [&](std::int64_t begin, std::int64_t end) {
      HWY_DYNAMIC_DISPATCH(transform_tile_outputs)(tiles, begin, end);
    });
  }
}

}  // namespace

void register_winograd_conv_simd() {
  winograd_conv.add(DeviceType::cpu, {"simd", ImplKind::simd, nullptr, run_winograd_conv});
}

}  // namespace ingot::kernels::cpu
#endif  // HWY_ONCE
