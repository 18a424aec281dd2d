#include "ingot/quant/packed_slice.h"

#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "ingot/base/error.h"
#include "ingot/core/tensor.h"

namespace ingot::quant {
namespace {

constexpr std::int64_t kRows = 40, kCols = 768;

Tensor weight() {
  std::vector<float> values(static_cast<std::size_t>(kRows * kCols));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>((i * 2654435761U >> 8) % 2001) / 1000.0F - 1.0F;
  return Tensor::from(values, {kRows, kCols});
}

class PackedSlice : public ::testing::TestWithParam<std::string> {};

TEST_P(PackedSlice, HasTheValuesOfThatPartOfTheWhole) {
  const PackedPtr whole = quantize_and_pack(weight(), GetParam());
  const std::vector<float> all = values(*whole).to_vector<float>();
  const auto expect = [&](const PackedMatrix& part, std::int64_t row, std::int64_t column) {
    const std::vector<float> some = values(part).to_vector<float>();
    ASSERT_EQ(std::ssize(some), part.rows * part.cols);
    for (std::int64_t r = 0; r < part.rows; ++r)
      for (std::int64_t c = 0; c < part.cols; ++c)
        ASSERT_EQ(some[static_cast<std::size_t>(r * part.cols + c)],
                  all[static_cast<std::size_t>((row + r) * kCols + column + c)])
            << r << ", " << c;
  };
  expect(*slice_rows(*whole, 16, 40), 16, 0);
  expect(*slice_rows(*whole, 0, 16), 0, 0);
  const std::int64_t unit = column_unit(*whole);
  expect(*slice_columns(*whole, 0, unit), 0, 0);
  expect(*slice_columns(*whole, unit, kCols), 0, unit);
  expect(*slice_rows(*slice_columns(*whole, unit, 2 * unit), 32, 40), 32, unit);
}

INSTANTIATE_TEST_SUITE_P(Formats, PackedSlice,
                         ::testing::Values("q8_0", "q4_0", "q4_1", "q5_0", "q5_1", "q4_k", "q5_k", "q6_k",
                                           "iq4_nl", "int4-g32", "int4-g64-zero", "int4-g128", "int8-g64",
                                           "nf4", "nvfp4", "fp8", "fp8-128x128", "w8a8", "ternary"),
                         [](const auto& info) {
                           std::string name = info.param;
                           for (char& c : name)
                             if (c == '-') c = '_';
                           return name;
                         });

TEST(PackedSliceCuts, InsideABlockAreRefusedByTheWeightsName) {
  const PackedPtr whole = quantize_and_pack(weight(), "q4_k");
  try {
    slice_columns(*whole, 64, 512, "layers.0.mlp.down_proj.weight");
    FAIL() << "a cut inside a block of 256";
  } catch (const InvalidConfig& error) {
    const std::string message = error.what();
    EXPECT_NE(message.find("layers.0.mlp.down_proj.weight"), std::string::npos) << message;
    EXPECT_NE(message.find("multiples of 256"), std::string::npos) << message;
  }
  EXPECT_THROW(slice_rows(*whole, 8, 24), InvalidConfig);
  EXPECT_THROW(slice_rows(*whole, 16, 48), InvalidConfig);
}

}  // namespace
}  // namespace ingot::quant
