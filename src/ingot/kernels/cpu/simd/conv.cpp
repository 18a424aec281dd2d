#include "ingot/kernels/conv.h"

#include <algorithm>
#include <cstring>

#include "ingot/base/parallel.h"
#include "ingot/kernels/cpu/plain_conv.h"
#include "ingot/kernels/cpu/register.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ingot/kernels/cpu/simd/conv.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ingot/kernels/cpu/simd/conv_tile-inl.h"

// Channels-last 1-d convolution of stride 1 is a matmul without im2col: in a sample with its zero
// padding, row w of the patch matrix is the K·C contiguous floats that start at pixel w.

HWY_BEFORE_NAMESPACE();
namespace ingot::kernels::cpu {
#ifndef INGOT_CONV_GROUP
#define INGOT_CONV_GROUP
// Some samples and a range of panels: y[s, w, o] = Σ patch(s, w) · packed.
struct ConvGroup {
  const float* x;                         // padded samples
  std::int64_t x_step;                    // from one to the next
  std::int64_t samples, width, channels;  // width: of y
  const float* packed;                    // panels of depth × 32
  std::int64_t depth, first_panel, last_panel, outputs;
  const float* bias;
  float* y;
  bool add;
  const float* next;       // what this thread reads after the group
  std::int64_t next_size;  // floats, 0 at the end
};
#endif
namespace HWY_NAMESPACE {
namespace {

// Panel by panel, so that a panel is read from beyond L2 once for all samples of the group; the rows of a
// sample are split into tiles of equal size. The tiles of the first sample fetch the panel after theirs, the
// others the next group's input.
void conv_group(const ConvGroup& g) {
  const std::int64_t tiles = (g.width + kMaxRows - 1) / kMaxRows;
  const std::int64_t panel_step = (kConvPanel + tiles - 1) / tiles;
  const std::int64_t passes = (g.last_panel - g.first_panel) * (g.samples - 1) * tiles * g.depth;
  const std::int64_t input_step = passes > 0 ? (g.next_size + passes - 1) / passes : 0;
  const float* input = g.next;
  for (std::int64_t panel = g.first_panel; panel < g.last_panel; ++panel) {
    const std::int64_t o = panel * kConvPanel, cols = std::min(kConvPanel, g.outputs - o);
    const float* weights = g.packed + panel * g.depth * kConvPanel;
    const float* next_panel = weights + g.depth * kConvPanel;
    for (std::int64_t sample = 0; sample < g.samples; ++sample) {
      const float* x = g.x + sample * g.x_step;
      float* y = g.y + sample * g.width * g.outputs + o;
      const std::int64_t step = sample == 0 ? panel_step : input_step;
      const float*& ahead = sample == 0 ? next_panel : input;
      for (std::int64_t tile = 0; tile < tiles; ++tile, ahead += step * g.depth) {
        const std::int64_t begin = g.width * tile / tiles, rows = g.width * (tile + 1) / tiles - begin;
#define INGOT_CALL(R)                                                                                     \
  product_tile<R>(x + begin * g.channels, g.channels, weights, g.depth, y + begin * g.outputs, g.outputs, \
                  cols, g.bias != nullptr ? g.bias + o : nullptr, g.add, ahead, step)
        INGOT_FOR_ROWS(rows, INGOT_CALL)
#undef INGOT_CALL
      }
    }
  }
}

// dw[o, c] (+)= Σ_{s,w} dy[s, w, o] · x[s, w + tap, c] for a block of samples. `left` holds dy as tiles of
// outputs (see outer_rows), `right` the padded x as panels of 32 channels.
void conv_outer(const float* left, const float* right, std::int64_t samples, std::int64_t width,
                std::int64_t padded, std::int64_t outputs, std::int64_t panels, std::int64_t taps, float* dw,
                bool add) {
  const std::int64_t tiles = (outputs + kMaxRows - 1) / kMaxRows, columns = panels * kConvPanel;
  for (std::int64_t tile = 0; tile < tiles; ++tile) {
    const std::int64_t begin = outputs * tile / tiles, rows = outputs * (tile + 1) / tiles - begin;
    const float* a = left + begin * samples * width;
    for (std::int64_t panel = 0; panel < panels; ++panel) {
      const float* b = right + panel * samples * padded * kConvPanel;
      for (std::int64_t tap = 0; tap < taps; ++tap) {
        float* c = dw + (tap * outputs + begin) * columns + panel * kConvPanel;
#define INGOT_CALL(R) \
  outer_tile<R>(a, R, b + tap * kConvPanel, samples, width, padded, c, columns, kConvPanel, add)
        INGOT_FOR_ROWS(rows, INGOT_CALL)
#undef INGOT_CALL
      }
    }
  }
}

// The tiles of outputs that conv_outer works by: [tile][sample, w][rows of the tile].
void pack_left(const float* dy, std::int64_t samples, std::int64_t width, std::int64_t outputs, float* left) {
  const std::int64_t tiles = (outputs + kMaxRows - 1) / kMaxRows;
  for (std::int64_t m = 0; m < samples * width; ++m) {
    for (std::int64_t tile = 0; tile < tiles; ++tile) {
      const std::int64_t begin = outputs * tile / tiles, rows = outputs * (tile + 1) / tiles - begin;
      float* to = left + begin * samples * width + m * rows;
      const float* from = dy + m * outputs + begin;
      for (std::int64_t i = 0; i < rows; ++i) to[i] = from[i];
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
HWY_EXPORT(conv_group);
HWY_EXPORT(conv_outer);
HWY_EXPORT(pack_left);

constexpr std::int64_t kGrainFlops = 400'000;  // about 2 µs of one core

// weight [O, C, K] to panels over the outputs: rows k·C + c.
void pack_forward(const float* weight, std::int64_t outputs, std::int64_t channels, std::int64_t taps,
                  float* packed) {
  const std::int64_t depth = channels * taps;
  parallel_for(round_up(outputs, kConvPanel) / kConvPanel, 16'384 / (depth + 1),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t panel = begin; panel < end; ++panel) {
                   float* to = packed + panel * depth * kConvPanel;
                   const std::int64_t first = panel * kConvPanel,
                                      rows = std::min(kConvPanel, outputs - first);
                   for (std::int64_t i = 0; i < depth; ++i) {  // i: c·K + k
                     float* row = to + (i % taps * channels + i / taps) * kConvPanel;
                     const float* from = weight + first * depth + i;
                     for (std::int64_t j = 0; j < kConvPanel; ++j) row[j] = j < rows ? from[j * depth] : 0.0F;
                   }
                 }
               });
}

// The same for the gradient of x: panels over the channels, rows (K − 1 − k)·O + o.
void pack_backward(const float* weight, std::int64_t outputs, std::int64_t channels, std::int64_t taps,
                   float* packed) {
  const std::int64_t depth = outputs * taps;
  parallel_for(round_up(channels, kConvPanel) / kConvPanel, 16'384 / (depth + 1),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t panel = begin; panel < end; ++panel) {
                   float* to = packed + panel * depth * kConvPanel;
                   const std::int64_t first = panel * kConvPanel,
                                      cols = std::min(kConvPanel, channels - first);
                   for (std::int64_t o = 0; o < outputs; ++o) {
                     for (std::int64_t k = 0; k < taps; ++k) {
                       float* row = to + ((taps - 1 - k) * outputs + o) * kConvPanel;
                       const float* from = weight + (o * channels + first) * taps + k;
                       for (std::int64_t j = 0; j < kConvPanel; ++j)
                         row[j] = j < cols ? from[j * taps] : 0.0F;
                     }
                   }
                 }
               });
}

struct Direct {
  const float* x;
  const float* packed;
  const float* bias;
  float* y;
  float* padded;  // a group of padded samples per thread
  std::int64_t samples, width, channels, outputs, taps, padding;
  bool add;
};

// Many samples are split over the threads; a few (inference) are computed by all threads, panel by panel.
void run_direct(const Direct& p) {
  const std::int64_t rows = p.width + 2 * p.padding, out_width = rows - p.taps + 1;
  const std::int64_t depth = p.taps * p.channels, panels = round_up(p.outputs, kConvPanel) / kConvPanel;
  const std::int64_t padded_size = round_up(rows * p.channels, 16);
  const std::int64_t size = p.width * p.channels, edge = p.padding * p.channels;
  const auto work = [&](std::int64_t part, std::int64_t n0, std::int64_t n1, std::int64_t p0,
                        std::int64_t p1) {
    float* padded = p.padded + part * kConvGroup * padded_size;
    for (std::int64_t n = n0; n < n1; n += kConvGroup) {
      const std::int64_t count = std::min(kConvGroup, n1 - n), end = n + count;
      const float* group = p.x + n * size;
      for (std::int64_t i = 0; p.padding > 0 && i < count; ++i) {
        float* to = padded + i * padded_size;
        std::fill_n(to, edge, 0.0F);
        std::copy_n(group + i * size, size, to + edge);
        std::fill_n(to + edge + size, edge, 0.0F);
      }
      HWY_DYNAMIC_DISPATCH(conv_group)
      ({.x = p.padding > 0 ? padded : group,
        .x_step = p.padding > 0 ? padded_size : size,
        .samples = count,
        .width = out_width,
        .channels = p.channels,
        .packed = p.packed,
        .depth = depth,
        .first_panel = p0,
        .last_panel = p1,
        .outputs = p.outputs,
        .bias = p.bias,
        .y = p.y + n * out_width * p.outputs,
        .add = p.add,
        .next = p.x + end * size,
        .next_size = std::min(kConvGroup, n1 - end) * size});
    }
  };
  const std::int64_t threads = num_threads(), flops = 2 * out_width * depth * p.outputs;
  const std::int64_t busy = std::min<std::int64_t>(threads, 1 + p.samples * flops / kGrainFlops);
  const bool by_sample = p.samples >= 4 * threads || p.samples % threads == 0;
  const std::int64_t items = by_sample ? p.samples : panels, parts = std::min(busy, items);
  parallel_for(parts, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t part = begin; part < end; ++part) {
      const std::int64_t i0 = items * part / parts, i1 = items * (part + 1) / parts;
      by_sample ? work(part, i0, i1, 0, panels) : work(part, 0, p.samples, i0, i1);
    }
  });
}

bool accepts_forward(const ConvArgs& args) { return is_plain_1d_conv(args.geometry, args.x, args.weight); }

void forward(const ConvArgs& args, Stream) {
  const std::int64_t c = args.x.dim(3), o = args.weight.dim(0), k = args.weight.dim(3);
  float* packed = args.scratch.as<float>();
  pack_forward(args.weight.as<float>(), o, c, k, packed);
  run_direct({args.x.as<float>(), packed, args.bias.as<float>(), args.y.as<float>(),
              packed + round_up(o, kConvPanel) * k * c, args.x.dim(0), args.x.dim(2), c, o, k,
              args.geometry.padding[1], false});
}

bool accepts_backward_data(const ConvBackwardDataArgs& args) {
  return is_plain_1d_conv(args.geometry, args.dx, args.weight) &&
         args.geometry.padding[1] < args.weight.dim(3);
}

void backward_data(const ConvBackwardDataArgs& args, Stream) {
  const std::int64_t c = args.dx.dim(3), o = args.weight.dim(0), k = args.weight.dim(3);
  float* packed = args.scratch.as<float>();
  pack_backward(args.weight.as<float>(), o, c, k, packed);
  run_direct({args.dy.as<float>(), packed, nullptr, args.dx.as<float>(),
              packed + round_up(c, kConvPanel) * k * o, args.dy.dim(0), args.dy.dim(2), o, c, k,
              k - 1 - args.geometry.padding[1], args.accumulate});
}

bool accepts_backward_weight(const ConvBackwardWeightArgs& args) {
  return args.dweight && is_plain_1d_conv(args.geometry, args.x, args.dweight);
}

// x as [panel][sample, padded row][32 channels].
void pack_right(const float* x, std::int64_t samples, std::int64_t width, std::int64_t padding,
                std::int64_t channels, float* right) {
  const std::int64_t rows = width + 2 * padding, panels = round_up(channels, kConvPanel) / kConvPanel;
  for (std::int64_t panel = 0; panel < panels; ++panel) {
    const std::int64_t first = panel * kConvPanel;
    const auto cols = static_cast<std::size_t>(std::min(kConvPanel, channels - first));
    for (std::int64_t s = 0; s < samples; ++s) {
      float* to = right + (panel * samples + s) * rows * kConvPanel;
      std::fill_n(to, padding * kConvPanel, 0.0F);
      std::fill_n(to + (padding + width) * kConvPanel, padding * kConvPanel, 0.0F);
      for (std::int64_t w = 0; w < width; ++w) {
        float* row = to + (padding + w) * kConvPanel;
        std::memcpy(row, x + (s * width + w) * channels + first, cols * sizeof(float));
        std::fill(row + cols, row + kConvPanel, 0.0F);
      }
    }
  }
}

// Threads sum their samples apart; the parts are added in order at the end.
void backward_weight(const ConvBackwardWeightArgs& args, Stream) {
  const std::int64_t n = args.x.dim(0), width = args.x.dim(2), c = args.x.dim(3),
                     padding = args.geometry.padding[1];
  const std::int64_t o = args.dy.dim(3), out_width = args.dy.dim(2), k = args.dweight.dim(3);
  const std::int64_t columns = round_up(c, kConvPanel), rows = width + 2 * padding;
  const std::int64_t sum_size = k * o * columns;
  const std::int64_t left_size = kConvBlock * out_width * round_up(o + 12, 16);
  const std::int64_t part_size = sum_size + kConvBlock * rows * columns + left_size;
  const std::int64_t flops = 2 * n * out_width * k * o * c;
  const std::int64_t parts =
      std::max<std::int64_t>(1, std::min<std::int64_t>({num_threads(), n, 1 + flops / kGrainFlops}));
  float* scratch = args.scratch.as<float>();
  parallel_for(parts, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t part = begin; part < end; ++part) {
      float* sum = scratch + part * part_size;
      float* right = sum + sum_size;
      float* left = right + kConvBlock * rows * columns;
      const std::int64_t n0 = n * part / parts, n1 = n * (part + 1) / parts;
      if (n0 == n1) std::fill_n(sum, sum_size, 0.0F);
      for (std::int64_t s = n0; s < n1; s += kConvBlock) {
        const std::int64_t samples = std::min(kConvBlock, n1 - s);
        pack_right(args.x.as<float>() + s * width * c, samples, width, padding, c, right);
        HWY_DYNAMIC_DISPATCH(pack_left)
        (args.dy.as<float>() + s * out_width * o, samples, out_width, o, left);
        HWY_DYNAMIC_DISPATCH(conv_outer)
        (left, right, samples, out_width, rows, o, columns / kConvPanel, k, sum, s != n0);
      }
    }
  });
  float* dw = args.dweight.as<float>();
  parallel_for(o, 16'384 / (c * k + 1), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      for (std::int64_t t = 0; t < k; ++t) {
        float* total = scratch + (t * o + i) * columns;
        for (std::int64_t part = 1; part < parts; ++part) {
          const float* from = total + part * part_size;
          for (std::int64_t j = 0; j < c; ++j) total[j] += from[j];
        }
        float* to = dw + i * c * k + t;
        for (std::int64_t j = 0; j < c; ++j)
          to[j * k] = (args.accumulate_dweight ? to[j * k] : 0.0F) + total[j];
      }
    }
  });
  if (!args.dbias) return;
  const float* dy = args.dy.as<float>();
  parallel_for(o, std::max<std::int64_t>(16, 16'384 / (n * out_width + 1)),
               [&](std::int64_t begin, std::int64_t end) {
                 float* db = args.dbias.as<float>();
                 if (!args.accumulate_dbias) std::fill(db + begin, db + end, 0.0F);
                 for (std::int64_t m = 0; m < n * out_width; ++m) {
                   for (std::int64_t i = begin; i < end; ++i) db[i] += dy[m * o + i];
                 }
               });
}

bool accepts_packed(const ConvPackedArgs& args) { return args.x.dtype == DType::f32; }

void packed_forward(const ConvPackedArgs& args, Stream) {
  const std::int64_t c = args.x.dim(2), k = args.packed.dim(1) / c;
  run_direct({args.x.as<float>(), args.packed.as<float>(), args.bias.as<float>(), args.y.as<float>(),
              args.scratch.as<float>(), args.x.dim(0), args.x.dim(1), c, args.y.dim(2), k, args.padding,
              false});
}

bool accepts_pack(const ConvPackArgs& args) { return args.weight.dtype == DType::f32; }

void pack(const ConvPackArgs& args, Stream) {
  pack_forward(args.weight.as<float>(), args.weight.dim(0), args.weight.dim(1), args.weight.dim(2),
               args.packed.as<float>());
}

}  // namespace

void register_conv_simd() {
  conv.add(DeviceType::cpu, {"direct", ImplKind::simd, accepts_forward, forward});
  conv_backward_data.add(DeviceType::cpu, {"direct", ImplKind::simd, accepts_backward_data, backward_data});
  conv_backward_weight.add(DeviceType::cpu,
                           {"direct", ImplKind::simd, accepts_backward_weight, backward_weight});
  conv_packed.add(DeviceType::cpu, {"direct", ImplKind::simd, accepts_packed, packed_forward});
  conv_pack.add(DeviceType::cpu, {"direct", ImplKind::simd, accepts_pack, pack});
}

}  // namespace ingot::kernels::cpu
#endif  // HWY_ONCE
