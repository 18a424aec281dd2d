#include "ingot/kernels/causal_conv.h"

#include <algorithm>

#include "ingot/base/parallel.h"
#include "ingot/kernels/cpu/register.h"
#include "ingot/kernels/cpu/simd/convert.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ingot/kernels/cpu/simd/causal_conv.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ingot/kernels/cpu/simd/lanes-inl.h"
#include "ingot/kernels/cpu/simd/loops-inl.h"

#ifndef INGOT_CAUSAL_CONV_BLOCK
#define INGOT_CAUSAL_CONV_BLOCK
namespace ingot::kernels::cpu {
namespace {

constexpr std::int64_t kMostTaps = 8;

// Channels [first, first + channels) of rows [begin, end) of one sequence: the taps and sums of so many
// channels stay in L1.
struct CausalConvBlock {
  static constexpr std::int64_t kChannels = 64, kRows = 128;
  std::int64_t sequence, begin, end, first, channels;
};

}  // namespace
}  // namespace ingot::kernels::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace ingot::kernels::cpu {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

// Rows of one sequence that a step meets, each with its taps; rows that count as zeros are left out.
template <class T>
struct MetRows {
  const T* rows[kMostTaps];
  const float* taps[kMostTaps];
  int count = 0;
  HWY_INLINE void add(const T* row, const float* with) {
    rows[count] = row;
    taps[count++] = with;
  }
  // y = offset + Σ taps · rows, or y += that.
  HWY_INLINE void sum(const float* offset, std::int64_t channels, T* y, bool accumulate) const {
    for_vectors(channels, [&](auto d, std::int64_t c) HWY_ATTR {
      auto total = hn::LoadU(d, offset + c);
      for (int i = 0; i < count; ++i)
        total = hn::MulAdd(hn::LoadU(d, taps[i] + c), load_lanes(d, rows[i] + c), total);
      store_lanes(d, total, y + c, accumulate);
    });
  }
};

// The taps of a block's channels, [taps, channels].
struct BlockTaps {
  float values[kMostTaps][CausalConvBlock::kChannels];
  template <class T>
  HWY_INLINE void read(const View& weight, const T* from, const CausalConvBlock& block) {
    const std::int64_t taps = weight.dim(1);
    for (std::int64_t c = 0; c < block.channels; ++c)
      for (std::int64_t k = 0; k < taps; ++k)
        values[k][c] = static_cast<float>(from[(block.first + c) * taps + k]);
  }
};

std::int64_t first_seen(const View& starts, const CausalConvBlock& block, std::int64_t t) {
  return starts ? std::max<std::int64_t>(starts.as<std::int32_t>()[block.sequence * starts.dim(1) + t], 0)
                : 0;
}

template <class T>
void convolve(const CausalConvArgs& args, const CausalConvBlock& block) {
  const std::int64_t length = args.x.dim(1), width = args.x.dim(2), taps = args.weight.dim(1);
  const T* x = args.x.as<T>() + block.sequence * length * width + block.first;
  const T* past = args.past ? args.past.as<T>() + block.sequence * (taps - 1) * width + block.first : nullptr;
  T* y = args.y.as<T>() + block.sequence * length * width + block.first;
  BlockTaps w;
  w.read(args.weight, args.weight.as<T>(), block);
  float offset[CausalConvBlock::kChannels] = {};
  for (std::int64_t c = 0; args.bias && c < block.channels; ++c)
    offset[c] = static_cast<float>(args.bias.as<T>()[block.first + c]);
  for (std::int64_t t = block.begin; t < block.end; ++t) {
    const std::int64_t first = first_seen(args.starts, block, t);
    MetRows<T> met;
    for (std::int64_t k = 0; k < taps; ++k) {
      const std::int64_t s = t - taps + 1 + k;
      if (s >= first) {
        met.add(x + s * width, w.values[k]);
      } else if (s < 0 && past != nullptr) {
        met.add(past + (s + taps - 1) * width, w.values[k]);
      }
    }
    met.sum(offset, block.channels, y + t * width, false);
  }
}

template <class T>
void input_gradient(const CausalConvBackwardArgs& args, const CausalConvBlock& block) {
  const std::int64_t length = args.dy.dim(1), width = args.dy.dim(2), taps = args.weight.dim(1);
  const std::int64_t offset = block.sequence * length * width + block.first;
  BlockTaps w;
  w.read(args.weight, args.weight.as<T>(), block);
  const float zeros[CausalConvBlock::kChannels] = {};
  for (std::int64_t s = block.begin; s < block.end; ++s) {
    MetRows<T> met;
    for (std::int64_t t = s; t < std::min(s + taps, length); ++t) {
      if (first_seen(args.starts, block, t) <= s)
        met.add(args.dy.as<T>() + offset + t * width, w.values[s - t + taps - 1]);
    }
    met.sum(zeros, block.channels, args.dx.as<T>() + offset + s * width, args.accumulate_dx);
  }
}

// The sums of a block's channels over all rows; row kMostTaps is the bias'.
struct BlockSums {
  float values[kMostTaps + 1][CausalConvBlock::kChannels] = {};
  HWY_INLINE void add(const BlockSums& other, std::int64_t taps) {
    for (std::int64_t k = 0; k <= kMostTaps; ++k)
      for (std::int64_t c = 0; (k < taps || k == kMostTaps) && c < CausalConvBlock::kChannels; ++c)
        values[k][c] += other.values[k][c];
  }
};

// Those of some rows alone, so that no long sum loses digits.
template <class T>
BlockSums sums_of_rows(const CausalConvBackwardArgs& args, const CausalConvBlock& block) {
  const std::int64_t width = args.dy.dim(2), taps = args.weight.dim(1);
  const std::int64_t offset = block.sequence * args.dy.dim(1) * width + block.first;
  BlockSums sums;
  for (std::int64_t t = block.begin; t < block.end; ++t) {
    const T* dy = args.dy.as<T>() + offset + t * width;
    const std::int64_t first = first_seen(args.starts, block, t);
    for (std::int64_t k = 0; args.dweight && k < taps; ++k) {
      const std::int64_t s = t - taps + 1 + k;
      if (s < first) continue;
      const T* x = args.x.as<T>() + offset + s * width;
      for_vectors(block.channels, [&](auto d, std::int64_t c) HWY_ATTR {
        float* to = sums.values[k] + c;
        hn::StoreU(hn::MulAdd(load_lanes(d, dy + c), load_lanes(d, x + c), hn::LoadU(d, to)), d, to);
      });
    }
    for_vectors(block.channels, [&](auto d, std::int64_t c) HWY_ATTR {
      float* to = sums.values[kMostTaps] + c;
      hn::StoreU(hn::Add(load_lanes(d, dy + c), hn::LoadU(d, to)), d, to);
    });
  }
  return sums;
}

template <class T>
void weight_gradient(const CausalConvBackwardArgs& args, CausalConvBlock block) {
  const std::int64_t length = args.dy.dim(1), taps = args.weight.dim(1);
  BlockSums sums;
  for (block.sequence = 0; block.sequence < args.dy.dim(0); ++block.sequence) {
    for (block.begin = 0; block.begin < length; block.begin = block.end) {
      block.end = std::min(block.begin + CausalConvBlock::kRows, length);
      sums.add(sums_of_rows<T>(args, block), taps);
    }
  }
  const auto put = [](T& to, float value, bool accumulate) {
    to = static_cast<T>(accumulate ? static_cast<float>(to) + value : value);
  };
  for (std::int64_t c = 0; c < block.channels; ++c) {
    for (std::int64_t k = 0; args.dweight && k < taps; ++k)
      put(args.dweight.as<T>()[(block.first + c) * taps + k], sums.values[k][c], args.accumulate_dweight);
    if (args.dbias)
      put(args.dbias.as<T>()[block.first + c], sums.values[kMostTaps][c], args.accumulate_dbias);
  }
}

void convolve_block(const CausalConvArgs& args, const CausalConvBlock& block) {
  if (args.x.dtype == DType::f32) return convolve<float>(args, block);
  if (args.x.dtype == DType::bf16) return convolve<bf16>(args, block);
  convolve<f16>(args, block);
}

void input_gradient_of_block(const CausalConvBackwardArgs& args, const CausalConvBlock& block) {
  if (args.dy.dtype == DType::f32) return input_gradient<float>(args, block);
  if (args.dy.dtype == DType::bf16) return input_gradient<bf16>(args, block);
  input_gradient<f16>(args, block);
}

void weight_gradient_of_block(const CausalConvBackwardArgs& args, const CausalConvBlock& block) {
  if (args.dy.dtype == DType::f32) return weight_gradient<float>(args, block);
  if (args.dy.dtype == DType::bf16) return weight_gradient<bf16>(args, block);
  weight_gradient<f16>(args, block);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace ingot::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ingot::kernels::cpu {
namespace {
HWY_EXPORT(convolve_block);
HWY_EXPORT(input_gradient_of_block);
HWY_EXPORT(weight_gradient_of_block);

constexpr std::int64_t kGrainOfElements = 16'384;

bool takes_taps(const View& x, const View& weight) {
  return is_simd_float(x.dtype) && weight.dim(1) <= kMostTaps;
}

// f(block) for the blocks of x [B, T, C]; neighbours share their rows.
template <class F>
void for_conv_blocks(const View& x, F&& f) {
  constexpr std::int64_t kChannels = CausalConvBlock::kChannels, kRows = CausalConvBlock::kRows;
  const std::int64_t length = x.dim(1), width = x.dim(2);
  const std::int64_t across = (width + kChannels - 1) / kChannels, down = (length + kRows - 1) / kRows;
  const std::int64_t elements = kChannels * std::min(length, kRows);
  parallel_for(x.dim(0) * down * across, 1 + kGrainOfElements / (elements + 1),
               [&](std::int64_t first, std::int64_t last) {
                 for (std::int64_t i = first; i < last; ++i) {
                   const std::int64_t row = i / across % down * kRows, channel = i % across * kChannels;
                   f(CausalConvBlock{i / across / down, row, std::min(row + kRows, length), channel,
                                     std::min(kChannels, width - channel)});
                 }
               });
}

bool takes_conv(const CausalConvArgs& args) { return takes_taps(args.x, args.weight); }

void run_causal_conv(const CausalConvArgs& args, Stream) {
  for_conv_blocks(args.x, [&](const CausalConvBlock& block) {
    HWY_DYNAMIC_DISPATCH(convolve_block)(args, block);
  });
}

bool takes_conv_backward(const CausalConvBackwardArgs& args) { return takes_taps(args.dy, args.weight); }

void run_causal_conv_backward(const CausalConvBackwardArgs& args, Stream) {
  if (args.dx) {
    for_conv_blocks(args.dy, [&](const CausalConvBlock& block) {
      HWY_DYNAMIC_DISPATCH(input_gradient_of_block)(args, block);
    });
  }
  if (!args.dweight && !args.dbias) return;
  constexpr std::int64_t kChannels = CausalConvBlock::kChannels;
  const std::int64_t width = args.dy.dim(2), rows = args.dy.dim(0) * args.dy.dim(1);
  parallel_for((width + kChannels - 1) / kChannels, 1 + kGrainOfElements / (rows * kChannels + 1),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t first = begin * kChannels; first < std::min(end * kChannels, width);
                      first += kChannels) {
                   HWY_DYNAMIC_DISPATCH(weight_gradient_of_block)
                   (args, {0, 0, 0, first, std::min(kChannels, width - first)});
                 }
               });
}

}  // namespace

void register_causal_conv_simd() {
  causal_conv.add(DeviceType::cpu, {"simd", ImplKind::simd, takes_conv, run_causal_conv});
  causal_conv_backward.add(DeviceType::cpu,
                           {"simd", ImplKind::simd, takes_conv_backward, run_causal_conv_backward});
}

}  // namespace ingot::kernels::cpu
#endif  // HWY_ONCE
