#include "ingot/core/dtype.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "ingot/base/error.h"

namespace ingot {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

TEST(DType, F16ConvertsKnownValues) {
  EXPECT_EQ(f16(0.0F).bits, 0x0000);
  EXPECT_EQ(f16(-0.0F).bits, 0x8000);
  EXPECT_EQ(f16(1.0F).bits, 0x3c00);
  EXPECT_EQ(f16(65504.0F).bits, 0x7bff);
  EXPECT_EQ(f16(65519.0F).bits, 0x7bff);
  EXPECT_EQ(f16(65520.0F).bits, 0x7c00);  // halfway to the next step: to even, which is infinity
  EXPECT_EQ(f16(kInf).bits, 0x7c00);
  EXPECT_EQ(f16(0x1p-24F).bits, 0x0001);  // the smallest subnormal
  EXPECT_EQ(f16(0x1p-25F).bits, 0x0000);  // half of it: to even
  EXPECT_EQ(f16(0x1.8p-25F).bits, 0x0001);
  EXPECT_TRUE(std::isnan(static_cast<float>(f16(NAN))));
}

// Every code decodes to a float that encodes to the code again: exact on all 65536.
TEST(DType, HalfTypesRoundTripEveryCode) {
  for (std::uint32_t code = 0; code < 65536; ++code) {
    f16 h;
    h.bits = static_cast<std::uint16_t>(code);
    const auto value = static_cast<float>(h);
    if (!std::isnan(value)) EXPECT_EQ(f16(value).bits, code);
    bf16 b;
    b.bits = static_cast<std::uint16_t>(code);
    const auto brain = static_cast<float>(b);
    if (!std::isnan(brain)) EXPECT_EQ(bf16(brain).bits, code);
  }
}

TEST(DType, Bf16RoundsToNearestEven) {
  EXPECT_EQ(bf16(1.0F + 0x1p-8F).bits, 0x3f80);      // a tie goes to even: down
  EXPECT_EQ(bf16(1.0F + 3 * 0x1p-8F).bits, 0x3f82);  // a tie goes to even: up
  EXPECT_EQ(bf16(1.0F + 0x1.1p-8F).bits, 0x3f81);
  EXPECT_TRUE(std::isnan(static_cast<float>(bf16(NAN))));
  EXPECT_EQ(bf16(kInf).bits, 0x7f80);
}

TEST(DType, Float8FollowsTheOcpSpecification) {
  EXPECT_EQ(static_cast<float>(f8e4m3(448.0F)), 448.0F);
  EXPECT_EQ(static_cast<float>(f8e4m3(1e9F)), 448.0F);  // saturates: E4M3 has no infinity
  EXPECT_EQ(static_cast<float>(f8e4m3(0x1p-9F)), 0x1p-9F);
  EXPECT_EQ(f8e4m3(1.0F).bits, 0x38);
  EXPECT_EQ(static_cast<float>(f8e5m2(57344.0F)), 57344.0F);
  EXPECT_EQ(f8e5m2(1.0F).bits, 0x3c);
  for (std::uint32_t code = 0; code < 256; ++code) {
    f8e4m3 a;
    a.bits = static_cast<std::uint8_t>(code);
    if (!std::isnan(static_cast<float>(a))) EXPECT_EQ(f8e4m3(static_cast<float>(a)).bits, code);
    f8e5m2 b;
    b.bits = static_cast<std::uint8_t>(code);
    const auto value = static_cast<float>(b);
    if (std::isfinite(value)) EXPECT_EQ(f8e5m2(value).bits, code);
  }
}

TEST(DType, ParseTakesTheNamesOfPytorchAndSafetensors) {
  for (const char* text : {"bf16", "BF16", "bfloat16", "torch.bfloat16"})
    EXPECT_EQ(parse_dtype(text), DType::bf16);
  EXPECT_EQ(parse_dtype("F8_E4M3"), DType::f8e4m3);
  EXPECT_EQ(parse_dtype("float"), DType::f32);
  try {
    parse_dtype("bf61");
    FAIL();
  } catch (const InvalidConfig& error) {
    EXPECT_NE(std::string(error.what()).find("'bf61'"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("bf16"), std::string::npos);
  }
}

TEST(DType, HelpersAgreeWithTheTypes) {
  EXPECT_EQ(byte_size(DType::f64), 8U);
  EXPECT_EQ(byte_size(DType::bf16), 2U);
  EXPECT_TRUE(is_floating_point(DType::f8e5m2));
  EXPECT_FALSE(is_floating_point(DType::i64));
  EXPECT_TRUE(is_integer(DType::u8));
  EXPECT_FALSE(is_integer(DType::boolean));
  EXPECT_TRUE(is_half_precision(DType::f16));
  EXPECT_FALSE(is_training_dtype(DType::f64));
  EXPECT_EQ(accumulator_dtype(DType::bf16), DType::f32);
  EXPECT_EQ(accumulator_dtype(DType::i8), DType::i64);
}

}  // namespace
}  // namespace ingot
