// Channels-last 1-d convolution of three taps by Winograd's minimal filtering F(2, 3) (Lavin and Gray, "Fast
// algorithms for convolutional neural networks", 2015): two neighbouring outputs y from four inputs d and
// taps g
//
//   y = Aᵀ[(G·g) ⊙ (Bᵀ·d)]       Bᵀd = (d0 − d2, d1 + d2, d2 − d1, d1 − d3)
//                                Gg = (g0, (g0 + g1 + g2)/2, (g0 − g1 + g2)/2, g2)
//                                Aᵀm = (m0 + m1 + m2, m1 − m2 − m3)
//
// take four multiplications instead of six. Summed over channels, each of the four positions is a
// matmul. The adjoint gives the gradient of the weights: dg = Gᵀ[(A·dy) ⊙ (Bᵀ·d)].
#include <algorithm>

#include "ingot/base/parallel.h"
#include "ingot/kernels/conv.h"
#include "ingot/kernels/cpu/plain_conv.h"
#include "ingot/kernels/cpu/register.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ingot/kernels/cpu/simd/conv_winograd.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ingot/kernels/cpu/simd/conv_tile-inl.h"
#include "ingot/kernels/cpu/simd/loops-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ingot::kernels::cpu {
#ifndef INGOT_CONV_WINOGRAD
#define INGOT_CONV_WINOGRAD
// Some samples of one convolution, and the scratch memory of one thread.
struct WinogradGroup {
  const float* x;  // [samples, width, channels]
  std::int64_t samples, width, channels, padding;
  const float* packed;  // [panels, 4, channels, 32]
  const float* bias;
  float* y;  // [samples, out_width, outputs]
  std::int64_t out_width, outputs;
  bool add;
  float* positions;    // [4, samples · pairs, channels]
  float* products;     // [4, samples · pairs, 32]
  const float* zeros;  // a row of the input
};
// The same for the gradient of the weights, which is summed per position.
struct WinogradOuter {
  const float* x;   // [samples, width, channels]
  const float* dy;  // [samples, out_width, outputs]
  std::int64_t samples, width, channels, padding, out_width, outputs;
  float* left;   // [4, samples · pairs, outputs + kLeftPadding]
  float* right;  // [4, panels, samples · pairs, 32]
  float* sums;   // [4, outputs, panels · 32]
  bool add;
  const float* zeros;  // a row of the input or the output, whichever is longer
};
constexpr std::int64_t kPositions = 4;
// Keeps rows from falling on the same few sets of L1.
constexpr std::int64_t kLeftPadding = 16;
#endif
namespace HWY_NAMESPACE {
namespace {

std::int64_t pairs_of(std::int64_t out_width) { return (out_width + 1) / 2; }

// Row `i` of a sample of `width` rows, or zeros beyond its ends.
const float* row_or_zeros(const float* x, std::int64_t i, std::int64_t width, std::int64_t size,
                          const float* zeros) {
  return i >= 0 && i < width ? x + i * size : zeros;
}

// Bᵀd of one position, one vector.
template <class Tag>
HWY_INLINE hn::Vec<Tag> input_position(Tag d, int position, const float* const* rows, std::int64_t c) {
  constexpr int kLeft[] = {0, 1, 2, 1}, kRight[] = {2, 2, 1, 3};
  const auto left = hn::LoadU(d, rows[kLeft[position]] + c), right = hn::LoadU(d, rows[kRight[position]] + c);
  return position == 1 ? hn::Add(left, right) : hn::Sub(left, right);
}

// positions[p, pair, :] = Bᵀd of a sample.
void transform_input(const WinogradGroup& g, const float* x, float* positions, std::int64_t position_size) {
  for (std::int64_t pair = 0; pair < pairs_of(g.out_width); ++pair) {
    const float* rows[4];
    for (int i = 0; i < 4; ++i)
      rows[i] = row_or_zeros(x, 2 * pair - g.padding + i, g.width, g.channels, g.zeros);
    float* to = positions + pair * g.channels;
    for_vectors(g.channels, [&](auto d, std::int64_t c) HWY_ATTR {
      for (int p = 0; p < kPositions; ++p)
        hn::StoreU(input_position(d, p, rows, c), d, to + p * position_size + c);
    });
  }
}

// Two rows of y, 32 columns at most, from the products of the four positions; the second row may be absent.
void transform_output(const float* m, std::int64_t position_size, std::int64_t cols, const float* bias,
                      bool add, float* y0, float* y1) {
  for_vectors(cols, [&](auto d, std::int64_t c) HWY_ATTR {
    const auto at = [&](int p) HWY_ATTR { return hn::LoadU(d, m + p * position_size + c); };
    const auto m1 = at(1), m2 = at(2);
    const auto base = bias != nullptr ? hn::LoadU(d, bias + c) : hn::Zero(d);
    const auto old = [&](const float* y) HWY_ATTR { return add ? hn::LoadU(d, y + c) : base; };
    hn::StoreU(hn::Add(hn::Add(at(0), hn::Add(m1, m2)), old(y0)), d, y0 + c);
    if (y1 != nullptr) hn::StoreU(hn::Add(hn::Sub(hn::Sub(m1, m2), at(3)), old(y1)), d, y1 + c);
  });
}

// products[p] = positions[p] · a panel of 32 outputs of position p.
void multiply_positions(const WinogradGroup& g, const float* panel, std::int64_t rows) {
  const std::int64_t tiles = (rows + kMaxRows - 1) / kMaxRows, size = g.channels * kConvPanel;
  const std::int64_t step =
      (kConvPanel + tiles - 1) / tiles;  // fetches the next position's weights over the tiles
  for (int p = 0; p < kPositions; ++p) {
    const float* a = g.positions + p * rows * g.channels;
    const float* b = panel + p * size;
    for (std::int64_t tile = 0; tile < tiles; ++tile) {
      const std::int64_t begin = rows * tile / tiles, count = rows * (tile + 1) / tiles - begin;
      float* c = g.products + (p * rows + begin) * kConvPanel;
#define INGOT_CALL(R)                                                                                    \
  product_tile<R>(a + begin * g.channels, g.channels, b, g.channels, c, kConvPanel, kConvPanel, nullptr, \
                  false, b + size + tile * g.channels * step, step)
      INGOT_FOR_ROWS(count, INGOT_CALL)
#undef INGOT_CALL
    }
  }
}

void winograd_group(const WinogradGroup& g) {
  const std::int64_t pairs = pairs_of(g.out_width), rows = g.samples * pairs;
  const std::int64_t panels = round_up(g.outputs, kConvPanel) / kConvPanel;
  for (std::int64_t s = 0; s < g.samples; ++s) {
    transform_input(g, g.x + s * g.width * g.channels, g.positions + s * pairs * g.channels,
                    rows * g.channels);
  }
  for (std::int64_t panel = 0; panel < panels; ++panel) {
    multiply_positions(g, g.packed + panel * kPositions * g.channels * kConvPanel, rows);
    const std::int64_t o = panel * kConvPanel, cols = std::min(kConvPanel, g.outputs - o);
    for (std::int64_t row = 0; row < rows; ++row) {
      const std::int64_t at = row % pairs * 2;
      float* y = g.y + (row / pairs * g.out_width + at) * g.outputs + o;
      transform_output(g.products + row * kConvPanel, rows * kConvPanel, cols,
                       g.bias != nullptr ? g.bias + o : nullptr, g.add, y,
                       at + 1 < g.out_width ? y + g.outputs : nullptr);
    }
  }
}

// left[p, pair, :] = A·dy of a sample: dy0, dy0 + dy1, dy0 − dy1, −dy1.
void transform_gradient(const WinogradOuter& g, const float* dy, float* left, std::int64_t position_size) {
  for (std::int64_t pair = 0; pair < pairs_of(g.out_width); ++pair) {
    const float* row0 = dy + 2 * pair * g.outputs;
    const float* row1 = row_or_zeros(dy, 2 * pair + 1, g.out_width, g.outputs, g.zeros);
    float* to = left + pair * (g.outputs + kLeftPadding);
    for_vectors(g.outputs, [&](auto d, std::int64_t o) HWY_ATTR {
      const auto dy0 = hn::LoadU(d, row0 + o), dy1 = hn::LoadU(d, row1 + o);
      hn::StoreU(dy0, d, to + o);
      hn::StoreU(hn::Add(dy0, dy1), d, to + position_size + o);
      hn::StoreU(hn::Sub(dy0, dy1), d, to + 2 * position_size + o);
      hn::StoreU(hn::Neg(dy1), d, to + 3 * position_size + o);
    });
  }
}

// right[p, panel, pair, :] = Bᵀd of a sample, in panels of 32 channels, zero past the last.
void transform_panels(const WinogradOuter& g, const float* x, float* right, std::int64_t pairs_in_all) {
  const std::int64_t panels = round_up(g.channels, kConvPanel) / kConvPanel;
  for (std::int64_t pair = 0; pair < pairs_of(g.out_width); ++pair) {
    const float* rows[4];
    for (int i = 0; i < 4; ++i)
      rows[i] = row_or_zeros(x, 2 * pair - g.padding + i, g.width, g.channels, g.zeros);
    for (std::int64_t panel = 0; panel < panels; ++panel) {
      const std::int64_t first = panel * kConvPanel, cols = std::min(kConvPanel, g.channels - first);
      for (int p = 0; p < kPositions; ++p) {
        float* to = right + ((p * panels + panel) * pairs_in_all + pair) * kConvPanel;
        for_vectors(cols, [&](auto d, std::int64_t c)
                              HWY_ATTR { hn::StoreU(input_position(d, p, rows, first + c), d, to + c); });
        std::fill(to + cols, to + kConvPanel, 0.0F);
      }
    }
  }
}

void winograd_outer(const WinogradOuter& g) {
  const std::int64_t pairs = pairs_of(g.out_width), rows = g.samples * pairs;
  const std::int64_t panels = round_up(g.channels, kConvPanel) / kConvPanel, columns = panels * kConvPanel;
  const std::int64_t left_step = g.outputs + kLeftPadding, tiles = (g.outputs + kMaxRows - 1) / kMaxRows;
  for (std::int64_t s = 0; s < g.samples; ++s) {
    transform_gradient(g, g.dy + s * g.out_width * g.outputs, g.left + s * pairs * left_step,
                       rows * left_step);
    transform_panels(g, g.x + s * g.width * g.channels, g.right + s * pairs * kConvPanel, rows);
  }
  for (int p = 0; p < kPositions; ++p) {
    for (std::int64_t tile = 0; tile < tiles; ++tile) {
      const std::int64_t begin = g.outputs * tile / tiles, count = g.outputs * (tile + 1) / tiles - begin;
      const float* a = g.left + p * rows * left_step + begin;
      for (std::int64_t panel = 0; panel < panels; ++panel) {
        const float* b = g.right + (p * panels + panel) * rows * kConvPanel;
        float* c = g.sums + (p * g.outputs + begin) * columns + panel * kConvPanel;
#define INGOT_CALL(R) outer_tile<R>(a, left_step, b, 1, rows, rows, c, columns, kConvPanel, g.add)
        INGOT_FOR_ROWS(count, INGOT_CALL)
#undef INGOT_CALL
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
HWY_EXPORT(winograd_group);
HWY_EXPORT(winograd_outer);

constexpr std::int64_t kTaps = 3;

// With few channels the transforms cost more than the multiplications that they save; few samples are better
// split over the threads by panels.
bool accepts_sizes(const ConvGeometry& g, const View& x, const View& weight) {
  constexpr std::int64_t kFewChannels = 64;
  return is_plain_1d_conv(g, x, weight) && weight.dim(3) == kTaps && g.padding[1] < kTaps &&
         std::min(weight.dim(0), weight.dim(1)) >= kFewChannels && x.dim(0) >= kConvGroup * num_threads();
}

// G·g of every pair of channels as [panels, 4, depth, 32]; taps of input `c` and output `o` at
// weight + o·o_step + c·c_step, `tap_step` apart.
void pack(const float* weight, std::int64_t o_step, std::int64_t c_step, std::int64_t tap_step,
          std::int64_t outputs, std::int64_t channels, float* packed) {
  const std::int64_t size = channels * kConvPanel;
  parallel_for(round_up(outputs, kConvPanel) / kConvPanel, 16'384 / (channels * kTaps + 1),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t panel = begin; panel < end; ++panel) {
                   const std::int64_t first = panel * kConvPanel,
                                      cols = std::min(kConvPanel, outputs - first);
                   for (std::int64_t c = 0; c < channels; ++c) {
                     float* to = packed + panel * kPositions * size + c * kConvPanel;
                     for (std::int64_t j = 0; j < kConvPanel; ++j) {
                       const float* g = weight + (first + std::min(j, cols - 1)) * o_step + c * c_step;
                       const float keep = j < cols ? 1.0F : 0.0F;
                       const float g0 = keep * g[0], g1 = keep * g[tap_step], g2 = keep * g[2 * tap_step];
                       to[j] = g0;
                       to[size + j] = 0.5F * (g0 + g2 + g1);
                       to[2 * size + j] = 0.5F * (g0 + g2 - g1);
                       to[3 * size + j] = g2;
                     }
                   }
                 }
               });
}

struct Convolution {
  const float *x, *bias;
  float *y, *scratch;  // packed weights, a row of zeros, then each thread's own
  std::int64_t samples, width, channels, outputs, padding;
  bool add;
};

void run_convolution(const Convolution& p) {
  const std::int64_t out_width = p.width + 2 * p.padding - kTaps + 1,
                     rows = kConvGroup * ((out_width + 1) / 2);
  float* zeros = p.scratch + round_up(p.outputs, kConvPanel) * kPositions * p.channels;
  float* own = zeros + round_up(p.channels, 16);
  std::fill_n(zeros, p.channels, 0.0F);
  const std::int64_t own_size = kPositions * rows * (p.channels + kConvPanel);
  const std::int64_t groups = (p.samples + kConvGroup - 1) / kConvGroup;
  const std::int64_t parts = std::min<std::int64_t>(num_threads(), groups);
  parallel_for(parts, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t part = begin; part < end; ++part) {
      const std::int64_t last = p.samples * (part + 1) / parts;
      for (std::int64_t n = p.samples * part / parts; n < last; n += kConvGroup) {
        HWY_DYNAMIC_DISPATCH(winograd_group)
        ({.x = p.x + n * p.width * p.channels,
          .samples = std::min(kConvGroup, last - n),
          .width = p.width,
          .channels = p.channels,
          .padding = p.padding,
          .packed = p.scratch,
          .bias = p.bias,
          .y = p.y + n * out_width * p.outputs,
          .out_width = out_width,
          .outputs = p.outputs,
          .add = p.add,
          .positions = own + part * own_size,
          .products = own + part * own_size + kPositions * rows * p.channels,
          .zeros = zeros});
      }
    }
  });
}

bool accepts_forward(const ConvArgs& args) { return accepts_sizes(args.geometry, args.x, args.weight); }

void forward(const ConvArgs& args, Stream) {
  const std::int64_t c = args.x.dim(3), o = args.weight.dim(0);
  float* scratch = args.scratch.as<float>();
  pack(args.weight.as<float>(), c * kTaps, kTaps, 1, o, c, scratch);
  run_convolution({args.x.as<float>(), args.bias.as<float>(), args.y.as<float>(), scratch, args.x.dim(0),
                   args.x.dim(2), c, o, args.geometry.padding[1], false});
}

bool accepts_backward_data(const ConvBackwardDataArgs& args) {
  return accepts_sizes(args.geometry, args.dx, args.weight);
}

// The convolution of dy with the taps in reverse.
void backward_data(const ConvBackwardDataArgs& args, Stream) {
  const std::int64_t c = args.dx.dim(3), o = args.weight.dim(0);
  float* scratch = args.scratch.as<float>();
  pack(args.weight.as<float>() + kTaps - 1, kTaps, c * kTaps, -1, c, o, scratch);
  run_convolution({args.dy.as<float>(), nullptr, args.dx.as<float>(), scratch, args.dy.dim(0), args.dy.dim(2),
                   o, c, kTaps - 1 - args.geometry.padding[1], args.accumulate});
}

bool accepts_backward_weight(const ConvBackwardWeightArgs& args) {
  return args.dweight && !args.dbias && accepts_sizes(args.geometry, args.x, args.dweight);
}

// Threads sum their samples apart; then the parts are added in order, and dg = Gᵀ·sums.
void backward_weight(const ConvBackwardWeightArgs& args, Stream) {
  const std::int64_t n = args.x.dim(0), width = args.x.dim(2), c = args.x.dim(3), o = args.dy.dim(3);
  const std::int64_t out_width = args.dy.dim(2), columns = round_up(c, kConvPanel);
  const std::int64_t rows = kConvBlock * ((out_width + 1) / 2), sums_size = kPositions * o * columns;
  const std::int64_t own_size = sums_size + kPositions * rows * (columns + o + kLeftPadding);
  float* zeros = args.scratch.as<float>();
  float* own = zeros + round_up(std::max(c, o), 16);
  std::fill_n(zeros, std::max(c, o), 0.0F);
  const std::int64_t parts = std::min<std::int64_t>(num_threads(), n);
  parallel_for(parts, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t part = begin; part < end; ++part) {
      float* sums = own + part * own_size;
      const std::int64_t first = n * part / parts, last = n * (part + 1) / parts;
      for (std::int64_t s = first; s < last; s += kConvBlock) {
        HWY_DYNAMIC_DISPATCH(winograd_outer)
        ({.x = args.x.as<float>() + s * width * c,
          .dy = args.dy.as<float>() + s * out_width * o,
          .samples = std::min(kConvBlock, last - s),
          .width = width,
          .channels = c,
          .padding = args.geometry.padding[1],
          .out_width = out_width,
          .outputs = o,
          .left = sums + sums_size + kPositions * rows * columns,
          .right = sums + sums_size,
          .sums = sums,
          .add = s != first,
          .zeros = zeros});
      }
    }
  });
  parallel_for(o, 16'384 / (c * kTaps + 1), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      float* sums[kPositions];
      for (std::int64_t p = 0; p < kPositions; ++p) {
        sums[p] = own + (p * o + i) * columns;
        for (std::int64_t part = 1; part < parts; ++part) {
          for (std::int64_t j = 0; j < c; ++j) sums[p][j] += sums[p][part * own_size + j];
        }
      }
      float* to = args.dweight.as<float>() + i * c * kTaps;
      for (std::int64_t j = 0; j < c; ++j, to += kTaps) {
        const float even = 0.5F * (sums[1][j] + sums[2][j]), odd = 0.5F * (sums[1][j] - sums[2][j]);
        const bool add = args.accumulate_dweight;
        to[0] = (add ? to[0] : 0.0F) + sums[0][j] + even;
        to[1] = (add ? to[1] : 0.0F) + odd;
        to[2] = (add ? to[2] : 0.0F) + even + sums[3][j];
      }
    }
  });
}

}  // namespace

void register_conv_winograd() {
  conv.add(DeviceType::cpu, {"winograd", ImplKind::simd, accepts_forward, forward});
  conv_backward_data.add(DeviceType::cpu, {"winograd", ImplKind::simd, accepts_backward_data, backward_data});
  conv_backward_weight.add(DeviceType::cpu,
                           {"winograd", ImplKind::simd, accepts_backward_weight, backward_weight});
}

}  // namespace ingot::kernels::cpu
#endif  // HWY_ONCE
