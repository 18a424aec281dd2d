#include "ingot/quant/block_format.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <fstream>
#include <sstream>

#include "tests/support/source_dir.h"
#include "tests/support/temporary_directory.h"
#include <gtest/gtest.h>

#include "ingot/base/error.h"
#include "ingot/base/rng.h"
#include "ingot/quant/block_matrix.h"
#include "ingot/quant/packed_matrix.h"

namespace ingot::quant {
namespace {

using test::message_of;

std::vector<std::byte> from_hex(const std::string& text) {
  std::vector<std::byte> bytes;
  for (std::size_t i = 0; i < text.size(); i += 2)
    bytes.push_back(static_cast<std::byte>(std::stoi(text.substr(i, 2), nullptr, 16)));
  return bytes;
}

struct Vector {
  std::string format, what;
  std::vector<std::byte> blocks;
  std::vector<float> values;
};

std::vector<Vector> golden_vectors() {
  std::ifstream file(test::source_dir() + "/tests/quant/goldens/blocks.txt");
  std::vector<Vector> vectors;
  std::string blocks, values;
  for (Vector v; file >> v.format >> v.what >> blocks >> values;) {
    v.blocks = from_hex(blocks);
    const auto bytes = from_hex(values);
    v.values.resize(bytes.size() / 4);
    std::memcpy(v.values.data(), bytes.data(), bytes.size());
    vectors.push_back(v);
  }
  return vectors;
}

bool same_bits(float a, float b) {
  return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
}

TEST(BlockFormat, GivesTheBitsOfTheGgufPackage) {
  int compared = 0;
  for (const Vector& v : golden_vectors()) {
    SCOPED_TRACE(v.format + " " + v.what);
    const BlockFormat* format = find_block_format(v.format);
    ASSERT_NE(format, nullptr);
    if (v.what == "dequantize") {
      std::vector<float> values(v.values.size());
      dequantize(*format, v.blocks, values);
      for (std::size_t i = 0; i < values.size(); ++i)
        ASSERT_TRUE(same_bits(values[i], v.values[i])) << i << ": " << values[i] << " is not " << v.values[i];
    } else {
      std::vector<std::byte> blocks(v.blocks.size());
      quantize(*format, v.values, blocks);
      for (std::size_t i = 0; i < blocks.size(); ++i)
        ASSERT_EQ(blocks[i], v.blocks[i]) << "block " << i / format->bytes << ", byte " << i % format->bytes;
    }
    ++compared;
  }
  EXPECT_EQ(compared, 30);
}

TEST(BlockFormat, IsFoundByNameInAnyCaseAndByGgufsNumber) {
  for (const BlockFormat& format : block_formats()) EXPECT_EQ(find_block_format(format.gguf_type), &format);
  EXPECT_EQ(find_block_format("q4_k")->name, "Q4_K");
  EXPECT_EQ(find_block_format("q9_0"), nullptr);
  EXPECT_EQ(find_block_format(99), nullptr);
}

std::vector<float> normal_values(std::size_t n) {
  Rng rng(RngKey{3, 0});
  std::vector<float> values(n);
  for (float& v : values) v = static_cast<float>(rng.normal());
  return values;
}

// Relative errors (root of the mean squares) that rounding normal values leaves.
TEST(BlockFormat, RoundsNormalValuesAsWellAsItsBitsAllow) {
  const std::vector<std::pair<const char*, double>> bounds{
      {"Q8_0", 0.0062}, {"Q6_K", 0.0185},  {"Q5_K", 0.037}, {"Q5_1", 0.041}, {"Q5_0", 0.046},
      {"MXFP4", 0.13},  {"Q4_K", 0.075},   {"Q4_1", 0.083}, {"Q4_0", 0.094}, {"Q3_K", 0.155},
      {"Q2_K", 0.32},   {"IQ4_NL", 0.078}, {"IQ4_XS", 0.08}};
  const std::vector<float> values = normal_values(256 * 64);
  for (const auto& [name, bound] : bounds) {
    const BlockFormat& format = *find_block_format(name);
    std::vector<std::byte> blocks(format.row_bytes(static_cast<std::int64_t>(values.size())));
    std::vector<float> rounded(values.size());
    quantize(format, values, blocks);
    dequantize(format, blocks, rounded);
    double error = 0, power = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      error += std::pow(values[i] - rounded[i], 2);
      power += std::pow(values[i], 2);
    }
    EXPECT_LT(std::sqrt(error / power), bound) << name;
    EXPECT_GT(std::sqrt(error / power), bound * 0.7) << name << ": better than its bits allow?";
  }
}

TEST(BlockFormat, RoundsConstantZeroAndExtremeBlocks) {
  for (const BlockFormat& format : block_formats()) {
    if (!format.is_written()) continue;
    const auto n = static_cast<std::size_t>(format.elements);
    for (const float value : {0.0F, 1.0F, -1.0F, 1e-30F, 1e4F}) {
      std::vector<float> values(n, value), rounded(n);
      std::vector<std::byte> blocks(format.bytes);
      quantize(format, values, blocks);
      dequantize(format, blocks, rounded);
      // Of MXFP4 a constant is not between two codes: 5 becomes 4.
      const double part = format.name == "MXFP4" ? 0.2 : 0.01;
      for (const float r : rounded)
        EXPECT_NEAR(r, value, std::abs(value) * part + 1e-6) << format.name << " " << value;
    }
  }
}

TEST(BlockFormat, IsNotWrittenWhereItIsOnlyRead) {
  const BlockFormat& format = *find_block_format("IQ2_XXS");
  const std::string message = message_of<NotImplemented>([&] {
    BlockMatrix::quantize(Tensor::zeros({1, 256}), format);
  });
  EXPECT_NE(message.find("IQ2_XXS"), std::string::npos) << message;
  EXPECT_NE(message.find("IQ4_XS"), std::string::npos) << message;
}

// What a tile holds is what the file holds, to the bit.
TEST(BlockFormat, KeepsItsValuesInTilesButForQ2K) {
  for (const BlockFormat& format : block_formats()) {
    if (format.name == "Q2_K") continue;
    for (const Vector& v : golden_vectors()) {
      if (v.format != format.name || v.what != "dequantize") continue;
      const auto rows = static_cast<std::int64_t>(v.values.size()) / 256;
      if (rows == 0) continue;
      BlockMatrix matrix{&format, rows, 256,
                         Tensor::empty({rows, static_cast<std::int64_t>(format.row_bytes(256))}, DType::u8)};
      std::memcpy(matrix.blocks.data<std::uint8_t>(), v.blocks.data(), matrix.blocks.nbytes());
      const std::vector<float> found = values(*pack(matrix)).to_vector<float>();
      for (std::size_t i = 0; i < found.size(); ++i)
        ASSERT_EQ(found[i], v.values[i]) << format.name << " element " << i;
    }
  }
}

TEST(BlockMatrix, RefusesWhatItCannotRoundAndNamesTheWeight) {
  const BlockFormat& q4_k = *find_block_format("Q4_K");
  Tensor w = Tensor::zeros({2, 128});
  EXPECT_NE(message_of<Error>([&] { BlockMatrix::quantize(w, q4_k, "mlp.up"); }).find("mlp.up"),
            std::string::npos);
  w = Tensor::zeros({2, 256});
  w.data<float>()[300] = NAN;
  const std::string nan = message_of<Error>([&] { BlockMatrix::quantize(w, q4_k, "mlp.up"); });
  EXPECT_NE(nan.find("mlp.up"), std::string::npos) << nan;
  EXPECT_NE(nan.find("element 300"), std::string::npos) << nan;
  w.data<float>()[300] = 1e9F;
  const std::string large =
      message_of<Error>([&] { BlockMatrix::quantize(w, *find_block_format("Q8_0"), "mlp.up"); });
  EXPECT_NE(large.find("f16's range"), std::string::npos) << large;
  EXPECT_NE(message_of<Error>([&] { BlockMatrix::quantize(Tensor::zeros({256}), q4_k); }).find("matrix"),
            std::string::npos);
}

}  // namespace
}  // namespace ingot::quant
