// The kernels for AMX on tiles in memory, so that they are tested where the processor has none. What the
// processor does with its own is tested, where it has them, by tests/quant/kernels_test.cpp.
#include <gtest/gtest.h>

#if defined(__x86_64__)
#include <array>
#include <bit>
#include <cstring>

#include <immintrin.h>

#include "ingot/base/rng.h"
#include "ingot/core/tensor.h"
#include "ingot/kernels/cpu/x86/macros-inl.h"
#include "ingot/kernels/cpu/x86/quantized.h"

// g++ 12 takes the undefined operands inside its own headers for a mistake of ours (GCC bug 105593).
#if !defined(__clang__)
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

HWY_PUSH_ATTRIBUTES("avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")
namespace ingot::kernels::cpu {
namespace {
#include "ingot/kernels/cpu/x86/amx-inl.h"

// Eight tiles of 16 rows of 64 bytes, and what the instructions do to them as Intel describes it (Intel 64
// SDM, volume 2: LDTILECFG, TILELOADD, TDPBSUD, TILESTORED, TILERELEASE). What the processor would answer
// with a fault is an exception here.
class TilesInMemory {
 public:
  static void configure(const TileConfig& config) {
    if (config.palette != 1 || config.start_row != 0) throw std::logic_error("LDTILECFG: palette, start row");
    for (std::size_t i = 0; i < 8; ++i) {
      const bool used = config.rows[i] != 0;
      if (config.rows[i] > 16 || config.row_bytes[i] > 64 || used != (config.row_bytes[i] != 0))
        throw std::logic_error("LDTILECFG: rows or bytes of a row");
    }
    config_ = config;
    configured_ = true;
  }
  static void release() { configured_ = false; }
  static void multiply(const std::uint8_t* x, std::int64_t stride, const std::uint8_t* weights,
                       std::int32_t* sums) {
    tiles_[0] = {};
    load(1, x, stride);
    load(2, weights, 64);
    dot_signed_unsigned(0, 1, 2);
    for (std::size_t row = 0; row < rows(0); ++row)
      std::memcpy(reinterpret_cast<std::uint8_t*>(sums) + 64 * row, tiles_[0][row].data(), row_bytes(0));
  }

 private:
  static std::size_t rows(std::size_t tile) {
    if (!configured_) throw std::logic_error("tiles are used before they are configured");
    return config_.rows[tile];
  }
  static std::size_t row_bytes(std::size_t tile) { return config_.row_bytes[tile]; }
  static void load(std::size_t tile, const std::uint8_t* from, std::int64_t stride) {
    tiles_[tile] = {};
    for (std::size_t row = 0; row < rows(tile); ++row)
      std::memcpy(tiles_[tile][row].data(), from + static_cast<std::int64_t>(row) * stride, row_bytes(tile));
  }
  static void dot_signed_unsigned(std::size_t c, std::size_t a, std::size_t b) {
    if (rows(c) != rows(a) || row_bytes(c) != row_bytes(b) || row_bytes(a) != 4 * rows(b))
      throw std::logic_error("TDPBSUD: tiles that do not fit each other");
    for (std::size_t m = 0; m < rows(c); ++m) {
      for (std::size_t k = 0; k < row_bytes(a) / 4; ++k) {
        for (std::size_t n = 0; n < row_bytes(c) / 4; ++n) {
          std::int32_t sum;
          std::memcpy(&sum, tiles_[c][m].data() + 4 * n, 4);
          for (std::size_t i = 0; i < 4; ++i)
            sum += static_cast<std::int8_t>(tiles_[a][m][4 * k + i]) * tiles_[b][k][4 * n + i];
          std::memcpy(tiles_[c][m].data() + 4 * n, &sum, 4);
        }
      }
    }
  }

  using Tile = std::array<std::array<std::uint8_t, 64>, 16>;
  inline static thread_local TileConfig config_;
  inline static thread_local bool configured_ = false;
  inline static thread_local std::array<Tile, 8> tiles_;
};

}  // namespace
}  // namespace ingot::kernels::cpu
HWY_POP_ATTRIBUTES

namespace ingot::kernels::cpu {
namespace {

void run_in_memory(const QuantizedMatmulArgs& args) {
  multiply_panels(args, tile_kernel<TilesInMemory>(args.format));
}

// Any bytes are codes and scales, but for f16 numbers, which get small exponents.
Tensor random_panels(const PackedLayout& layout, std::int64_t panels, std::int64_t cols, Rng& rng) {
  const auto bytes = static_cast<std::int64_t>(layout.panel_bytes(cols));
  Tensor weight = Tensor::empty({panels, bytes}, DType::u8);
  auto* data = weight.data<std::uint8_t>();
  for (std::int64_t i = 0; i < weight.numel(); ++i) data[i] = static_cast<std::uint8_t>(rng.below(256));
  const auto halves = [&](std::uint8_t* at, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint16_t bits = f16(static_cast<float>(rng.normal()) * 0.1F).bits;
      std::memcpy(at + 2 * i, &bits, 2);
    }
  };
  for (std::int64_t p = 0; p < panels; ++p) {
    for (std::int64_t s = 0; s < layout.steps(cols); ++s) {
      std::uint8_t* step = data + p * bytes + s * static_cast<std::int64_t>(layout.step_bytes());
      const auto blocks = static_cast<std::size_t>(layout.step_blocks);
      constexpr float kUnit = 0.125F;
      if (layout.table == PackedTable::header) std::memcpy(step + kUnitAt, &kUnit, sizeof kUnit);
      switch (layout.scales) {
        case PackedScales::flat:
          halves(step, 16 * blocks);
          break;
        case PackedScales::flat_min:
          halves(step, 32 * blocks);
          break;
        default:
          halves(step, layout.scales == PackedScales::super_min ? 32 : 16);
      }
    }
  }
  return weight;
}

std::vector<std::uint32_t> bits_of(const Tensor& y) {
  std::vector<std::uint32_t> bits(static_cast<std::size_t>(y.numel()));
  std::memcpy(bits.data(), y.view().data, y.nbytes());
  return bits;
}

TEST(AmxKernels, OnTilesInMemoryHaveTheReferencesBits) {
  if (best_instruction_set() < InstructionSet::avx512_vnni)
    GTEST_SKIP() << "the rest of AMX's kernels needs AVX-512 with VNNI";
  Rng rng(RngKey{3, 0});
  for (int i = 0; i < kPackedFormats; ++i) {
    const auto format = static_cast<PackedFormat>(i);
    if (is_weight_only(format) || is_row_scaled(format)) continue;
    const PackedLayout layout = packed_layout(format);
    const std::int64_t cols = 512, n = 39;
    const Tensor weight = random_panels(layout, 3, cols, rng);
    for (const std::int64_t m : {1, 15, 16, 17, 32, 45, 129}) {
      const Tensor x = Tensor::empty({m, cols}), bias = Tensor::empty({n});
      for (std::int64_t k = 0; k < x.numel(); ++k)  // some rows all at one end, some random
        x.data<float>()[k] = k / cols % 3 == 0 ? 1.0F : static_cast<float>(rng.normal());
      for (std::int64_t k = 0; k < n; ++k) bias.data<float>()[k] = static_cast<float>(rng.normal());
      const Tensor codes = Tensor::empty({m, (cols / 32 + 1) * 64}, DType::u8);
      quantize_activations.implementations(DeviceType::cpu)
          .back()
          .run({.x = x.view(), .y = codes.view()}, {});
      const Tensor expected = Tensor::zeros({m, n}), found = Tensor::zeros({m, n});
      QuantizedMatmulArgs args{.format = format,
                               .x = codes.view(),
                               .weight = weight.view(),
                               .y = expected.view(),
                               .bias = m % 2 == 0 ? bias.view() : View{}};
      quantized_matmul.implementations(DeviceType::cpu).back().run(args, {});
      args.y = found.view();
      run_in_memory(args);
      ASSERT_EQ(bits_of(found), bits_of(expected)) << layout.name << ", " << m << " rows";
    }
  }
}

TEST(AmxKernels, RunOnTheProcessorsTilesWhereItHasThem) {
  if (best_instruction_set() < InstructionSet::amx) GTEST_SKIP() << "this processor has no AMX tiles of int8";
  const auto& list = quantized_matmul.implementations(DeviceType::cpu);
  EXPECT_STREQ(list.front().name, "amx");
}

}  // namespace
}  // namespace ingot::kernels::cpu
#endif
