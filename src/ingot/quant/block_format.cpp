#include "ingot/quant/block_format.h"

#include <algorithm>
#include <atomic>
#include <cctype>
#include <cmath>

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/base/parallel.h"
#include "ingot/quant/blocks/blocks.h"

namespace ingot::quant {
namespace {

void check_sizes(const BlockFormat& format, std::size_t values, std::size_t bytes) {
  const auto elements = static_cast<std::size_t>(format.elements);
  INGOT_CHECK(values % elements == 0 && values / elements * format.bytes == bytes,
              DimensionMismatch(fmt::format("{} values in {} blocks of {} take {} bytes each; got {} bytes",
                                            values, format.name, elements, format.bytes, bytes)));
}

void values_of(const BlockFormat& format, const BlockParts& parts, float* values) {
  for (std::size_t i = 0; i < static_cast<std::size_t>(format.elements); ++i) {
    const std::size_t g = i / static_cast<std::size_t>(format.group);
    const float scale = parts.d * static_cast<float>(parts.scales[g]);
    values[i] = scale * static_cast<float>(parts.codes[i] - format.zero);
    if (format.has_min) values[i] -= parts.dmin * static_cast<float>(parts.mins[g]);
  }
}

}  // namespace

std::span<const BlockFormat> block_formats() {
  using namespace blocks;
  static const std::array table{kQ4_0,   kQ4_1, kQ5_0,  kQ5_1,  kQ8_0, kQ2_K,   kQ3_K,  kQ4_K,
                                kQ5_K,   kQ6_K, kMxFp4, kIq1S,  kIq1M, kIq2Xxs, kIq2Xs, kIq2S,
                                kIq3Xxs, kIq3S, kIq4Nl, kIq4Xs, kTq1,  kTq2};
  return table;
}

const BlockFormat* find_block_format(std::string_view name) {
  const auto same = [](char a, char b) {
    return std::toupper(static_cast<unsigned char>(a)) == std::toupper(static_cast<unsigned char>(b));
  };
  for (const BlockFormat& format : block_formats())
    if (std::ranges::equal(format.name, name, same)) return &format;
  return nullptr;
}

const BlockFormat* find_block_format(int gguf_type) {
  for (const BlockFormat& format : block_formats())
    if (format.gguf_type == gguf_type) return &format;
  return nullptr;
}

void check_is_written(const BlockFormat& format) {
  INGOT_CHECK(format.is_written(),
              NotImplemented(fmt::format(
                  "writing {}, which is read and run; write IQ4_XS, Q3_K or Q2_K instead", format.name)));
}

void dequantize(const BlockFormat& format, std::span<const std::byte> blocks, std::span<float> values) {
  check_sizes(format, values.size(), blocks.size());
  constexpr std::int64_t kGrain = 256;  // blocks: some 10 µs
  parallel_for(static_cast<std::int64_t>(values.size()) / format.elements, kGrain,
               [&](std::int64_t begin, std::int64_t end) {
                 BlockParts parts;
                 for (std::int64_t b = begin; b < end; ++b) {
                   format.unpack(blocks.data() + static_cast<std::size_t>(b) * format.bytes, parts);
                   values_of(format, parts, values.data() + b * format.elements);
                 }
               });
}

void quantize(const BlockFormat& format, std::span<const float> values, std::span<std::byte> blocks,
              std::span<const float> importance) {
  check_is_written(format);
  check_sizes(format, values.size(), blocks.size());
  const std::size_t cols = importance.size();
  INGOT_CHECK(
      cols == 0 || (cols % static_cast<std::size_t>(format.elements) == 0 && values.size() % cols == 0),
      DimensionMismatch(
          fmt::format("{} importances are not those of rows that make {} values", cols, values.size())));
  for (std::size_t i = 0; i < values.size(); ++i)
    INGOT_CHECK(std::isfinite(values[i]),
                NonFinite(fmt::format("quantize to {}", format.name),
                          fmt::format("element {} is {}; a weight must be finite", i, values[i])));
  constexpr std::int64_t kGrain = 16;  // blocks: some 20 µs
  std::atomic<std::int64_t> beyond{-1};
  parallel_for(static_cast<std::int64_t>(values.size()) / format.elements, kGrain,
               [&](std::int64_t begin, std::int64_t end) {
                 BlockParts parts;
                 for (std::int64_t b = begin; b < end; ++b) {
                   std::byte* block = blocks.data() + static_cast<std::size_t>(b) * format.bytes;
                   const auto at = static_cast<std::size_t>(b * format.elements);
                   format.quantize(values.data() + at, cols == 0 ? nullptr : importance.data() + at % cols,
                                   block);
                   format.unpack(block, parts);
                   if (!std::isfinite(parts.d) || !std::isfinite(parts.dmin)) beyond = b;
                 }
               });
  INGOT_CHECK(beyond < 0, NonFinite(fmt::format("quantize to {}", format.name),
                                    fmt::format("the scale of block {} is beyond f16's range (65504); "
                                                "the weights there are too large for this format",
                                                beyond.load())));
}

}  // namespace ingot::quant
