#include "ingot/quant/codebook_matrix.h"

#include <cmath>
#include <cstring>
#include <numeric>

#include "tests/quant/helpers.h"
#include "tests/support/source_dir.h"
#include "tests/support/temporary_directory.h"
#include <gtest/gtest.h>

#include "ingot/base/error.h"
#include "ingot/base/parallel.h"
#include "ingot/base/rng.h"
#include "ingot/kernels/weight_only.h"
#include "ingot/quant/linear.h"
#include "ingot/weights/open.h"

namespace ingot::quant {
namespace {

using test::all_rows;
using test::expect_message;
using test::message_of;
using test::random;

using kernels::PackedFormat;

std::vector<std::uint32_t> bits_of(const Tensor& y) {
  std::vector<std::uint32_t> bits(static_cast<std::size_t>(y.numel()));
  std::memcpy(bits.data(), y.view().data, y.nbytes());
  return bits;
}

// Of all formats; every code, scales of many magnitudes.
std::vector<CodebookMatrix> matrices(std::int64_t rows, std::int64_t cols) {
  std::vector<CodebookMatrix> all;
  if (cols % 64 == 0) all.push_back(CodebookMatrix::quantize_nf4(random({rows, cols}, 1)));
  all.push_back(CodebookMatrix::quantize_fp8(random({rows, cols}, 2)));
  if (cols % 16 == 0) all.push_back(CodebookMatrix::quantize_nvfp4(random({rows, cols}, 3)));
  for (CodebookMatrix& m : all) {
    const int codes = m.format == PackedFormat::fp8 ? 256 : 16;
    for (std::int64_t i = 0; i < m.codes.numel(); ++i) {
      auto& code = m.codes.data<std::uint8_t>()[i];
      code = static_cast<std::uint8_t>((i * 7 + i / cols) % codes);
      if (codes == 256 && (code & 0x7f) == 0x7f) code = 0x7e;
    }
    for (std::int64_t r = 0; m.row_scales.defined() && r < rows; ++r)
      m.row_scales.data<float>()[r] *= std::ldexp(1.0F, static_cast<int>(r % 41) - 20);
    for (std::int64_t g = 0; !m.row_scales.defined() && g < m.scales.numel(); ++g)
      m.scales.data<float>()[g] *= std::ldexp(1.0F, static_cast<int>(g % 41) - 20);
  }
  return all;
}

TEST(CodebookMatrix, HasTheBitsOfBitsandbytesAndOfPyTorch) {
  const auto file = open_weights(test::source_dir() + "/tests/quant/goldens/values.safetensors");
  for (const std::string name : {"nf4", "fp8"}) {
    const Tensor w = file->load_tensor(name + ".weight");
    const CodebookMatrix m =
        name == "nf4" ? CodebookMatrix::quantize_nf4(w) : CodebookMatrix::quantize_fp8(w);
    EXPECT_EQ(m.codes.to_vector<std::uint8_t>(),
              file->load_tensor(name + ".codes").to_vector<std::uint8_t>());
    EXPECT_EQ(bits_of(m.scales), bits_of(file->load_tensor(name + ".scales")));
    EXPECT_EQ(bits_of(m.dequantize()), bits_of(file->load_tensor(name + ".values")));
  }
}

TEST(CodebookMatrix, EveryCodeHasItsPublishedValue) {
  const auto file = open_weights(test::source_dir() + "/tests/quant/goldens/values.safetensors");
  for (const std::string name : {"nf4", "fp8"}) {
    const Tensor table = file->load_tensor(name + ".table");  // of all finite codes, in their order
    const std::int64_t count = table.numel();
    CodebookMatrix m{.format = name == "nf4" ? PackedFormat::nf4 : PackedFormat::fp8,
                     .rows = 1,
                     .cols = count,
                     .group = count,
                     .codes = file->load_tensor(name + ".table_codes"),
                     .scales = Tensor::from(std::vector<float>{1}, {1, 1})};
    m.codes = Tensor::from(m.codes.to_vector<std::uint8_t>(), {1, count});
    EXPECT_EQ(bits_of(m.dequantize()), bits_of(table)) << name;
    EXPECT_EQ(all_rows(*pack(m)).to_vector<float>(), table.to_vector<float>()) << name;
  }
}

// Tiles at the ends of rows and columns are smaller, one is all zeros, and one has numbers a million times as
// large as the others'.
TEST(CodebookMatrix, TilesOfFp8HaveTheScaleOfTheirLargestNumber) {
  constexpr std::int64_t kRows = 200, kCols = 320, kTile = quant::kFp8Tile;
  const Tensor w = random({kRows, kCols}, 6);
  auto* x = w.data<float>();
  for (std::int64_t r = 0; r < kTile; ++r)
    for (std::int64_t c = 0; c < kTile; ++c) {
      x[r * kCols + c] = 0;
      x[r * kCols + kTile + c] *= 1e6F;
    }
  const CodebookMatrix m = CodebookMatrix::quantize_fp8_tiles(w);
  const Tensor values = m.dequantize();
  ASSERT_EQ(m.scales.shape(), Shape({kRows, 3}));
  for (const auto& [first, last] : {std::pair<std::int64_t, std::int64_t>{0, kTile}, {kTile, kRows}}) {
    for (std::int64_t group = 0; group < 3; ++group) {
      float top = 0;
      for (std::int64_t r = first; r < last; ++r)
        for (std::int64_t c = group * kTile; c < std::min(kCols, (group + 1) * kTile); ++c)
          top = std::max(top, std::abs(x[r * kCols + c]));
      for (std::int64_t r = first; r < last; ++r)
        ASSERT_EQ(m.scales.data<float>()[r * 3 + group], top / 448) << r << ", " << group;
    }
  }
  for (std::int64_t i = 0; i < values.numel(); ++i) {
    const float scale = m.scales.data<float>()[i / kCols * 3 + i % kCols / kTile];
    // Three bits behind the leading one, down to 2^-9 of a scale.
    ASSERT_NEAR(values.data<float>()[i], x[i], std::max(std::abs(x[i]) / 16, scale * 0x1p-10F)) << i;
  }
  EXPECT_EQ(all_rows(*pack(m)).to_vector<float>(), values.to_vector<float>());
  EXPECT_EQ(all_rows(*quantize_and_pack(w, "fp8-128x128")).to_vector<float>(), values.to_vector<float>());
}

TEST(CodebookMatrix, PacksExactly) {
  for (const std::int64_t cols : {64, 192, 100, 512}) {
    for (const CodebookMatrix& m : matrices(37, cols))
      EXPECT_EQ(all_rows(*pack(m)).to_vector<float>(), m.dequantize().to_vector<float>()) << cols;
  }
}

void expect_reference_bits(const PackedPtr& weight) {
  const std::int64_t rows = weight->rows, cols = weight->cols;
  const Tensor bias = random({rows}, 3);
  for (const std::int64_t n : {1, 2, 3, 4, 7, 12, 23, 29, 180}) {
    if (n > 29 && rows * cols > 20000) continue;
    Tensor x = random({n, cols}, 4, 3);
    x.data<float>()[0] = 1e-41F;  // denormal
    if (n > 2) x.data<float>()[2 * cols] = 1e30F;
    Tensor expected = Tensor::empty({n, rows});
    kernels::WeightOnlyMatmulArgs args{.format = weight->format,
                                       .x = x.view(),
                                       .weight = weight->data.view(),
                                       .y = expected.view(),
                                       .bias = n % 2 == 0 ? bias.view() : View{}};
    const auto& list = kernels::weight_only_matmul.implementations(DeviceType::cpu);
    list.back().run(args, {});
    for (const auto& implementation : list) {
      if (implementation.needs > kernels::best_instruction_set()) continue;
      Tensor y = Tensor::zeros({n, rows});
      args.y = y.view();
      implementation.run(args, {});
      EXPECT_EQ(bits_of(y), bits_of(expected)) << implementation.name << " " << weight->format_name() << " "
                                               << n << " x " << rows << " x " << cols;
    }
  }
}

TEST(CodebookMatrix, MatmulsHaveTheReferencesBitsForAnyNumberOfRows) {
  for (const auto& [rows, cols] : {std::pair{39, 512}, {5, 192}, {16, 100}, {17, 65}})
    for (const CodebookMatrix& m : matrices(rows, cols)) expect_reference_bits(pack(m));
}

TEST(FloatTiles, HoldTheVeryValues) {
  for (const std::int64_t cols : {1, 31, 64, 100}) {
    const Tensor w = random({37, cols}, 1);
    EXPECT_EQ(all_rows(*pack_f32(w)).to_vector<float>(), w.to_vector<float>()) << cols;
  }
}

// Beyond one piece of columns (256) and eight panels (of 16 rows), too.
TEST(FloatTiles, MatmulsHaveTheReferencesBitsForAnyNumberOfRows) {
  for (const auto& [rows, cols] :
       {std::pair{39, 512}, {5, 1600}, {32, 900}, {16, 100}, {17, 65}, {3, 1}, {150, 300}})
    expect_reference_bits(pack_f32(random({rows, cols}, 1)));
}

TEST(FloatTiles, HoldATransposedMatrix) {
  const Tensor w = random({37, 50}, 1);
  View by_columns = w.view();
  std::swap(by_columns.shape[0], by_columns.shape[1]);
  std::swap(by_columns.strides[0], by_columns.strides[1]);
  const std::vector<float> values = all_rows(*pack_f32({w.storage(), by_columns})).to_vector<float>();
  for (std::size_t i = 0; i < values.size(); ++i)
    ASSERT_EQ(values[i], w.data<float>()[i % 37 * 50 + i / 37]) << i;
}

// Each time the other way round, as the last one left the caches.
TEST(FloatTiles, MatmulsThatRepeatGiveTheSameBits) {
  const PackedPtr weight = pack_f32(random({1000, 70}, 1));
  const Tensor x = random({1, 70}, 2), y = linear(x, *weight);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(bits_of(linear(x, *weight)), bits_of(y));
}

TEST(FloatTiles, MatmulsAreThoseOfTheMatrix) {
  const Tensor w = random({50, 900}, 1), x = random({5, 900}, 2), bias = random({50}, 3);
  const Tensor y = linear(x, *quantize_and_pack(w, "f32"), bias);
  for (std::int64_t i = 0; i < 5; ++i) {
    for (std::int64_t n = 0; n < 50; ++n) {
      double sum = bias.data<float>()[n];
      for (std::int64_t k = 0; k < 900; ++k)
        sum += static_cast<double>(x.data<float>()[i * 900 + k]) * w.data<float>()[n * 900 + k];
      EXPECT_NEAR(y.data<float>()[i * 50 + n], sum, 2e-4);
    }
  }
}

TEST(CodebookMatrix, MatmulsRoundTheWeightOnly) {
  const Tensor w = random({50, 512}, 1), x = random({5, 512}, 2), bias = random({50}, 3);
  for (const CodebookMatrix& m : {CodebookMatrix::quantize_nf4(w), CodebookMatrix::quantize_fp8(w)}) {
    const Tensor y = linear(x, *pack(m), bias), values = m.dequantize();
    for (std::int64_t i = 0; i < 5; ++i) {
      for (std::int64_t n = 0; n < 50; ++n) {
        double sum = bias.data<float>()[n];
        for (std::int64_t k = 0; k < 512; ++k)
          sum += static_cast<double>(x.data<float>()[i * 512 + k]) * values.data<float>()[n * 512 + k];
        EXPECT_NEAR(y.data<float>()[i * 50 + n], sum, 1e-4);
      }
    }
  }
}

TEST(CodebookMatrix, ARowHasTheSameBitsInAnyCompanyAndOnAnyNumberOfThreads) {
  const Tensor w = random({70, 768}, 1), x = random({29, 768}, 2);
  const int threads = num_threads();
  for (const char* format : {"nf4", "fp8", "f32"}) {
    const PackedPtr packed = quantize_and_pack(w, format);
    const Tensor all = linear(x, *packed);
    set_num_threads(1);
    for (std::int64_t row = 0; row < 29; ++row) {
      const Tensor one = Tensor::from(std::span<const float>(x.data<float>() + row * 768, 768), {1, 768});
      const Tensor y = linear(one, *packed);
      for (std::int64_t c = 0; c < 70; ++c)
        ASSERT_EQ(y.data<float>()[c], all.data<float>()[row * 70 + c]) << format << " row " << row;
    }
    set_num_threads(threads);
  }
}

TEST(CodebookMatrix, RoundsZerosAndConstants) {
  for (const float value : {0.0F, 1.0F, -3.0F, 1e-30F, 1e30F}) {
    Tensor w = Tensor::empty({2, 64});
    std::fill_n(w.data<float>(), 128, value);
    for (const CodebookMatrix& m : {CodebookMatrix::quantize_nf4(w), CodebookMatrix::quantize_fp8(w)})
      for (const float v : m.dequantize().to_vector<float>()) EXPECT_NEAR(v, value, std::abs(value) * 1e-6);
  }
}

TEST(CodebookMatrix, RefusesWhatItCannotRoundAndNamesTheWeight) {
  expect_message(message_of<Error>([] {
                   CodebookMatrix::quantize_nf4(random({2, 100}, 1), "mlp.up");
                 }),
                 {"mlp.up", "100 columns", "64"});
  for (const char* format : {"nf4", "fp8", "fp8-128x128"}) {
    Tensor w = random({2, 64}, 1);
    w.data<float>()[70] = INFINITY;
    expect_message(message_of<Error>([&] { quantize_and_pack(w, format, "mlp.up"); }),
                   {"mlp.up", "element 70", "inf"});
  }
  CodebookMatrix m = CodebookMatrix::quantize_fp8(random({2, 64}, 1));
  m.codes.data<std::uint8_t>()[65] = 0xff;
  expect_message(message_of<Error>([&] { pack(m, "mlp.up"); }),
                 {"mlp.up", "row 1, column 1", "not a number"});
  m = CodebookMatrix::quantize_nf4(random({2, 64}, 1));
  m.scales.data<float>()[1] = NAN;
  expect_message(message_of<Error>([&] { pack(m, "mlp.up"); }), {"mlp.up", "scales", "nan at index 1"});
}

}  // namespace
}  // namespace ingot::quant
