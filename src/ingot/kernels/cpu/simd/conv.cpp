#include "ingot/kernels/conv.h"

#include <algorithm>
#include <cstring>

#include "ingot/base/parallel.h"
#include "ingot/kernels/cpu/register.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ingot/kernels/cpu/simd/conv.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

// Channels-last 1-d convolution of stride 1 is a matrix product without im2col: in a sample with its zero
// padding, row w of the patch matrix is the K·C contiguous floats that start at pixel w. The tiles below keep
// up to 12 × 32 outputs in registers; the weights lie in panels of 32 columns.

HWY_BEFORE_NAMESPACE();
namespace ingot::kernels::cpu {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;

constexpr int kMaxRows = HWY_MAX_BYTES >= 64 ? 12 : 6;  // of 32 or 16 registers; two columns of registers

// Writes (or adds) a register tile; `cols` of the 2 · lanes columns exist.
template <int R>
HWY_INLINE void store_tile(const hn::Vec<D>* acc0, const hn::Vec<D>* acc1, float* c, std::int64_t cs,
                           std::int64_t cols, const float* bias, bool add) {
  const D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  if (cols >= 2 * lanes) {
    const auto bias0 = bias != nullptr ? hn::LoadU(d, bias) : hn::Zero(d);
    const auto bias1 = bias != nullptr ? hn::LoadU(d, bias + lanes) : hn::Zero(d);
#pragma GCC unroll 12
    for (int i = 0; i < R; ++i) {
      float* row = c + i * cs;
      const auto base0 = add ? hn::LoadU(d, row) : bias0;
      const auto base1 = add ? hn::LoadU(d, row + lanes) : bias1;
      hn::StoreU(hn::Add(acc0[i], base0), d, row);
      hn::StoreU(hn::Add(acc1[i], base1), d, row + lanes);
    }
    return;
  }
  HWY_ALIGN float edge[2 * HWY_MAX_BYTES / sizeof(float)];
#pragma GCC unroll 12
  for (int i = 0; i < R; ++i) {
    hn::Store(acc0[i], d, edge);
    hn::Store(acc1[i], d, edge + lanes);
    for (std::int64_t j = 0; j < cols; ++j) {
      c[i * cs + j] = edge[j] + (add ? c[i * cs + j] : (bias != nullptr ? bias[j] : 0.0F));
    }
  }
}

// c[i, :] = Σ_k a[i·as + k] · b[k, :] for R rows and `cols` ≤ 32 columns. On the way it asks for the data at
// `ahead`, `ahead_step` floats per k: what the calling thread needs next.
template <int R>
HWY_NOINLINE void product_tile(const float* a, std::int64_t as, const float* b, std::int64_t k, float* c,
                               std::int64_t cs, std::int64_t cols, const float* bias, bool add,
                               const float* ahead, std::int64_t ahead_step) {
  const D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (int i = 0; i < R; ++i) {
    __builtin_prefetch(c + i * cs, 1);
    __builtin_prefetch(c + i * cs + kConvPanel / 2, 1);
  }
  for (std::int64_t j = 0; j < cols; j += 2 * lanes) {
    hn::Vec<D> acc0[R], acc1[R];
#pragma GCC unroll 12
    for (int i = 0; i < R; ++i) acc0[i] = acc1[i] = hn::Zero(d);
    // One base pointer for each three rows, hidden from the optimiser, which would otherwise keep a pointer
    // per row and spill them all.
    const float* base[(R + 2) / 3];
#pragma GCC unroll 4
    for (int g = 0; g < (R + 2) / 3; ++g) {
      base[g] = a + 3 * g * as;
      asm("" : "+r"(base[g]));
    }
    const float* panel = b + j;
    for (std::int64_t kk = 0; kk < k; ++kk) {
      const auto b0 = hn::LoadU(d, panel), b1 = hn::LoadU(d, panel + lanes);
      panel += kConvPanel;
      __builtin_prefetch(ahead, 0, 2);
      ahead += ahead_step;
#pragma GCC unroll 12
      for (int i = 0; i < R; ++i) {
        const auto v = hn::Set(d, base[i / 3][(i % 3) * as]);
        acc0[i] = hn::MulAdd(v, b0, acc0[i]);
        acc1[i] = hn::MulAdd(v, b1, acc1[i]);
      }
#pragma GCC unroll 4
      for (int g = 0; g < (R + 2) / 3; ++g) ++base[g];
    }
    store_tile<R>(acc0, acc1, c + j, cs, cols - j, bias != nullptr ? bias + j : nullptr, add);
  }
}

// c[i, :] (+)= Σ_{s,w} a[s, w, i] · b[s, w, :]: `samples` blocks of `rows` rows, R apart in `a`; in `b` the
// blocks are `block` rows of 32 apart.
template <int R>
HWY_NOINLINE void outer_tile(const float* a, const float* b, std::int64_t samples, std::int64_t rows,
                             std::int64_t block, float* c, std::int64_t cs, std::int64_t cols, bool add) {
  const D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (std::int64_t j = 0; j < cols; j += 2 * lanes) {
    hn::Vec<D> acc0[R], acc1[R];
#pragma GCC unroll 12
    for (int i = 0; i < R; ++i) acc0[i] = acc1[i] = hn::Zero(d);
    const float* left = a;
    for (std::int64_t s = 0; s < samples; ++s) {
      const float* right = b + s * block * kConvPanel + j;
      for (std::int64_t w = 0; w < rows; ++w) {
        const auto b0 = hn::LoadU(d, right), b1 = hn::LoadU(d, right + lanes);
        right += kConvPanel;
#pragma GCC unroll 12
        for (int i = 0; i < R; ++i) {
          const auto v = hn::Set(d, left[i]);
          acc0[i] = hn::MulAdd(v, b0, acc0[i]);
          acc1[i] = hn::MulAdd(v, b1, acc1[i]);
        }
        left += R;
      }
    }
    store_tile<R>(acc0, acc1, c + j, cs, cols - j, nullptr, add);
  }
}

#define INGOT_FOR_ROWS(rows, call) \
  switch (rows) {                  \
    case 1:                        \
      call(1);                     \
      break;                       \
    case 2:                        \
      call(2);                     \
      break;                       \
    case 3:                        \
      call(3);                     \
      break;                       \
    case 4:                        \
      call(4);                     \
      break;                       \
    case 5:                        \
      call(5);                     \
      break;                       \
    case 6:                        \
      call(6);                     \
      break;                       \
    default:                       \
      break;                       \
  }                                \
  if constexpr (kMaxRows > 6) {    \
    switch (rows) {                \
      case 7:                      \
        call(7);                   \
        break;                     \
      case 8:                      \
        call(8);                   \
        break;                     \
      case 9:                      \
        call(9);                   \
        break;                     \
      case 10:                     \
        call(10);                  \
        break;                     \
      case 11:                     \
        call(11);                  \
        break;                     \
      case 12:                     \
        call(12);                  \
        break;                     \
      default:                     \
        break;                     \
    }                              \
  }

// One sample and a range of panels: y[w, o] = Σ patch(w) · packed, with rows split into tiles of equal size.
// `next` is the next sample's input, or null to fetch the next panel of weights ahead instead.
void conv_sample(const float* padded, std::int64_t channels, const float* packed, std::int64_t depth,
                 std::int64_t first_panel, std::int64_t last_panel, const float* bias, float* y,
                 std::int64_t width, std::int64_t outputs, bool add, const float* next) {
  const std::int64_t tiles = (width + kMaxRows - 1) / kMaxRows;
  const std::int64_t passes = tiles * (last_panel - first_panel);
  // Spread over all passes: a sample of `width` rows, or over the tiles of a panel: the panel after it.
  const std::int64_t step = next != nullptr ? (width * channels + passes * depth - 1) / (passes * depth)
                                            : (kConvPanel + tiles - 1) / tiles;
  for (std::int64_t panel = first_panel; panel < last_panel; ++panel) {
    const std::int64_t o = panel * kConvPanel, cols = std::min(kConvPanel, outputs - o);
    const float* weights = packed + panel * depth * kConvPanel;
    for (std::int64_t tile = 0; tile < tiles; ++tile) {
      const std::int64_t begin = width * tile / tiles, rows = width * (tile + 1) / tiles - begin;
      const float* ahead = next != nullptr ? next + ((panel - first_panel) * tiles + tile) * depth * step
                                           : weights + depth * kConvPanel + tile * depth * step;
#define INGOT_CALL(R)                                                                                    \
  product_tile<R>(padded + begin * channels, channels, weights, depth, y + begin * outputs + o, outputs, \
                  cols, bias != nullptr ? bias + o : nullptr, add, ahead, step)
      INGOT_FOR_ROWS(rows, INGOT_CALL)
#undef INGOT_CALL
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
  outer_tile<R>(a, b + tap * kConvPanel, samples, width, padded, c, columns, kConvPanel, add)
        INGOT_FOR_ROWS(rows, INGOT_CALL)
#undef INGOT_CALL
      }
    }
  }
}
#undef INGOT_FOR_ROWS

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
HWY_EXPORT(conv_sample);
HWY_EXPORT(conv_outer);
HWY_EXPORT(pack_left);

constexpr std::int64_t kGrainFlops = 400'000;  // about 2 µs of one core

bool is_plain_1d(const ConvGeometry& g, const View& x, std::int64_t kernel_height) {
  return x.dtype == DType::f32 && g.channels_last && x.dim(1) == 1 && kernel_height == 1 &&
         g.padding[0] == 0 && g.stride[1] == 1 && g.dilation[1] == 1 && g.groups == 1;
}

// weight [O, C, K] to panels over the outputs: rows k·C + c.
void pack_forward(const float* weight, std::int64_t outputs, std::int64_t channels, std::int64_t taps,
                  float* packed) {
  const std::int64_t depth = channels * taps;
  parallel_for(round_up(outputs, kConvPanel) / kConvPanel, 16'384 / (depth + 1),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t o = begin * kConvPanel; o < end * kConvPanel; ++o) {
                   float* to = packed + o / kConvPanel * depth * kConvPanel + o % kConvPanel;
                   for (std::int64_t c = 0; c < channels; ++c) {
                     for (std::int64_t k = 0; k < taps; ++k) {
                       to[(k * channels + c) * kConvPanel] =
                           o < outputs ? weight[o * depth + c * taps + k] : 0.0F;
                     }
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
  float* padded;  // one padded sample per thread
  std::int64_t samples, width, channels, outputs, taps, padding;
  bool add;
};

// Many samples are split over the threads; a few (inference) are computed by all threads, panel by panel.
void run_direct(const Direct& p) {
  const std::int64_t rows = p.width + 2 * p.padding, out_width = rows - p.taps + 1;
  const std::int64_t depth = p.taps * p.channels, panels = round_up(p.outputs, kConvPanel) / kConvPanel;
  const std::int64_t padded_size = round_up(rows * p.channels, 16);
  const auto work = [&](std::int64_t part, std::int64_t n0, std::int64_t n1, std::int64_t p0,
                        std::int64_t p1) {
    float* padded = p.padded + part * padded_size;
    const auto edge = static_cast<std::size_t>(p.padding * p.channels) * sizeof(float);
    const auto inner = static_cast<std::size_t>(p.width * p.channels) * sizeof(float);
    if (p.padding > 0) {
      std::memset(padded, 0, edge);
      std::memset(padded + (p.padding + p.width) * p.channels, 0, edge);
    }
    for (std::int64_t n = n0; n < n1; ++n) {
      const float* sample = p.x + n * p.width * p.channels;
      if (p.padding > 0) {
        std::memcpy(padded + p.padding * p.channels, sample, inner);
        sample = padded;
      }
      HWY_DYNAMIC_DISPATCH(conv_sample)
      (sample, p.channels, p.packed, depth, p0, p1, p.bias, p.y + n * out_width * p.outputs, out_width,
       p.outputs, p.add, n + 1 < n1 ? p.x + (n + 1) * p.width * p.channels : nullptr);
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

bool accepts_forward(const ConvArgs& args) { return is_plain_1d(args.geometry, args.x, args.weight.dim(2)); }

void forward(const ConvArgs& args, Stream) {
  const std::int64_t c = args.x.dim(3), o = args.weight.dim(0), k = args.weight.dim(3);
  float* packed = args.scratch.as<float>();
  pack_forward(args.weight.as<float>(), o, c, k, packed);
  run_direct({args.x.as<float>(), packed, args.bias.as<float>(), args.y.as<float>(),
              packed + round_up(o, kConvPanel) * k * c, args.x.dim(0), args.x.dim(2), c, o, k,
              args.geometry.padding[1], false});
}

bool accepts_backward_data(const ConvBackwardDataArgs& args) {
  return is_plain_1d(args.geometry, args.dx, args.weight.dim(2)) &&
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
  return args.dweight && is_plain_1d(args.geometry, args.x, args.dweight.dim(2));
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
      for (std::int64_t j = 0; j < c; ++j) {
        for (std::int64_t t = 0; t < k; ++t) {
          float& to = dw[(i * c + j) * k + t];
          float total = args.accumulate_dweight ? to : 0.0F;
          for (std::int64_t part = 0; part < parts; ++part) {
            total += scratch[part * part_size + (t * o + i) * columns + j];
          }
          to = total;
        }
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
