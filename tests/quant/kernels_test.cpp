// Every implementation of the quantised kernels that this machine can run gives the reference's bits.
#include <bit>
#include <cmath>
#include <cstring>

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

// All codes at both ends, scales of both signs and of f16's smallest and largest magnitudes: random bytes,
// but for the f16 numbers.
quant::BlockMatrix wild_blocks(const quant::BlockFormat& format, std::int64_t rows, std::int64_t cols) {
  quant::BlockMatrix matrix = quant::BlockMatrix::quantize(values({rows, cols}, 7, 1), format);
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
        quant::pack(quant::BlockMatrix::quantize(values({39, 512}, 2, 0.1F), format));
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

TEST(QuantizedKernels, MultiplyMoreRowsThanOneChunk) {
  const quant::PackedPtr weight = quant::quantize_and_pack(values({16, 4096}, 2, 0.1F), "q4_0");
  expect_reference_bits(weight, values({100, 4096}, 4, 1), {});
}

}  // namespace
}  // namespace ingot::kernels
