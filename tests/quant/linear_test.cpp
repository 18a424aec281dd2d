#include "ingot/quant/linear.h"

#include <array>
#include <cmath>
#include <numeric>

#include "tests/quant/helpers.h"
#include <gtest/gtest.h>

#include "ingot/base/error.h"
#include "ingot/base/parallel.h"
#include "ingot/base/rng.h"
#include "ingot/kernels/instruction_set.h"
#include "ingot/kernels/quantized.h"
#include "ingot/ops/cast.h"
#include "ingot/quant/group_matrix.h"

namespace ingot::quant {
namespace {

using test::random;

// x · wᵀ in double, of the rounded weight.
std::vector<double> exact_product(const Tensor& x, const Tensor& w) {
  std::vector<double> y;
  const std::int64_t k = w.dim(1);
  for (std::int64_t i = 0; i < x.dim(0); ++i) {
    for (std::int64_t j = 0; j < w.dim(0); ++j) {
      double sum = 0;
      for (std::int64_t c = 0; c < k; ++c)
        sum += static_cast<double>(x.data<float>()[i * k + c]) * w.data<float>()[j * k + c];
      y.push_back(sum);
    }
  }
  return y;
}

std::vector<const BlockFormat*> formats_of(std::int64_t cols) {
  std::vector<const BlockFormat*> formats;
  for (const BlockFormat& format : block_formats())
    if (cols % format.elements == 0 && format.is_written()) formats.push_back(&format);
  return formats;
}

TEST(PackedMatrix, HoldsTheVeryValuesOfItsBlocks) {
  for (const std::int64_t cols : {32, 96, 256, 768}) {
    const Tensor w = random({37, cols}, 1);
    for (const BlockFormat* format : formats_of(cols)) {
      const BlockMatrix blocks = BlockMatrix::quantize(w, *format);
      if (format->name == "Q2_K") continue;  // rounded once more
      const PackedPtr packed = pack(blocks);
      std::vector<std::int64_t> ids(37);
      for (std::int64_t i = 0; i < 37; ++i) ids[static_cast<std::size_t>(i)] = 36 - i;
      const Tensor values = rows(*packed, Tensor::from(ids, {37})), expected = blocks.dequantize();
      for (std::int64_t i = 0; i < 37; ++i) {
        for (std::int64_t c = 0; c < cols; ++c)
          ASSERT_EQ(values.data<float>()[i * cols + c], expected.data<float>()[(36 - i) * cols + c])
              << format->name << " row " << 36 - i << " column " << c;
      }
    }
  }
}

TEST(QuantLinear, IsTheMatmulWithTheRoundedWeightUpToTheActivationsRounding) {
  const Tensor w = random({50, 512}, 1), x = random({5, 512}, 2), bias = random({50}, 3);
  for (const BlockFormat* format : formats_of(512)) {
    const BlockMatrix blocks = BlockMatrix::quantize(w, *format);
    const Tensor y = linear(x, *pack(blocks), bias);
    const std::vector<double> expected = exact_product(x, blocks.dequantize());
    double error = 0, power = 0;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const double product = y.data<float>()[i] - bias.data<float>()[i % 50];
      error += std::pow(product - expected[i], 2);
      power += std::pow(expected[i], 2);
    }
    EXPECT_LT(std::sqrt(error / power), format->name == "Q2_K" ? 0.012 : 0.008) << format->name;
  }
}

TEST(QuantLinear, GivesARowTheSameBitsInAnyCompanyAndOnAnyNumberOfThreads) {
  const Tensor w = random({70, 768}, 1), x = random({29, 768}, 2);
  const int threads = num_threads();
  std::vector<std::string> names{"w8a8"};
  for (const BlockFormat* format : formats_of(768)) names.emplace_back(format->name);
  for (const std::string& name : names) {
    const PackedPtr packed = quantize_and_pack(w, name);
    const Tensor all = linear(x, *packed);
    set_num_threads(1);
    for (std::int64_t row = 0; row < 29; ++row) {
      const Tensor one = Tensor::from(std::span<const float>(x.data<float>() + row * 768, 768), {1, 768});
      const Tensor y = linear(one, *packed);
      for (std::int64_t c = 0; c < 70; ++c)
        ASSERT_EQ(y.data<float>()[c], all.data<float>()[row * 70 + c]) << name << " row " << row;
    }
    set_num_threads(threads);
  }
}

TEST(QuantLinear, OfManyRowsIsTheMatmulUpToRoundingWithTheSameBitsInAnyCompanyOfAsMany) {
  const std::int64_t m = 1100, n = 70, k = 768;  // more rows than a thread takes at once
  const Tensor w = random({n, k}, 1), x = random({m, k}, 2);
  const int threads = num_threads();
  for (const BlockFormat* format : formats_of(k)) {
    const BlockMatrix blocks = BlockMatrix::quantize(w, *format);
    const PackedPtr packed = pack(blocks);
    const Tensor all = linear(x, *packed);
    for (const std::int64_t count : {kManyRows, kManyRows + 13}) {
      set_num_threads(count == kManyRows ? 1 : 3);
      const Tensor some =
          linear(Tensor::from(std::span<const float>(x.data<float>(), static_cast<std::size_t>(count * k)),
                              {count, k}),
                 *packed);
      set_num_threads(threads);
      for (std::int64_t i = 0; i < some.numel(); ++i)
        ASSERT_EQ(some.data<float>()[i], all.data<float>()[i])
            << format->name << " of " << count << " at " << i;
    }
    const std::vector<double> expected = exact_product(x, blocks.dequantize());
    double error = 0, power = 0;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      error += std::pow(all.data<float>()[i] - expected[i], 2);
      power += std::pow(expected[i], 2);
    }
    const bool spans = rounding(packed.get(), m) == Rounding::spans;
    const int code = rounded_weight_code(*packed, m);
    const bool twice = format->name == "Q2_K" || code != 0;  // to int8, on the way
    EXPECT_LT(std::sqrt(error / power), spans && format->name != "Q2_K"    ? 0.001
                                        : code == kernels::kMostPairWeight ? 0.018
                                        : twice                            ? 0.012
                                                                           : 0.008)
        << format->name;
  }
}

// Codebooks, which are only read: their weights lose most where they are rounded once more.
TEST(QuantLinear, OfManyRowsWithACodebookIsTheMatmulUpToRounding) {
  const std::int64_t m = kManyRows, n = 40, k = 768;
  const Tensor x = random({m, k}, 2);
  for (const char* name : {"IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S"}) {
    const BlockFormat& format = *find_block_format(name);
    BlockMatrix blocks{&format, n, k,
                       Tensor::empty({n, static_cast<std::int64_t>(format.row_bytes(k))}, DType::u8)};
    Rng rng(RngKey{5, 0});
    auto* bytes = blocks.blocks.data<std::uint8_t>();
    const f16 scale(0.01F);
    for (std::int64_t i = 0; i < blocks.blocks.numel(); ++i) {
      const std::int64_t at = i % static_cast<std::int64_t>(format.bytes);
      bytes[i] = static_cast<std::uint8_t>(at < 2 ? scale.bits >> (8 * at) : rng.below(256));
    }
    const Tensor y = linear(x, *pack(blocks));
    const std::vector<double> expected = exact_product(x, blocks.dequantize());
    double error = 0, power = 0;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      error += std::pow(y.data<float>()[i] - expected[i], 2);
      power += std::pow(expected[i], 2);
    }
    EXPECT_LT(std::sqrt(error / power), 0.03) << name;
    const kernels::InstructionSet level = kernels::instruction_set_limit();
    if (level >= kernels::InstructionSet::avx2 && level < kernels::InstructionSet::avx512_vnni) {
      EXPECT_EQ(rounded_weight_code(*pack(blocks), m), kernels::kMostQuadWeight) << name;
    }
  }
}

// As in models: some columns of the input are hundreds of times as large as the others, which must not lose
// what they add.
TEST(QuantLinear, OfManyRowsKeepsWhatColumnsBesideOutliersAdd) {
  const std::int64_t m = kManyRows, n = 16, k = 768;
  const Tensor w = random({n, k}, 1), x = random({m, k}, 2);
  Tensor others = Tensor::empty({m, k});
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    const std::int64_t column = i % k;
    const bool outlier = column == 17 || column == 300 || column == 767;
    others.data<float>()[i] = outlier ? 0 : x.data<float>()[i];
    if (outlier) x.data<float>()[i] *= 200;
  }
  for (const std::string& name : quantized_formats()) {
    const PackedPtr packed = quantize_and_pack(w, name);
    if (rounding(packed.get(), 1) != Rounding::blocks) continue;  // a scale for a row by intent, or none
    const Tensor y = linear(x, *packed), weight = values(*packed);
    const std::vector<double> expected = exact_product(x, weight), added = exact_product(others, weight);
    double error = 0, power = 0;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      error += std::pow(y.data<float>()[i] - expected[i], 2);
      power += std::pow(added[i], 2);
    }
    const bool spans = rounding(packed.get(), m) == Rounding::spans;
    const bool pairs = rounded_weight_code(*packed, m) == kernels::kMostPairWeight;
    EXPECT_LT(std::sqrt(error / power), spans ? 0.03 : pairs ? 0.3 : 0.25) << name;
  }
}

TEST(PackedMatrix, EveryFormatThatIsNamedRoundsAndRuns) {
  const Tensor w = random({20, 256}, 1), x = random({2, 256}, 2);
  for (const std::string& name : quantized_formats()) {
    const Tensor y = linear(x, *quantize_and_pack(w, name));
    EXPECT_EQ(y.shape(), Shape({2, 20}));
    for (const float v : y.to_vector<float>()) EXPECT_TRUE(std::isfinite(v)) << name;
  }
}

TEST(QuantLinear, OfRowsWithOneScaleIsTheMatmulUpToRoundingForAnyWidth) {
  for (const std::int64_t cols : {3, 100, 512}) {
    const Tensor w = random({50, cols}, 1), x = random({5, cols}, 2);
    const PackedPtr packed = quantize_and_pack(w, "w8a8");
    EXPECT_EQ(packed->format_name(), "w8a8");
    std::vector<std::int64_t> ids(50);
    std::iota(ids.begin(), ids.end(), 0);
    const Tensor y = linear(x, *packed);
    const std::vector<double> expected = exact_product(x, rows(*packed, Tensor::from(ids, {50})));
    double error = 0, power = 0;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      error += std::pow(y.data<float>()[i] - expected[i], 2);
      power += std::pow(expected[i], 2);
    }
    EXPECT_LT(std::sqrt(error / power), 0.012) << cols;
    const Tensor wanted = GroupMatrix::quantize(w, {.bits = 8, .group = 0}).dequantize();
    EXPECT_EQ(rows(*packed, Tensor::from(ids, {50})).to_vector<float>(), wanted.to_vector<float>());
  }
}

TEST(QuantValues, OfAWholeMatrixAreThoseOfItsRows) {
  for (const std::string& format : quantized_formats()) {
    for (const auto& [rows, cols] : {std::pair<std::int64_t, std::int64_t>{37, 256}, {16, 512}, {3, 768}}) {
      const auto packed = quantize_and_pack(random({rows, cols}, 3), format);
      std::vector<std::int64_t> ids(static_cast<std::size_t>(rows));
      std::iota(ids.begin(), ids.end(), 0);
      const Tensor by_row = quant::rows(*packed, Tensor::from(ids, {rows}));
      EXPECT_EQ(values(*packed).to_vector<float>(), by_row.to_vector<float>()) << format << ' ' << rows;
      EXPECT_EQ(to(values(*packed, DType::bf16), DType::f32).to_vector<float>(),
                to(to(by_row, DType::bf16), DType::f32).to_vector<float>())
          << format;
    }
  }
}

TEST(QuantLinear, SharesRoundedActivations) {
  const Tensor w = random({16, 256}, 1), x = random({3, 256}, 2);
  const Activations shared(x);
  const Tensor a = linear(shared, *quantize_and_pack(w, "q8_0"));
  const void* rounded = shared.rounded(1).view().data;
  const Tensor b = linear(shared, *quantize_and_pack(w, "q4_k"));
  EXPECT_EQ(shared.rounded(1).view().data, rounded);
  EXPECT_EQ(b.to_vector<float>(), linear(x, *quantize_and_pack(w, "q4_k")).to_vector<float>());
}

TEST(QuantLinear, RowsRoundedAsTheyAreMadeGiveTheBitsOfTheWhole) {
  const Tensor x = random({3, 67, 160}, 1);  // several pieces, and a last one that is not full
  for (const char* format : {"q8_0", "w8a8", "q4_0"}) {
    const PackedPtr packed = quantize_and_pack(random({40, 160}, 2), format);
    const Activations made(x.shape(), rounding(packed.get(), x.view().rows()),
                           [&](std::int64_t begin, std::int64_t end) {
                             const auto count = static_cast<std::size_t>((end - begin) * 160);
                             return Tensor::from(std::span<const float>(x.data<float>() + begin * 160, count),
                                                 {end - begin, 160});
                           });
    const Tensor y = linear(made, *packed);
    EXPECT_EQ(y.shape(), Shape({3, 67, 40}));
    EXPECT_EQ(y.to_vector<float>(), linear(x, *packed).to_vector<float>()) << format;
    EXPECT_THROW(linear(made, *quantize_and_pack(random({40, 160}, 2), "f32")), Error) << format;
  }
}

TEST(QuantLinear, RoundingIsWhatAWeightsFormatAsksForOfSoManyRows) {
  const Tensor w = random({16, 256}, 1);
  const auto few = [&](const char* f) { return rounding(quantize_and_pack(w, f).get(), kManyRows - 1); };
  const auto many = [&](const char* f) { return rounding(quantize_and_pack(w, f).get(), kManyRows); };
  const kernels::InstructionSet level = kernels::instruction_set_limit();
  const bool vnni = level >= kernels::InstructionSet::avx512_vnni,
             avx2 = level >= kernels::InstructionSet::avx2;
  const Rounding wide =
      vnni ? Rounding::blocks : Rounding::spans;  // of many rows, formats of more than 4 bits
  for (const char* format : {"q8_0", "int8-g64", "q5_k"}) {
    EXPECT_EQ(few(format), Rounding::blocks) << format;
    EXPECT_EQ(many(format), wide) << format;
  }
  for (const char* format : {"q4_0", "q4_k", "int4-g64", "ternary"}) {
    EXPECT_EQ(few(format), Rounding::blocks) << format;
    EXPECT_EQ(many(format), avx2 ? Rounding::blocks : wide) << format;
  }
  const int most = level >= kernels::InstructionSet::amx || !avx2 ? 0 : vnni ? kernels::kMostByteWeight : -1;
  const auto code = [&](const char* f, std::int64_t m) {
    return rounded_weight_code(*quantize_and_pack(w, f), m);
  };
  for (const char* format : {"q4_0", "q4_k", "int4-g64", "iq4_nl", "iq4_xs", "mxfp4", "ternary"}) {
    const int of_words =
        format == std::string_view("ternary") ? kernels::kMostQuadWeight : kernels::kMostPairWeight;
    EXPECT_EQ(code(format, kManyRows), most < 0 ? of_words : most) << format;
    EXPECT_EQ(code(format, kManyRows - 1), 0) << format;
  }
  for (const char* format : {"q8_0", "q6_k", "q5_k", "w8a8", "f32", "nf4", "fp8", "nvfp4"})
    EXPECT_EQ(code(format, kManyRows), 0) << format;
  EXPECT_EQ(few("w8a8"), Rounding::rows);
  EXPECT_EQ(many("w8a8"), Rounding::rows);
  for (const char* format : {"f32", "nf4", "fp8"}) EXPECT_EQ(many(format), Rounding::none) << format;
  EXPECT_EQ(rounding(nullptr, kManyRows), Rounding::none);
  PackedMatrix ordered = *quantize_and_pack(w, "q8_0");
  ordered.order = Tensor::from(std::vector<std::int64_t>(256), {256});
  EXPECT_EQ(rounding(&ordered, kManyRows), Rounding::none);
  PackedMatrix ordered_codes = *quantize_and_pack(w, "int4-g64");
  ordered_codes.order = ordered.order;
  EXPECT_EQ(rounded_weight_code(ordered_codes, kManyRows), 0);
}

TEST(QuantLinear, LayersOfOneInputTogetherGiveTheBitsOfEachAlone) {
  const Tensor first = random({300, 768}, 1), second = random({33, 768}, 2), third = random({16, 768}, 3);
  const Tensor bias = random({300}, 4), none;
  const std::vector<std::array<const char*, 3>> formats{{"q8_0", "q8_0", "q8_0"},
                                                        {"q4_k", "q4_k", "q6_k"},
                                                        {"w8a8", "w8a8", "w8a8"},
                                                        {"nf4", "nf4", "nf4"},
                                                        {"q8_0", "w8a8", "f32"}};
  for (const auto& [a, b, c] : formats) {
    const PackedPtr packed[] = {quantize_and_pack(first, a), quantize_and_pack(second, b),
                                quantize_and_pack(third, c)};
    const std::vector<WeightAndBias> layers{{*packed[0], bias}, {*packed[1], none}, {*packed[2], none}};
    for (const std::int64_t m : {0, 1, 7, 50, 70}) {
      const Tensor x = random({m, 768}, 5);
      const std::vector<Tensor> y = linear(Activations(x), layers);
      ASSERT_EQ(y.size(), 3U);
      for (std::size_t i = 0; i < 3; ++i) {
        const Tensor alone = linear(x, layers[i].weight, layers[i].bias);
        EXPECT_EQ(y[i].shape(), alone.shape());
        EXPECT_EQ(y[i].to_vector<float>(), alone.to_vector<float>()) << a << b << c << " m " << m << " " << i;
      }
    }
  }
}

TEST(QuantLinear, ShowsNonFiniteActivationsInTheirOwnRowOnly) {
  for (const char* format : {"q8_0", "w8a8", "q4_0"}) {
    const PackedPtr packed = quantize_and_pack(random({20, 64}, 1), format);
    for (const std::int64_t rows : {std::int64_t{2}, kManyRows}) {
      Tensor x = random({rows, 64}, 2);
      x.data<float>()[3] = INFINITY;
      const Tensor y = linear(x, *packed);
      for (int c = 0; c < 20; ++c) {
        EXPECT_TRUE(std::isnan(y.data<float>()[c])) << format;
        EXPECT_TRUE(std::isfinite(y.data<float>()[20 + c])) << format;
      }
    }
  }
}

TEST(QuantLinear, ChecksShapes) {
  const PackedPtr packed = quantize_and_pack(random({20, 64}, 1), "q8_0");
  EXPECT_THROW(linear(Tensor::zeros({2, 32}), *packed), ShapeMismatch);
  EXPECT_THROW(linear(Tensor::zeros({2, 64}), *packed, Tensor::zeros({19})), ShapeMismatch);
  EXPECT_THROW(linear(Tensor::zeros({2, 64}, DType::bf16), *packed), DimensionMismatch);
  EXPECT_THROW(rows(*packed, Tensor::from(std::vector<std::int64_t>{20}, {1})), DimensionMismatch);
  EXPECT_THROW(quantize_and_pack(Tensor::zeros({2, 64}), "q3"), InvalidConfig);
  EXPECT_THROW(quantize_and_pack(Tensor::zeros({1, 65537}), "w8a8"), InvalidConfig);
}

}  // namespace
}  // namespace ingot::quant
