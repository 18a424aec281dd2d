#include "ingot/kernels/quantized.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "ingot/base/parallel.h"
#include "ingot/kernels/cpu/int8_rounding.h"
#include "ingot/kernels/cpu/packed_block.h"
#include "ingot/kernels/cpu/register.h"

namespace ingot::kernels::cpu {
namespace {

void round_block(const float* x, std::int64_t n, ActivationBlock& block) {
  const Int8Rounding rounding(x, n);
  block = {};
  block.scale = rounding.scale;
  for (std::int64_t i = 0; i < n; ++i) {
    const std::int8_t code = rounding.code(x[i]);
    block.codes[static_cast<std::size_t>(i)] = code;
    block.negative_half_sums[static_cast<std::size_t>(i / 16)] -= code;
  }
  block.negative_sum = block.negative_half_sums[0] + block.negative_half_sums[1];
  block.scaled_sum = block.scale * static_cast<float>(-block.negative_sum);
}

void round_rows(const QuantizeActivationsArgs& args, Stream) {
  const std::int64_t k = args.x.dim(-1), blocks = args.y.dim(-1) / 64;
  parallel_for(args.x.dim(0), 1 + 16384 / std::max<std::int64_t>(k, 1),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t row = begin; row < end; ++row) {
                   const float* x = args.x.as<float>() + row * args.x.stride(0);
                   auto* y = args.y.as<ActivationBlock>() + row * blocks;
                   for (std::int64_t b = 0; b < blocks; ++b)
                     round_block(x + b * 32, std::clamp<std::int64_t>(k - b * 32, 0, 32), y[b]);
                 }
               });
}

float row_dot(const PackedLayout& layout, const std::uint8_t* panel, std::int64_t row,
              const ActivationBlock* x, std::int64_t blocks) {
  float y = 0;
  for (std::int64_t b = 0; b < blocks; ++b) {
    const PackedRow w = read_packed_row(layout, panel, row, b);
    const bool halves = layout.scales == PackedScales::super_halves;
    for (std::size_t half = 0; half < (halves ? 2 : 1); ++half) {
      std::int32_t dot = 0;
      for (std::size_t i = half * 16; i < (halves ? half * 16 + 16 : 32); ++i)
        dot += w.codes[i] * x[b].codes[i];
      y = std::fma(static_cast<float>(dot), w.scale[half] * x[b].scale, y);
    }
    if (layout.zero_shift < 0) y = std::fma(w.minimum, x[b].scaled_sum, y);
  }
  return y;
}

constexpr auto kHeader = static_cast<std::int64_t>(sizeof(ActivationRow));
constexpr std::int64_t kSpanBlocks = kPackedSpan / kPackedBlock;

// A span of a row of the weight, rounded anew.
struct Span {
  float scale;
  std::array<std::int32_t, kPackedSpan> codes{};
};

Span requantized(const PackedLayout& layout, const std::uint8_t* panel, std::int64_t row, std::int64_t first,
                 std::int64_t blocks, int most) {
  std::array<PackedRow, kSpanBlocks> rows;
  float top = 0;
  for (std::int64_t b = 0; b < blocks; ++b) {
    const PackedRow& w = rows[static_cast<std::size_t>(b)] = read_packed_row(layout, panel, row, first + b);
    for (std::size_t i = 0; i < w.codes.size(); ++i) {
      const float value = std::abs(std::fma(static_cast<float>(w.codes[i]), w.scale[i / 16], w.minimum));
      if (value > top || std::isnan(value)) top = value;
    }
  }
  const CodeScale rounding(top, most);
  Span span{.scale = rounding.scale};
  if (rounding.inverse == 0) return span;
  for (std::int64_t i = 0; i < blocks * kPackedBlock; ++i) {
    const PackedRow& w = rows[static_cast<std::size_t>(i / kPackedBlock)];
    const auto at = static_cast<std::size_t>(i % kPackedBlock);
    const float value = std::fma(static_cast<float>(w.codes[at]), w.scale[at / 16] * rounding.inverse,
                                 w.minimum * rounding.inverse);
    span.codes[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(std::nearbyint(value));
  }
  return span;
}

// What a span of x adds to y: with int16 codes, and with int8 blocks.
float add_span(const Span& w, const ActivationSpan& x, float y) {
  std::int32_t dot = 0;
  for (std::size_t i = 0; i < x.codes.size(); ++i) dot += w.codes[i] * x.codes[i];
  return std::fma(static_cast<float>(dot), w.scale * x.scale, y);
}

float add_span(const Span& w, const ActivationBlock* x, std::int64_t blocks, float y) {
  float sum = 0;
  for (std::int64_t b = 0; b < blocks; ++b) {
    std::int32_t dot = 0;
    for (std::int64_t i = 0; i < kPackedBlock; ++i)
      dot +=
          w.codes[static_cast<std::size_t>(b * kPackedBlock + i)] * x[b].codes[static_cast<std::size_t>(i)];
    sum = std::fma(static_cast<float>(dot), x[b].scale, sum);
  }
  return std::fma(sum, w.scale, y);
}

template <class Add>
void multiply_spans(const QuantizedMatmulArgs& args, int most, Add&& add) {
  const PackedLayout layout = packed_layout(args.format);
  const std::int64_t blocks = packed_blocks(layout, args.weight);
  parallel_for(args.y.dim(-1), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t col = begin; col < end; ++col) {
      const std::uint8_t* panel = args.weight.as<std::uint8_t>() + col / kPanelRows * args.weight.dim(-1);
      float* y = args.y.as<float>() + col;
      for (std::int64_t row = 0; row < args.y.dim(0); ++row)
        y[row * args.y.stride(0)] = args.bias ? args.bias.as<float>()[col] : 0;
      for (std::int64_t s = 0; s * kSpanBlocks < blocks; ++s) {
        const std::int64_t there = std::min(kSpanBlocks, blocks - s * kSpanBlocks);
        const Span w = requantized(layout, panel, col % kPanelRows, s * kSpanBlocks, there, most);
        for (std::int64_t row = 0; row < args.y.dim(0); ++row) {
          float& to = y[row * args.y.stride(0)];
          to = add(w, args.x.as<std::uint8_t>() + row * args.x.stride(0), s, there, to);
        }
      }
    }
  });
}

void multiply(const QuantizedMatmulArgs& args, Stream) {
  if (args.x.rank == 3)
    return multiply_spans(args, kMostSpanWeight,
                          [&](const Span& w, const std::uint8_t* x, std::int64_t s, std::int64_t, float y) {
                            return add_span(
                                w, *reinterpret_cast<const ActivationSpan*>(x + s * args.x.stride(1)), y);
                          });
  if (args.weight_code != 0)
    return multiply_spans(
        args, args.weight_code,
        [](const Span& w, const std::uint8_t* x, std::int64_t s, std::int64_t blocks, float y) {
          return add_span(w, reinterpret_cast<const ActivationBlock*>(x) + s * kSpanBlocks, blocks, y);
        });
  const PackedLayout layout = packed_layout(args.format);
  const std::int64_t n = args.y.dim(-1), row_blocks = args.x.dim(-1) / 64;
  const std::int64_t blocks = packed_blocks(layout, args.weight);
  parallel_for(n, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t col = begin; col < end; ++col) {
      const std::uint8_t* panel = args.weight.as<std::uint8_t>() + col / kPanelRows * args.weight.dim(-1);
      for (std::int64_t row = 0; row < args.y.dim(0); ++row) {
        const float y =
            row_dot(layout, panel, col % kPanelRows, args.x.as<ActivationBlock>() + row * row_blocks, blocks);
        args.y.as<float>()[row * args.y.stride(0) + col] = args.bias ? y + args.bias.as<float>()[col] : y;
      }
    }
  });
}

void round_whole_row(const float* x, std::int64_t k, std::int64_t codes, std::uint8_t* y) {
  const Int8Rounding rounding(x, k);
  ActivationRow header{.scale = rounding.scale, .negative_sum = 0, .unused = {}};
  for (std::int64_t i = 0; i < codes; ++i) {
    const std::int8_t code = i < k ? rounding.code(x[i]) : std::int8_t{0};
    header.negative_sum -= code;
    y[kHeader + i] = static_cast<std::uint8_t>(code);
  }
  std::memcpy(y, &header, sizeof header);
}

void round_whole_rows(const QuantizeRowsArgs& args, Stream) {
  const std::int64_t k = args.x.dim(-1), codes = args.y.dim(-1) - kHeader;
  parallel_for(args.x.dim(0), 1 + 16384 / std::max<std::int64_t>(k, 1),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t row = begin; row < end; ++row)
                   round_whole_row(args.x.as<float>() + row * args.x.stride(0), k, codes,
                                   args.y.as<std::uint8_t>() + row * args.y.stride(0));
               });
}

void round_span(const float* x, std::int64_t n, ActivationSpan& span) {
  const SpanRounding rounding(x, n);
  span = {};
  span.scale = rounding.scale;
  for (std::int64_t i = 0; i < n; ++i) span.codes[static_cast<std::size_t>(i)] = rounding.code(x[i]);
}

void round_spans(const QuantizeSpansArgs& args, Stream) {
  const std::int64_t k = args.x.dim(-1), spans = args.y.dim(1);
  parallel_for(
      args.x.dim(0), 1 + 16384 / std::max<std::int64_t>(k, 1), [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t row = begin; row < end; ++row) {
          const float* x = args.x.as<float>() + row * args.x.stride(0);
          auto* y = args.y.as<std::uint8_t>() + row * args.y.stride(0);
          for (std::int64_t s = 0; s < spans; ++s)
            round_span(x + s * kPackedSpan, std::clamp<std::int64_t>(k - s * kPackedSpan, 0, kPackedSpan),
                       *reinterpret_cast<ActivationSpan*>(y + s * args.y.stride(1)));
        }
      });
}

void multiply_row_scaled(const RowScaledMatmulArgs& args, Stream) {
  constexpr PackedLayout kLayout = packed_layout(PackedFormat::w8a8);
  const std::int64_t n = args.y.dim(-1), blocks = packed_blocks(kLayout, args.weight);
  parallel_for(n, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t col = begin; col < end; ++col) {
      const std::uint8_t* panel = args.weight.as<std::uint8_t>() + col / kPanelRows * args.weight.dim(-1);
      for (std::int64_t row = 0; row < args.y.dim(0); ++row) {
        const auto* x = args.x.as<std::uint8_t>() + row * args.x.stride(0);
        std::int32_t dot = 0;
        float scale = reinterpret_cast<const ActivationRow*>(x)->scale;
        for (std::int64_t b = 0; b < blocks; ++b) {
          const PackedRow w = read_packed_row(kLayout, panel, col % kPanelRows, b);
          if (b == 0) scale *= w.scale[0];
          for (std::int64_t i = 0; i < 32; ++i)
            dot += w.codes[static_cast<std::size_t>(i)] * static_cast<std::int8_t>(x[kHeader + b * 32 + i]);
        }
        const auto sum = static_cast<float>(dot);
        args.y.as<float>()[row * args.y.stride(0) + col] =
            std::fma(sum, scale, args.bias ? args.bias.as<float>()[col] : 0.0F);
      }
    }
  });
}

template <class T>
void dequantize_to(const DequantizeRowsArgs& args) {
  const PackedLayout layout = packed_layout(args.format);
  const std::int64_t cols = args.y.dim(-1);
  parallel_for(
      args.y.dim(0), 1 + 16384 / std::max<std::int64_t>(cols, 1), [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
          const std::int64_t id = args.ids ? args.ids.as<std::int64_t>()[i] : i;
          const std::uint8_t* panel = args.weight.as<std::uint8_t>() + id / kPanelRows * args.weight.dim(-1);
          T* y = args.y.as<T>() + i * args.y.stride(0);
          for (std::int64_t b = 0; b * 32 < cols; ++b) {
            const PackedRow w = read_packed_row(layout, panel, id % kPanelRows, b);
            for (std::int64_t c = b * 32; c < std::min(cols, b * 32 + 32); ++c) {
              const auto at = static_cast<std::size_t>(c - b * 32);
              y[c] = T(w.scale[at / 16] * packed_value(args.format, w.codes[at]) + w.minimum);
            }
          }
        }
      });
}

void dequantize(const DequantizeRowsArgs& args, Stream) {
  args.y.dtype == DType::bf16 ? dequantize_to<bf16>(args) : dequantize_to<float>(args);
}

std::int32_t low_code(const PackedLayout& layout, const std::uint8_t* codes, std::int64_t group,
                      std::int64_t at) {
  if (layout.low_bits == 8) return codes[group * 64 + at];
  if (layout.low_bits == 4) return (codes[group % 4 * 64 + at] >> (4 * (group / 4))) & 15;
  return (codes[group % 2 * 64 + at] >> (2 * (group / 2))) & 3;
}

std::int32_t high_code(const PackedLayout& layout, const std::uint8_t* bits, std::int64_t group,
                       std::int64_t at) {
  if (layout.high_bits == 1) return (bits[at] >> group) & 1;
  return (bits[group / 4 * 64 + at] >> (2 * (group % 4))) & 3;
}

}  // namespace

PackedRowScales read_packed_scales(const PackedLayout& layout, const std::uint8_t* panel, std::int64_t row,
                                   std::int64_t block) {
  const std::uint8_t* step = panel + layout.panel_header_bytes() +
                             static_cast<std::size_t>(block / layout.step_blocks) * layout.step_bytes();
  const std::int64_t b = block % layout.step_blocks;
  PackedRowScales result{};
  switch (layout.scales) {
    case PackedScales::flat:
      result.scale.fill(packed_half(step, b * 16 + row));
      break;
    case PackedScales::flat_min:
      result.scale.fill(packed_half(step, b * 32 + row));
      result.minimum = packed_half(step, b * 32 + 16 + row);
      break;
    case PackedScales::super_min:
      result.scale.fill(packed_half(step, row) * static_cast<float>(step[64 + b * 16 + row]));
      result.minimum =
          -(packed_half(step, 16 + row) * static_cast<float>(step[64 + (layout.step_blocks + b) * 16 + row]));
      break;
    case PackedScales::group_zero:
      result.scale.fill(packed_half(step, row));
      result.minimum = -(packed_half(step, row) * static_cast<float>(step[32 + row]));
      break;
    case PackedScales::values:
    case PackedScales::row:
      float scale;
      std::memcpy(&scale, (layout.scales == PackedScales::row ? panel : step) + 4 * row, sizeof scale);
      result.scale.fill(scale);
      break;
    case PackedScales::none:
      result.scale.fill(1);
      break;
    case PackedScales::e4m3:
      float whole;
      std::memcpy(&whole, panel + 4 * row, sizeof whole);
      for (std::int64_t half = 0; half < 2; ++half) {
        f8e4m3 part;
        part.bits = step[4 * row + 2 * b + half];
        result.scale[static_cast<std::size_t>(half)] = whole * static_cast<float>(part);
      }
      break;
    case PackedScales::super_halves:
      float unit = 1;
      if (layout.table == PackedTable::header) std::memcpy(&unit, step + kUnitAt, sizeof unit);
      for (std::int64_t half = 0; half < 2; ++half) {
        const auto part = static_cast<std::int8_t>(step[64 + (2 * b + half) * 16 + row]);
        result.scale[static_cast<std::size_t>(half)] =
            packed_half(step, row) * unit * static_cast<float>(part);
      }
      break;
  }
  return result;
}

PackedRow read_packed_row(const PackedLayout& layout, const std::uint8_t* panel, std::int64_t row,
                          std::int64_t block) {
  const std::uint8_t* step = panel + layout.panel_header_bytes() +
                             static_cast<std::size_t>(block / layout.step_blocks) * layout.step_bytes();
  const std::int64_t b = block % layout.step_blocks;
  PackedRow result{read_packed_scales(layout, panel, row, block), {}};
  const std::uint8_t* low =
      step + layout.header_bytes() + static_cast<std::size_t>(b) * layout.low_block_bytes();
  const std::uint8_t* high = step + layout.header_bytes() +
                             static_cast<std::size_t>(layout.step_blocks) * layout.low_block_bytes() +
                             static_cast<std::size_t>(b) * layout.high_block_bytes();
  if (layout.low_bits == 32) {
    for (std::size_t i = 0; i < 32; ++i)
      std::memcpy(&result.codes[i], low + 64 * i + 4 * static_cast<std::size_t>(row), 4);
    return result;
  }
  const std::int32_t zero = layout.zero_shift < 0 ? 0 : 1 << layout.zero_shift;
  const std::uint8_t* table = packed_table_at(layout, step);
  for (std::int64_t i = 0; i < 32; ++i) {
    const std::int64_t group = i / 4, at = row * 4 + i % 4;
    std::int32_t code = low_code(layout, low, group, at);
    if (layout.high_bits > 0) code |= high_code(layout, high, group, at) << layout.low_bits;
    if (table != nullptr) code = table[code];
    result.codes[static_cast<std::size_t>(i)] = code - zero;
  }
  return result;
}

void register_quantized_reference() {
  quantize_activations.add(DeviceType::cpu, {"reference", ImplKind::reference, nullptr, round_rows});
  quantized_matmul.add(DeviceType::cpu, {"reference", ImplKind::reference, nullptr, multiply});
  quantize_rows.add(DeviceType::cpu, {"reference", ImplKind::reference, nullptr, round_whole_rows});
  quantize_spans.add(DeviceType::cpu, {"reference", ImplKind::reference, nullptr, round_spans});
  row_scaled_matmul.add(DeviceType::cpu, {"reference", ImplKind::reference, nullptr, multiply_row_scaled});
  dequantize_rows.add(DeviceType::cpu, {"reference", ImplKind::reference, nullptr, dequantize});
}

}  // namespace ingot::kernels::cpu
