#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "tests/kernels/cuda/device.h"
#include "tests/support/op_case.h"
#include <gtest/gtest.h>

#include "ingot/base/rng.h"
#include "ingot/core/backend.h"
#include "ingot/kernels/conv.h"
#include "ingot/kernels/kv_store.h"
#include "ingot/kernels/quantized.h"
#include "ingot/kernels/topk.h"
#include "ingot/kernels/weight_only.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/view.h"

// Kernels of inference, which no op case reaches, against the CPU's reference: the same bits.
namespace ingot {
namespace {

using kernels::PackedFormat;
using kernels::PackedLayout;
using testing::max_error;
using testing::randn;

using test::kDevice;

/// run(device) on the CPU's reference and on the device.
template <class F>
void expect_same_bits(const F& run, const std::string& what) {
  Tensor expected;
  {
    const kernels::ForceKind reference(kernels::ImplKind::reference);
    expected = run(kCpu);
  }
  const Tensor actual = to(run(kDevice), kCpu);
  ASSERT_EQ(actual.nbytes(), expected.nbytes()) << what;
  const auto* a = static_cast<const std::uint8_t*>(actual.view().data);
  const auto* e = static_cast<const std::uint8_t*>(expected.view().data);
  for (std::size_t i = 0; i < expected.nbytes(); ++i)
    ASSERT_EQ(int{a[i]}, int{e[i]}) << what << ": byte " << i << " of " << expected.nbytes();
}

Tensor zeros(const Shape& shape, DType dtype, Device device) {
  const Tensor y = Tensor::empty(shape, dtype, device);
  backend(device).fill_bytes(y.view().data, 0, y.nbytes(), current_stream(device));
  return y;
}

TEST(CudaKvStore, WritesTheBytesOfTheCpu) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16, DType::i8}) {
    for (const Shape& shape : {Shape{1, 1, 1}, Shape{5, 3, 64}, Shape{2, 4, 33}, Shape{3, 2, 128}}) {
      Tensor x = randn(shape, 5);
      for (std::int64_t c = 0; c < shape[2]; ++c)
        x.data<float>()[c] = 0;  // a row without a largest magnitude
      const bool quantised = dtype == DType::i8;
      const float odd[] = {1e-40F, NAN, INFINITY};  // of which rows of int8 have rules
      for (std::int64_t row = 1; quantised && row < std::min<std::int64_t>(4, shape[0] * shape[1]); ++row)
        for (std::int64_t c = 0; c < shape[2]; ++c) x.data<float>()[row * shape[2] + c] *= odd[row - 1];
      for (const bool scales : {false, true}) {
        if (scales && !quantised) continue;
        expect_same_bits(
            [&](Device device) {
              const Tensor from = to(x, device), y = zeros({shape[1], shape[0], shape[2]}, dtype, device);
              const Tensor scale = zeros({shape[1], shape[0]}, DType::f32, device);
              launch(kernels::kv_store, current_stream(device),
                     {.x = from.view(), .y = y.view(), .scale = quantised ? scale.view() : View{}});
              return scales ? scale : y;
            },
            std::string(name(dtype)) + " " + to_string(shape));
      }
    }
  }
}

TEST(CudaKvStore, RoundsFp16AsItRoundsThemInF32) {
  for (const DType from : {DType::bf16, DType::f16}) {
    const Tensor half = to(randn({5, 3, 40}, 6), from);
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16, DType::i8}) {
      for (const bool scales : {false, true}) {
        expect_same_bits(
            [&](Device device) {
              const Tensor x = device.is_cpu() ? to(half, DType::f32) : to(half, device);
              const Tensor y = zeros({3, 5, 40}, dtype, device), scale = zeros({3, 5}, DType::f32, device);
              launch(kernels::kv_store, current_stream(device),
                     {.x = x.view(), .y = y.view(), .scale = dtype == DType::i8 ? scale.view() : View{}});
              return scales ? scale : y;
            },
            std::string(name(from)) + " to " + std::string(name(dtype)));
      }
    }
  }
}

// Of a cache of 7 positions: all rows fit, some do, none does.
TEST(CudaKvStore, WritesWhereThePositionOnTheDeviceSays) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16, DType::i8}) {
    for (const std::int32_t position : {0, 3, 5, 6, 7, 100, -1, -5}) {
      const Tensor x = randn({3, 2, 16}, 7), at = Tensor::from(std::vector<std::int32_t>{position}, {1});
      for (const bool scales : {false, true}) {
        expect_same_bits(
            [&](Device device) {
              const Tensor from = to(x, device), there = to(at, device), y = zeros({2, 7, 16}, dtype, device),
                           scale = zeros({2, 7}, DType::f32, device);
              launch(kernels::kv_store, current_stream(device),
                     {.x = from.view(),
                      .y = y.view(),
                      .scale = dtype == DType::i8 ? scale.view() : View{},
                      .position = there.view()});
              return scales ? scale : y;
            },
            std::string(name(dtype)) + " at " + std::to_string(position));
      }
    }
  }
}

// At a position of each cache, or in a part of it; the second one's rows lie apart.
TEST(CudaKvStore, WritesTwoAtOnceAsOneAfterTheOther) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16, DType::i8}) {
    for (const bool placed : {false, true}) {
      const Tensor x[] = {to(randn({3, 2, 40}, 7), kDevice),
                          transpose(to(randn({2, 3, 40}, 8), kDevice), 0, 1)};
      const Tensor at = to(Tensor::from(std::vector<std::int32_t>{4}, {1}), kDevice);
      const std::int64_t capacity = placed ? 9 : 3;
      const auto stored = [&](bool together) {
        std::vector<Tensor> y;  // keys, values, their scales
        for (int i = 0; i < 2; ++i) y.push_back(zeros({2, capacity, 40}, dtype, kDevice));
        for (int i = 0; i < 2; ++i) y.push_back(zeros({2, capacity}, DType::f32, kDevice));
        const auto scale = [&](std::size_t i) { return dtype == DType::i8 ? y[2 + i].view() : View{}; };
        kernels::KvStoreArgs args{.x = x[0].view(),
                                  .y = y[0].view(),
                                  .scale = scale(0),
                                  .position = placed ? at.view() : View{},
                                  .also_x = x[1].view(),
                                  .also_y = y[1].view(),
                                  .also_scale = scale(1)};
        const kernels::KvStoreArgs second = args.also();
        if (!together) args.also_x = args.also_y = args.also_scale = {};
        launch(kernels::kv_store, current_stream(kDevice), args);
        if (!together) launch(kernels::kv_store, current_stream(kDevice), second);
        return y;
      };
      const std::vector<Tensor> found = stored(true), expected = stored(false);
      for (std::size_t i = 0; i < 4; ++i) {
        const Tensor f = to(found[i], kCpu), e = to(expected[i], kCpu);
        EXPECT_EQ(std::memcmp(f.view().data, e.view().data, e.nbytes()), 0) << name(dtype) << ": " << i;
      }
    }
  }
}

TEST(CudaTopK, FindsTheElementsOfTheCpuInTheirOrder) {
  for (const std::int64_t n : {1, 7, 33, 1500}) {
    Tensor x = randn({4, n}, 3);
    for (std::int64_t i = 0; i < 4 * n; ++i)
      x.data<float>()[i] = std::round(x.data<float>()[i] * 4);  // equals
    for (std::int64_t i = 0; i < n; ++i) x.data<float>()[n + i] = i % 2 == 0 ? NAN : -INFINITY;
    x.data<float>()[0] = INFINITY;
    for (const std::int64_t k :
         {std::int64_t{1}, std::min<std::int64_t>(n, 8), std::min<std::int64_t>(n, 40)}) {
      for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
        expect_same_bits(
            [&](Device device) {
              const Tensor from = to(to(x, dtype), device), y = zeros({4, k}, DType::i64, device);
              launch(kernels::topk, current_stream(device), {.x = from.view(), .indices = y.view()});
              return y;
            },
            std::to_string(k) + " of " + std::to_string(n) + " " + std::string(name(dtype)));
      }
    }
  }
}

TEST(CudaConvPacked, EqualsTheCpu) {
  struct Case {
    std::int64_t n, w, c, o, k, padding;
  };
  for (const Case& t : {Case{1, 1, 1, 1, 1, 0}, Case{2, 9, 5, 33, 3, 1}, Case{3, 34, 16, 64, 3, 1}}) {
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
      const auto run = [&](Device device) {
        const auto input = [&](const Shape& shape, std::uint64_t seed) {
          return to(to(randn(shape, seed), dtype), device);
        };
        const Tensor x = input({t.n, t.w, t.c}, 1), weight = input({t.o, t.c, t.k}, 2),
                     bias = input({t.o}, 3);
        const Tensor packed = Tensor::empty(
            {(t.o + kernels::kConvPanel - 1) / kernels::kConvPanel, t.k * t.c, kernels::kConvPanel}, dtype,
            device);
        launch(kernels::conv_pack, current_stream(device),
               {.weight = weight.view(), .packed = packed.view()});
        const Tensor y = Tensor::empty({t.n, t.w + 2 * t.padding - t.k + 1, t.o}, dtype, device);
        launch(kernels::conv_packed, current_stream(device),
               {.x = x.view(),
                .packed = packed.view(),
                .bias = bias.view(),
                .y = y.view(),
                .scratch = {},
                .padding = t.padding});
        return y;
      };
      Tensor expected;
      {
        const kernels::ForceKind reference(kernels::ImplKind::reference);
        expected = run(kCpu);
      }
      const double tolerance = dtype == DType::f32 ? 2e-5 : dtype == DType::f16 ? 0x1p-9 : 0x1p-6;
      EXPECT_LE(max_error(to(run(kDevice), kCpu), expected), tolerance) << t.c << " " << name(dtype);
    }
  }
}

void put_half(std::uint8_t* at, double value) {
  const f16 half(static_cast<float>(value));
  at[0] = static_cast<std::uint8_t>(half.bits & 255U);
  at[1] = static_cast<std::uint8_t>(half.bits >> 8U);
}

/// Any bytes are codes; the scales of the header must be numbers.
Tensor random_weight(PackedFormat format, std::int64_t rows, std::int64_t columns) {
  const PackedLayout layout = kernels::packed_layout(format);
  const std::int64_t panels = (rows + kernels::kPanelRows - 1) / kernels::kPanelRows;
  const auto bytes = static_cast<std::int64_t>(layout.panel_bytes(columns));
  Rng rng(RngKey{7, static_cast<std::uint64_t>(format)});
  std::vector<std::uint8_t> data(static_cast<std::size_t>(panels * bytes));
  for (auto& byte : data) byte = static_cast<std::uint8_t>(rng.below(256));
  if (layout.scales == kernels::PackedScales::none) {  // no NaN: its bits are not fixed
    for (std::size_t at = 0; at < data.size(); at += sizeof(float)) {
      const auto number = std::bit_cast<std::array<std::uint8_t, 4>>(static_cast<float>(rng.normal()));
      std::copy(number.begin(), number.end(), data.begin() + static_cast<std::ptrdiff_t>(at));
    }
    return Tensor::from(data, {panels, bytes});
  }
  if (layout.scales == kernels::PackedScales::row) {
    for (std::size_t at = 0; at < data.size(); at += static_cast<std::size_t>(bytes)) {
      for (std::size_t row = 0; row < 16; ++row) {
        const auto number = std::bit_cast<std::array<std::uint8_t, 4>>(static_cast<float>(rng.normal()));
        std::copy(number.begin(), number.end(), data.begin() + static_cast<std::ptrdiff_t>(at + 4 * row));
      }
    }
    return Tensor::from(data, {panels, bytes});
  }
  if (layout.scales == kernels::PackedScales::e4m3) {
    for (std::uint8_t& byte : data)  // no NaN among the scales
      if ((byte & 127U) == 127U) byte = 0;
    for (std::size_t at = 0; at < data.size(); at += static_cast<std::size_t>(bytes)) {
      for (std::size_t row = 0; row < 16; ++row) {
        const auto number = std::bit_cast<std::array<std::uint8_t, 4>>(static_cast<float>(rng.normal()));
        std::copy(number.begin(), number.end(), data.begin() + static_cast<std::ptrdiff_t>(at + 4 * row));
      }
    }
    return Tensor::from(data, {panels, bytes});
  }
  for (std::size_t step = 0; step < data.size(); step += layout.step_bytes()) {
    std::uint8_t* header = data.data() + step;
    if (layout.scales == kernels::PackedScales::values) {
      for (std::size_t row = 0; row < 16; ++row) {
        const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(rng.normal()));
        for (std::size_t i = 0; i < 4; ++i) header[4 * row + i] = static_cast<std::uint8_t>(bits >> (8 * i));
      }
      for (std::size_t i = 64; format == PackedFormat::fp8 && i < layout.step_bytes(); ++i)
        if ((header[i] & 127U) == 127U) header[i] = 0;  // no NaN: its bits are not fixed
      continue;
    }
    const std::size_t halves = layout.scales == kernels::PackedScales::flat        ? layout.header_bytes() / 2
                               : layout.scales == kernels::PackedScales::flat_min  ? layout.header_bytes() / 2
                               : layout.scales == kernels::PackedScales::super_min ? 32
                                                                                   : 16;
    for (std::size_t i = 0; i < halves; ++i) put_half(header + 2 * i, rng.normal() * 0.01);
    if (layout.table == kernels::PackedTable::header) {
      const auto unit = std::bit_cast<std::array<std::uint8_t, 4>>(0.125F);
      std::ranges::copy(unit, header + kernels::kUnitAt);
    }
  }
  return Tensor::from(data, {panels, bytes});
}

std::vector<PackedFormat> formats(bool weight_only) {
  std::vector<PackedFormat> result;
  for (int i = 0; i < kernels::kPackedFormats; ++i)
    if (kernels::is_weight_only(static_cast<PackedFormat>(i)) == weight_only)
      result.push_back(static_cast<PackedFormat>(i));
  return result;
}

struct Product {
  std::int64_t m, n, k;
};

std::string of(PackedFormat format, const Product& t) {
  return std::string(kernels::packed_layout(format).name) + " " + std::to_string(t.m) + "x" +
         std::to_string(t.n) + "x" + std::to_string(t.k);
}

// Of few rows of x, for which a panel streams through shared memory in stages of 512 columns, up to eight at
// once: a part of a stage, several of them, more than there are positions; one, four and eight rows to a
// block, and what is left of them.
constexpr Product kGemv[] = {{1, 1, 1},    {1, 50, 1200}, {2, 33, 100},  {4, 16, 512}, {1, 17, 5000},
                             {3, 31, 777}, {5, 33, 4700}, {8, 16, 1024}, {9, 40, 800}, {17, 16, 1056}};

Tensor rounded(const Tensor& x, std::int64_t blocks) {
  const Tensor y = zeros({x.dim(0), blocks * 64}, DType::u8, x.device());
  launch(kernels::quantize_activations, current_stream(x.device()), {.x = x.view(), .y = y.view()});
  return y;
}

TEST(CudaQuantized, RoundsActivationsAsTheCpuDoes) {
  for (const std::int64_t k : {1, 31, 32, 100, 512}) {
    Tensor x = randn({6, k}, 8);
    float* data = x.data<float>();
    for (std::int64_t i = 0; i < k; ++i) data[k + i] = 0;
    for (std::int64_t i = 0; i < k; ++i) data[2 * k + i] *= 1e-36F;
    data[4 * k + k / 2] = 3e38F;
    expect_same_bits([&](Device device) { return rounded(to(x, device), (k + 31) / 32 + 1); },
                     std::to_string(k));
  }
}

// Their bits are not fixed: arithmetic of a GPU gives another NaN than a CPU's.
TEST(CudaQuantized, RoundsBlocksWithInfinitiesAndNansToNothingButNans) {
  for (const std::int64_t k : {1, 31, 32}) {
    for (const float value : {INFINITY, -INFINITY, NAN}) {
      Tensor x = randn({1, k}, 8);
      x.data<float>()[k / 2] = value;
      const Tensor y = to(rounded(to(x, kDevice), 1), kCpu);
      const auto& block = *static_cast<const kernels::ActivationBlock*>(y.view().data);
      EXPECT_TRUE(std::isnan(block.scale) && std::isnan(block.scaled_sum)) << k << " " << value;
      for (const std::int8_t code : block.codes) EXPECT_EQ(int{code}, 0) << k << " " << value;
    }
  }
}

TEST(CudaQuantized, MultipliesToTheBitsOfTheCpu) {
  for (const PackedFormat format : formats(false)) {
    if (kernels::is_row_scaled(format)) continue;
    for (const Product& t : kGemv) {
      const Tensor weight = random_weight(format, t.n, t.k), x = randn({t.m, t.k}, 2), bias = randn({t.n}, 4);
      const std::int64_t blocks = kernels::packed_blocks(kernels::packed_layout(format), weight.view());
      for (const bool with_bias : {false, true}) {
        expect_same_bits(
            [&](Device device) {
              const Tensor w = to(weight, device), b = to(bias, device), in = rounded(to(x, device), blocks);
              const Tensor y = zeros({t.m, t.n}, DType::f32, device);
              launch(kernels::quantized_matmul, current_stream(device),
                     {.format = format,
                      .x = in.view(),
                      .weight = w.view(),
                      .y = y.view(),
                      .bias = with_bias ? b.view() : View{}});
              return y;
            },
            of(format, t));
      }
    }
  }
}

TEST(CudaRowScaled, RoundsAndMultipliesToTheBitsOfTheCpu) {
  for (const Product& t : kGemv) {
    const Tensor weight = random_weight(PackedFormat::w8a8, t.n, t.k), bias = randn({t.n}, 4);
    Tensor x = randn({t.m, t.k}, 2);
    if (t.m > 2) {
      for (std::int64_t i = 0; i < t.k; ++i) x.data<float>()[i] = 0;
      for (std::int64_t i = t.k; i < 2 * t.k; ++i) x.data<float>()[i] *= 1e-36F;
      x.data<float>()[3 * t.k - 1] = 3e38F;
    }
    const auto round = [&](Device device) {
      const Tensor in = to(x, device);
      const Tensor y = zeros({t.m, 64 + (t.k + 63) / 64 * 64}, DType::u8, device);
      launch(kernels::quantize_rows, current_stream(device), {.x = in.view(), .y = y.view()});
      return y;
    };
    expect_same_bits(round, of(PackedFormat::w8a8, t));
    for (const bool with_bias : {false, true}) {
      expect_same_bits(
          [&](Device device) {
            const Tensor w = to(weight, device), b = to(bias, device), in = round(device);
            const Tensor y = zeros({t.m, t.n}, DType::f32, device);
            launch(
                kernels::row_scaled_matmul, current_stream(device),
                {.x = in.view(), .weight = w.view(), .y = y.view(), .bias = with_bias ? b.view() : View{}});
            return y;
          },
          of(PackedFormat::w8a8, t));
    }
  }
}

TEST(CudaWeightOnly, MultipliesToTheBitsOfTheCpu) {
  for (const PackedFormat format : formats(true)) {
    for (const Product& t : kGemv) {
      const Tensor weight = random_weight(format, t.n, t.k), x = randn({t.m, t.k}, 2), bias = randn({t.n}, 4);
      expect_same_bits(
          [&](Device device) {
            const Tensor w = to(weight, device), b = to(bias, device), in = to(x, device);
            const Tensor y = zeros({t.m, t.n}, DType::f32, device);
            launch(kernels::weight_only_matmul, current_stream(device),
                   {.format = format,
                    .x = in.view(),
                    .weight = w.view(),
                    .y = y.view(),
                    .bias = t.m > 1 ? b.view() : View{}});
            return y;
          },
          of(format, t));
    }
  }
}

TEST(CudaQuantized, GivesTheValuesOfRowsToTheBit) {
  for (const bool weight_only : {false, true}) {
    for (const PackedFormat format : formats(weight_only)) {
      const Tensor weight = random_weight(format, 40, 300);
      const Tensor ids = Tensor::from(std::vector<std::int64_t>{39, 0, 17, 17, 16}, {5});
      expect_same_bits(
          [&](Device device) {
            const Tensor w = to(weight, device), rows = to(ids, device);
            const Tensor y = zeros({5, 300}, DType::f32, device);
            launch(kernels::dequantize_rows, current_stream(device),
                   {.format = format, .weight = w.view(), .ids = rows.view(), .y = y.view()});
            return y;
          },
          of(format, {5, 40, 300}));
    }
  }
}

}  // namespace
}  // namespace ingot
