// Every implementation of the quantized kernels that this machine can run gives the reference's bits.
#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>

#include <gtest/gtest.h>

#include "ingot/base/rng.h"
#include "ingot/kernels/quantized.h"
#include "ingot/quant/packed_matrix.h"

namespace ingot::kernels {
namespace {

using Words = std::vector<std::uint32_t>;

Words words(const Tensor& y) {
  Words result(y.nbytes() / 4);
  std::memcpy(result.data(), y.view().data, y.nbytes());
  return result;
}

Tensor rounded(const Tensor& x, const Implementation<QuantizeActivationsArgs>& implementation) {
  const std::int64_t blocks = (x.dim(1) + 255) / 256 * 8 + 1;
  Tensor y = Tensor::empty({x.dim(0), blocks * 64}, DType::u8);
  std::memset(y.view().data, 0xaa, y.nbytes());
  implementation.run({.x = x.view(), .y = y.view()}, {});
  return y;
}

const Implementation<QuantizeActivationsArgs>& reference_rounding() {
  return quantize_activations.implementations(DeviceType::cpu).back();
}

Tensor values(const Shape& shape, std::uint64_t seed, float scale) {
  Tensor x = Tensor::empty(shape);
  Rng rng(RngKey{seed, 0});
  for (std::int64_t i = 0; i < x.numel(); ++i) x.data<float>()[i] = static_cast<float>(rng.normal()) * scale;
  return x;
}

// Of formats that are only read, zeros with f16 numbers where these lie: at the start; of IQ1_M the uppermost
// bits are in the last byte.
quant::BlockMatrix plain_blocks(const quant::BlockFormat& format, std::int64_t rows, std::int64_t cols) {
  if (format.is_written()) return quant::BlockMatrix::quantize(values({rows, cols}, 7, 1), format);
  quant::BlockMatrix matrix{&format, rows, cols, {}};
  matrix.blocks = Tensor::zeros({rows, static_cast<std::int64_t>(format.row_bytes(cols))}, DType::u8);
  constexpr float kScales[] = {0.013F, -0.7F, 6e-8F, 900.0F};
  auto* bytes = matrix.blocks.data<std::uint8_t>();
  for (std::int64_t block = 0; block < rows * cols / format.elements; ++block, bytes += format.bytes) {
    const f16 d(kScales[block % 4]);
    std::memcpy(bytes, &d.bits, 2);
    if (format.name == "IQ1_M") bytes[55] = static_cast<std::uint8_t>(d.bits >> 12U << 4U);
  }
  return matrix;
}

// All codes at both ends, scales of both signs and of f16's smallest and largest magnitudes: random bytes,
// but for the f16 numbers.
quant::BlockMatrix wild_blocks(const quant::BlockFormat& format, std::int64_t rows, std::int64_t cols) {
  quant::BlockMatrix matrix = plain_blocks(format, rows, cols);
  auto* bytes = matrix.blocks.data<std::uint8_t>();
  Rng rng(RngKey{11, 0});
  const std::int64_t count = matrix.blocks.numel();
  for (std::int64_t i = 0; i < count; ++i) {
    const auto at = static_cast<std::size_t>(i) % format.bytes;
    const bool half = at < 4 || at + 4 >= format.bytes;  // where the formats keep their f16 numbers, and more
    if (!half) bytes[i] = static_cast<std::uint8_t>(i % 3 == 0 ? 255 : i % 3 == 1 ? 0 : rng.below(256));
  }
  return matrix;
}

void expect_reference_bits(const quant::PackedPtr& weight, const Tensor& x, const Tensor& bias) {
  const Tensor codes = rounded(x, reference_rounding());
  QuantizedMatmulArgs args{.format = weight->format, .x = codes.view(), .weight = weight->data.view()};
  if (bias.defined()) args.bias = bias.view();
  const auto& list = quantized_matmul.implementations(DeviceType::cpu);
  Tensor expected = Tensor::empty({x.dim(0), weight->rows});
  args.y = expected.view();
  list.back().run(args, {});
  for (const auto& implementation : list) {
    if (implementation.needs > best_instruction_set()) continue;
    if (implementation.accepts != nullptr && !implementation.accepts(args)) continue;
    Tensor y = Tensor::zeros({x.dim(0), weight->rows});
    args.y = y.view();
    implementation.run(args, {});
    EXPECT_EQ(words(y), words(expected)) << implementation.name << " " << weight->format_name() << " "
                                         << x.dim(0) << " x " << weight->rows << " x " << weight->cols;
  }
}

TEST(QuantizedKernels, RoundActivationsToTheReferencesBits) {
  Tensor x = values({6, 300}, 1, 3);
  float* data = x.data<float>();
  for (int i = 0; i < 300; ++i) data[300 + i] *= 1e-40F;  // denormal
  for (int i = 0; i < 300; ++i) data[600 + i] *= 1e37F;
  for (int i = 0; i < 300; ++i) data[900 + i] = 0;
  data[1200 + 40] = NAN;
  data[1200 + 100] = -INFINITY;
  for (int i = 0; i < 300; ++i)
    data[1500 + i] = i % 2 == 0 ? 127.0F : 0.5F + static_cast<float>(i / 2 % 100);  // ties
  const Tensor expected = rounded(x, reference_rounding());
  for (const auto& implementation : quantize_activations.implementations(DeviceType::cpu)) {
    const Tensor y = rounded(x, implementation);
    const auto* a = y.data<std::uint8_t>();
    const auto* b = expected.data<std::uint8_t>();
    for (std::int64_t i = 0; i < y.numel(); ++i)
      ASSERT_EQ(int{a[i]}, int{b[i]})
          << implementation.name << " row " << i / y.dim(1) << " byte " << i % y.dim(1);
  }
}

TEST(QuantizedKernels, MultiplyToTheReferencesBitsForAnyNumberOfRows) {
  for (const quant::BlockFormat& format : quant::block_formats()) {
    const quant::PackedPtr weight =
        quant::pack(format.is_written() ? quant::BlockMatrix::quantize(values({39, 512}, 2, 0.1F), format)
                                        : wild_blocks(format, 39, 512));
    const Tensor bias = values({39}, 3, 1);
    for (const std::int64_t m : {1, 2, 3, 4, 7, 12, 23, 29})
      expect_reference_bits(weight, values({m, 512}, 4, 2), m % 2 == 0 ? bias : Tensor());
  }
}

TEST(QuantizedKernels, MultiplyExtremeCodesWithoutSaturation) {
  for (const quant::BlockFormat& format : quant::block_formats()) {
    if (format.name == "Q2_K") continue;  // rounded once more on the way
    const quant::PackedPtr weight = quant::pack(wild_blocks(format, 33, 512));
    Tensor x = values({13, 512}, 4, 1);
    for (std::int64_t i = 0; i < 5 * 512; ++i)
      x.data<float>()[i] = i % 7 < 5 ? 1.0F : -1.0F;  // codes of ±127
    for (std::int64_t i = 0; i < 512; ++i) x.data<float>()[i] = 1;
    expect_reference_bits(weight, x, {});
  }
}

TEST(QuantizedKernels, MultiplyRowsWhoseBlocksDoNotFillAStep) {
  for (const quant::BlockFormat& format : quant::block_formats()) {
    if (format.elements != 32) continue;
    const quant::PackedPtr weight =
        quant::pack(quant::BlockMatrix::quantize(values({5, 96}, 2, 0.1F), format));
    for (const std::int64_t m : {1, 5, 30}) expect_reference_bits(weight, values({m, 96}, 4, 2), {});
  }
}

// Many rows go over two panels at once: whole ones, a short second one, and one that is left over; and over
// several pieces of their columns.
TEST(QuantizedKernels, MultiplyManyRowsWithAnyNumberOfPanels) {
  for (const char* format : {"q8_0", "q4_0", "q4_1", "q5_0", "q5_1", "q4_k", "q5_k", "q6_k", "int4-g32-zero",
                             "int4-g64", "int4-g128-zero", "ternary", "iq4_nl", "iq4_xs", "mxfp4"}) {
    for (const std::int64_t n : {1, 16, 23, 32, 39, 64}) {
      const quant::PackedPtr weight = quant::quantize_and_pack(values({n, 1280}, 2, 0.1F), format);
      for (const std::int64_t m : {13, 17, 30})
        expect_reference_bits(weight, values({m, 1280}, 4, 2), m % 2 == 0 ? Tensor() : values({n}, 3, 1));
    }
  }
}

TEST(QuantizedKernels, MultiplyMoreRowsThanOneChunk) {
  const quant::PackedPtr weight = quant::quantize_and_pack(values({16, 4096}, 2, 0.1F), "q4_0");
  expect_reference_bits(weight, values({100, 4096}, 4, 1), {});
}

Tensor rounded_rows(const Tensor& x, const Implementation<QuantizeRowsArgs>& implementation) {
  Tensor y = Tensor::empty({x.dim(0), 64 + (x.dim(1) + 63) / 64 * 64}, DType::u8);
  std::memset(y.view().data, 0xaa, y.nbytes());
  implementation.run({.x = x.view(), .y = y.view()}, {});
  return y;
}

// A whole span more than x has, for rows of several formats.
Tensor rounded_spans(const Tensor& x, const Implementation<QuantizeSpansArgs>& implementation) {
  constexpr auto kSpanBytes = static_cast<std::int64_t>(sizeof(ActivationSpan));
  Tensor y = Tensor::empty({x.dim(0), x.dim(1) / kPackedSpan + 2, kSpanBytes}, DType::u8);
  std::memset(y.view().data, 0xaa, y.nbytes());
  implementation.run({.x = x.view(), .y = y.view()}, {});
  return y;
}

// Rows of every kind that rounding treats apart: ordinary, denormal, huge, zero, not finite, ties.
Tensor special_rows(std::int64_t k) {
  Tensor x = values({7, k}, 1, 3);
  float* data = x.data<float>();
  for (std::int64_t i = 0; i < k; ++i) {
    data[k + i] *= 1e-40F;
    data[2 * k + i] *= 1e37F;
    data[3 * k + i] = 0;
    data[6 * k + i] = i % 2 == 0 ? 127.0F : 0.5F + static_cast<float>(i / 2 % 100);
  }
  data[4 * k + k - 1] = NAN;
  data[5 * k] = -INFINITY;
  return x;
}

TEST(RowScaledKernels, RoundRowsToTheReferencesBytes) {
  for (const std::int64_t k : {1, 3, 15, 17, 63, 64, 100, 301}) {
    const Tensor x = special_rows(k);
    const auto& list = quantize_rows.implementations(DeviceType::cpu);
    const Tensor expected = rounded_rows(x, list.back());
    for (const auto& implementation : list) {
      const Tensor y = rounded_rows(x, implementation);
      const auto* a = y.data<std::uint8_t>();
      const auto* b = expected.data<std::uint8_t>();
      for (std::int64_t i = 0; i < y.numel(); ++i)
        ASSERT_EQ(int{a[i]}, int{b[i]})
            << implementation.name << " k " << k << " row " << i / y.dim(1) << " byte " << i % y.dim(1);
    }
  }
}

TEST(QuantizedSpans, RoundSpansOfRowsToTheReferencesBytes) {
  for (const std::int64_t k : {1, 255, 256, 300, 768}) {
    const Tensor x = special_rows(k);
    const auto& list = quantize_spans.implementations(DeviceType::cpu);
    const Tensor expected = rounded_spans(x, list.back());
    for (const auto& implementation : list) {
      const Tensor y = rounded_spans(x, implementation);
      EXPECT_EQ(0, std::memcmp(y.view().data, expected.view().data, y.nbytes()))
          << implementation.name << " k " << k;
    }
  }
}

void expect_reference_bits(const Tensor& weight, std::int64_t n, const Tensor& x, const Tensor& bias) {
  const Tensor codes = rounded_rows(x, quantize_rows.implementations(DeviceType::cpu).back());
  const auto& list = row_scaled_matmul.implementations(DeviceType::cpu);
  Tensor expected = Tensor::empty({x.dim(0), n});
  RowScaledMatmulArgs args{.x = codes.view(),
                           .weight = weight.view(),
                           .y = expected.view(),
                           .bias = bias.defined() ? bias.view() : View{}};
  list.back().run(args, {});
  for (const auto& implementation : list) {
    if (implementation.needs > best_instruction_set()) continue;
    Tensor y = Tensor::zeros({x.dim(0), n});
    args.y = y.view();
    implementation.run(args, {});
    EXPECT_EQ(words(y), words(expected))
        << implementation.name << " " << x.dim(0) << " x " << n << " x " << x.dim(1);
  }
}

TEST(RowScaledKernels, MultiplyToTheReferencesBitsForAnyNumberOfRowsAndPanels) {
  for (const std::int64_t n : {1, 8, 9, 16, 31, 39, 48, 65}) {
    const quant::PackedPtr weight = quant::quantize_and_pack(values({n, 200}, 2, 0.1F), "w8a8");
    const Tensor bias = values({n}, 3, 1);
    for (const std::int64_t m : {1, 2, 3, 4, 5, 7, 8, 13, 29})
      expect_reference_bits(weight->data, n, values({m, 200}, 4, 2), m % 2 == 0 ? bias : Tensor());
  }
  const quant::PackedPtr long_rows = quant::quantize_and_pack(values({50, 8192}, 2, 0.1F), "w8a8");
  expect_reference_bits(long_rows->data, 50, values({100, 8192}, 4, 1), {});  // more rows than one chunk
}

TEST(RowScaledKernels, MultiplySpecialRows) {
  Tensor w = values({20, 300}, 2, 1);
  for (std::int64_t i = 0; i < 300; ++i) {
    w.data<float>()[i] = 0;
    w.data<float>()[300 + i] *= 1e-5F;  // a scale that is denormal in f16
    w.data<float>()[600 + i] *= 1e4F;
  }
  expect_reference_bits(quant::quantize_and_pack(w, "w8a8")->data, 20, special_rows(300), {});
}

// −128 does not come of rounding; files may hold it.
TEST(RowScaledKernels, SumTheLongestRowsOfExtremeCodesExactly) {
  const std::int64_t k = kMostRowScaledCols, n = 33;
  const PackedLayout layout = packed_layout(PackedFormat::w8a8);
  Tensor weight = Tensor::zeros({3, static_cast<std::int64_t>(layout.panel_bytes(k))}, DType::u8);
  for (std::int64_t panel = 0; panel < 3; ++panel) {
    auto* bytes = weight.data<std::uint8_t>() + panel * weight.dim(1);
    const std::vector<float> ones(16, 1.0F);
    std::memcpy(bytes, ones.data(), 64);
    for (std::int64_t i = 64; i < weight.dim(1); ++i) bytes[i] = panel == 1 ? 255 : 0;  // 127 and −128
  }
  Tensor x = Tensor::empty({5, k});
  for (std::int64_t i = 0; i < x.numel(); ++i)
    x.data<float>()[i] = i < 2 * k ? 127.0F : i % 3 == 0 ? -127.0F : 127.0F;
  for (std::int64_t i = k; i < 2 * k; ++i) x.data<float>()[i] = -127.0F;
  expect_reference_bits(weight, n, x, {});
  const Tensor codes = rounded_rows(x, quantize_rows.implementations(DeviceType::cpu).back());
  Tensor y = Tensor::empty({5, n});
  launch(row_scaled_matmul, {}, {.x = codes.view(), .weight = weight.view(), .y = y.view(), .bias = {}});
  EXPECT_EQ(y.data<float>()[0], -128.0F * 127.0F * static_cast<float>(k));
  EXPECT_EQ(y.data<float>()[16], 127.0F * 127.0F * static_cast<float>(k));
  EXPECT_EQ(y.data<float>()[n], 128.0F * 127.0F * static_cast<float>(k));
}

// Weights rounded anew to int8, beside blocks of x as they are. `weight_code`: the largest.
void expect_reference_bits_of_rounded_weight(const quant::PackedMatrix& weight, const Tensor& x,
                                             const Tensor& bias, int weight_code) {
  const Tensor codes = rounded(x, reference_rounding());
  QuantizedMatmulArgs args{
      .format = weight.format, .x = codes.view(), .weight = weight.data.view(), .weight_code = weight_code};
  if (bias.defined()) args.bias = bias.view();
  const auto& list = quantized_matmul.implementations(DeviceType::cpu);
  Tensor expected = Tensor::empty({x.dim(0), weight.rows});
  args.y = expected.view();
  list.back().run(args, {});
  int compared = 0;
  for (const auto& implementation : list) {
    if (implementation.needs > best_instruction_set()) continue;
    if (implementation.accepts != nullptr && !implementation.accepts(args)) continue;
    Tensor y = Tensor::zeros({x.dim(0), weight.rows});
    args.y = y.view();
    implementation.run(args, {});
    EXPECT_EQ(words(y), words(expected))
        << implementation.name << " " << weight.format_name() << " " << x.dim(0) << " x " << weight.rows
        << " x " << weight.cols << ", codes up to " << weight_code;
    ++compared;
  }
  const auto has = [](InstructionSet level) { return best_instruction_set() >= level ? 1 : 0; };
  EXPECT_EQ(compared, weight_code == kMostByteWeight
                          ? 1 + has(InstructionSet::avx512_vnni)
                          : 1 + has(InstructionSet::avx2) + has(InstructionSet::avx512));
}

void expect_reference_bits_of_rounded_weight(const quant::PackedMatrix& weight, const Tensor& x,
                                             const Tensor& bias) {
  for (const int weight_code : {kMostByteWeight, kMostPairWeight, kMostQuadWeight})
    expect_reference_bits_of_rounded_weight(weight, x, bias, weight_code);
}

const std::vector<std::string>& block_scaled_formats() {
  static const std::vector<std::string> formats = {
      "q4_0", "q4_1",          "q4_k",     "q5_0",           "q5_1",     "q5_k",   "q6_k",
      "q8_0", "int4-g32-zero", "int4-g64", "int4-g128-zero", "int8-g64", "ternary"};
  return formats;
}

Tensor spans_product(const Implementation<QuantizedMatmulArgs>& implementation,
                     const quant::PackedMatrix& weight, const Tensor& spans, const Tensor& bias) {
  Tensor y = Tensor::zeros({spans.dim(0), weight.rows});
  QuantizedMatmulArgs args{
      .format = weight.format, .x = spans.view(), .weight = weight.data.view(), .y = y.view()};
  if (bias.defined()) args.bias = bias.view();
  implementation.run(args, {});
  return y;
}

void expect_reference_bits_of_spans(const quant::PackedMatrix& weight, const Tensor& x, const Tensor& bias) {
  const Tensor spans = rounded_spans(x, quantize_spans.implementations(DeviceType::cpu).back());
  const auto& list = quantized_matmul.implementations(DeviceType::cpu);
  const Words expected = words(spans_product(list.back(), weight, spans, bias));
  int compared = 0;
  for (const auto& implementation : list) {
    if (implementation.needs > best_instruction_set()) continue;
    const QuantizedMatmulArgs args{
        .format = weight.format, .x = spans.view(), .weight = weight.data.view(), .y = x.view()};
    if (implementation.accepts != nullptr && !implementation.accepts(args)) continue;
    EXPECT_EQ(words(spans_product(implementation, weight, spans, bias)), expected)
        << implementation.name << " " << weight.format_name() << " " << x.dim(0) << " x " << weight.rows
        << " x " << weight.cols;
    ++compared;
  }
  EXPECT_GE(compared, 1);
}

TEST(QuantizedSpans, MultiplyToTheReferencesBitsForAnyNumberOfRowsAndPanels) {
  for (const std::string& format : block_scaled_formats()) {
    for (const std::int64_t n : {1, 16, 39, 48, 65}) {
      const quant::PackedPtr weight = quant::quantize_and_pack(values({n, 1280}, 2, 0.1F), format);
      for (const std::int64_t m : {1, 3, 8, 30})
        expect_reference_bits_of_spans(*weight, values({m, 1280}, 4, 2),
                                       m % 2 == 0 ? Tensor() : values({n}, 3, 1));
    }
  }
}

TEST(QuantizedSpans, MultiplyRowsThatEndInsideASpan) {
  for (const char* format : {"q4_0", "q4_1", "q5_0", "q8_0", "int4-g32-zero"}) {
    for (const std::int64_t k : {32, 96, 288, 480}) {
      const quant::PackedPtr weight = quant::quantize_and_pack(values({20, k}, 2, 0.1F), format);
      expect_reference_bits_of_spans(*weight, values({9, k}, 4, 2), {});
    }
  }
}

TEST(QuantizedSpans, MultiplyExtremeCodesZerosAndInputsThatAreNoNumbers) {
  for (const quant::BlockFormat& format : quant::block_formats()) {
    const quant::PackedPtr weight = quant::pack(wild_blocks(format, 33, 512));
    expect_reference_bits_of_spans(*weight, special_rows(512), {});
    if (!format.is_written()) continue;
    const quant::PackedPtr zeros = quant::pack(quant::BlockMatrix::quantize(Tensor::zeros({5, 512}), format));
    expect_reference_bits_of_spans(*zeros, values({3, 512}, 4, 2), values({5}, 3, 1));
  }
}

TEST(QuantizedSpans, SumExtremeCodesExactly) {
  Tensor w = Tensor::empty({3, 512}), x = Tensor::empty({2, 512});
  for (std::int64_t i = 0; i < w.numel(); ++i) w.data<float>()[i] = i < 512 ? 1.0F : i < 1024 ? -1.0F : 0.5F;
  for (std::int64_t i = 0; i < x.numel(); ++i) x.data<float>()[i] = i < 512 ? 1.0F : -1.0F;
  const quant::PackedPtr weight = quant::quantize_and_pack(w, "q8_0");
  expect_reference_bits_of_spans(*weight, x, {});
  const Tensor spans = rounded_spans(x, quantize_spans.implementations(DeviceType::cpu).back());
  const Tensor y = Tensor::empty({2, 3});
  launch(quantized_matmul, {},
         {.format = weight->format,
          .x = spans.view(),
          .weight = weight->data.view(),
          .y = y.view(),
          .bias = {}});
  for (std::int64_t i = 0; i < 2; ++i) {
    const float sign = i == 0 ? 1.0F : -1.0F;
    EXPECT_NEAR(y.data<float>()[3 * i], sign * 512, 0.2F);
    EXPECT_NEAR(y.data<float>()[3 * i + 1], -sign * 512, 0.2F);
    EXPECT_NEAR(y.data<float>()[3 * i + 2], sign * 256, 0.2F);
  }
}

TEST(QuantizedRoundedWeights, MultiplyToTheReferencesBitsForAnyNumberOfRowsAndPanels) {
  for (const quant::BlockFormat& format : quant::block_formats()) {
    for (const std::int64_t n : {16, 39}) {
      const quant::PackedPtr weight =
          quant::pack(format.is_written() ? quant::BlockMatrix::quantize(values({n, 768}, 2, 0.1F), format)
                                          : wild_blocks(format, n, 768));
      for (const std::int64_t m : {1, 2, 3, 6, 31})
        expect_reference_bits_of_rounded_weight(*weight, values({m, 768}, 4, 2),
                                                m % 2 == 0 ? Tensor() : values({n}, 3, 1));
    }
  }
}

TEST(QuantizedRoundedWeights, MultiplyRowsThatEndInsideASpan) {
  for (const char* format : {"q4_0", "q4_1", "iq4_nl", "mxfp4", "int4-g32-zero"}) {
    for (const std::int64_t k : {32, 96, 288, 480}) {
      const quant::PackedPtr weight = quant::quantize_and_pack(values({20, k}, 2, 0.1F), format);
      expect_reference_bits_of_rounded_weight(*weight, values({9, k}, 4, 2), {});
    }
  }
}

TEST(QuantizedRoundedWeights, MultiplyExtremeCodesZerosAndInputsThatAreNoNumbers) {
  for (const quant::BlockFormat& format : quant::block_formats()) {
    const quant::PackedPtr weight = quant::pack(wild_blocks(format, 33, 512));
    expect_reference_bits_of_rounded_weight(*weight, special_rows(512), {});
    if (!format.is_written()) continue;
    const quant::PackedPtr zeros = quant::pack(quant::BlockMatrix::quantize(Tensor::zeros({5, 512}), format));
    expect_reference_bits_of_rounded_weight(*zeros, values({3, 512}, 4, 2), values({5}, 3, 1));
  }
}

TEST(QuantizedRoundedWeights, MultiplyTheLargestCodesWithoutSaturation) {
  Tensor w = Tensor::empty({33, 512}), x = Tensor::empty({9, 512});
  for (std::int64_t i = 0; i < w.numel(); ++i) w.data<float>()[i] = i / 512 % 2 == 0 ? 1.0F : -1.0F;
  for (std::int64_t i = 0; i < x.numel(); ++i)
    x.data<float>()[i] = i / 512 % 3 == 0 ? 1.0F : i / 512 % 3 == 1 ? -1.0F : i % 2 == 0 ? 1.0F : -1.0F;
  for (const char* format : {"q8_0", "q4_0", "ternary"}) {
    const quant::PackedPtr weight = quant::quantize_and_pack(w, format);
    expect_reference_bits_of_rounded_weight(*weight, x, {});
  }
}

TEST(QuantizedRoundedWeights, MultiplyMoreRowsThanOneChunk) {
  const quant::PackedPtr weight = quant::quantize_and_pack(values({40, 768}, 2, 0.1F), "iq4_xs");
  expect_reference_bits_of_rounded_weight(*weight, values({1100, 768}, 4, 1), {});
}

// The matmul of the format's values is the measure. Codes of 12 and 13 bits cost a hundredth of the error of
// eight-bit weights, in variance, and less of others.
TEST(QuantizedSpans, StayNearTheMatmulOfTheFormatsValues) {
  const std::int64_t m = 64, n = 48, k = 1024;
  for (const std::string& format : block_scaled_formats()) {
    const Tensor w = values({n, k}, 2, 0.1F), x = values({m, k}, 4, 1);
    const quant::PackedPtr weight = quant::quantize_and_pack(w, format);
    std::vector<std::int64_t> ids(n);
    std::iota(ids.begin(), ids.end(), 0);
    Tensor all = Tensor::empty({n}, DType::i64), exact = Tensor::empty({n, k});
    std::copy(ids.begin(), ids.end(), all.data<std::int64_t>());
    launch(dequantize_rows, {},
           {.format = weight->format, .weight = weight->data.view(), .ids = all.view(), .y = exact.view()});
    const Tensor spans = rounded_spans(x, quantize_spans.implementations(DeviceType::cpu).back());
    const Tensor y =
        spans_product(quantized_matmul.implementations(DeviceType::cpu).back(), *weight, spans, {});
    double error = 0, of_format = 0, size = 0;
    for (std::int64_t i = 0; i < m * n; ++i) {
      double rounded = 0, unrounded = 0;
      for (std::int64_t c = 0; c < k; ++c) {
        const double value = x.data<float>()[i / n * k + c];
        rounded += value * exact.data<float>()[i % n * k + c];
        unrounded += value * w.data<float>()[i % n * k + c];
      }
      error += std::pow(y.data<float>()[i] - rounded, 2);
      of_format += std::pow(rounded - unrounded, 2);
      size += rounded * rounded;
    }
    EXPECT_LT(error / of_format, 0.03) << format;
    EXPECT_LT(std::sqrt(error / size), 0.001) << format;
  }
}

}  // namespace
}  // namespace ingot::kernels
