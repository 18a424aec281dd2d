#include "ingot/kernels/copy.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "tests/support/op_case.h"
#include <gtest/gtest.h>

#include "ingot/ops/cast.h"
#include "ingot/ops/view.h"

namespace ingot {
namespace {

using kernels::ForceKind;
using kernels::ImplKind;
using testing::randn;

struct Layout {
  const char* name;
  Tensor (*of)(const Tensor&);  // of a [6, 70, 33] tensor
};

const Layout kLayouts[] = {
    {"contiguous", [](const Tensor& x) { return x; }},
    {"last two swapped", [](const Tensor& x) { return transpose(x, 1, 2); }},
    {"outer two swapped", [](const Tensor& x) { return transpose(x, 0, 1); }},
    {"every third column", [](const Tensor& x) { return slice(x, 2, 1, 33, 3); }},
    {"one row for all",
     [](const Tensor& x) {
       return broadcast_to(slice(x, 1, 4, 5), {6, 70, 33});
     }},
};

std::vector<float> copied(const Tensor& x, DType dtype, bool accumulate, ImplKind kind) {
  const Tensor y = randn(x.shape(), 9, dtype);
  {
    const ForceKind force(kind);
    launch(kernels::copy, current_stream(kCpu), {.x = x.view(), .y = y.view(), .accumulate = accumulate});
  }
  const Tensor wide = Tensor::empty(x.shape());
  launch(kernels::copy, current_stream(kCpu), {.x = y.view(), .y = wide.view()});
  return wide.to_vector<float>();
}

TEST(CopyKernel, SimdEqualsTheReferenceInEveryLayoutAndConversion) {
  for (const DType from : {DType::f32, DType::bf16, DType::f16}) {
    const Tensor whole = randn({6, 70, 33}, 3, from);
    for (const Layout& layout : kLayouts) {
      const Tensor x = layout.of(whole);
      for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
        SCOPED_TRACE(std::string(layout.name) + " " + std::string(name(from)) + " to " +
                     std::string(name(dtype)));
        EXPECT_EQ(copied(x, dtype, false, ImplKind::simd), copied(x, dtype, false, ImplKind::reference));
        if (dtype != DType::f32 && dtype != from) continue;  // the reference rounds x before it adds
        EXPECT_EQ(copied(x, dtype, true, ImplKind::simd), copied(x, dtype, true, ImplKind::reference));
      }
    }
  }
}

std::vector<float> every_number() {  // of both formats of eight bits: halfway, beside it, beyond
  std::vector<float> numbers{0.0F, -0.0F, 1e30F, -1e30F, INFINITY, -INFINITY, 1e-30F, 5e-8F, 449.0F, 465.0F};
  for (std::uint32_t word = 0x33000000; word < 0x48000000; word += 0x8000)
    for (const int beside : {-1, 0, 1})
      for (const std::uint32_t sign : {0U, 0x80000000U})
        numbers.push_back(std::bit_cast<float>((word + static_cast<std::uint32_t>(beside)) | sign));
  return numbers;
}

TEST(CopyKernel, RoundsToBytesAndWidensThemAsTheReferenceDoes) {
  const std::vector<float> numbers = every_number();
  const Tensor x = Tensor::from(numbers, {static_cast<std::int64_t>(numbers.size())});
  for (const DType dtype : {DType::f8e4m3, DType::f8e5m2}) {
    SCOPED_TRACE(name(dtype));
    const Tensor simd = Tensor::empty(x.shape(), dtype), plain = Tensor::empty(x.shape(), dtype);
    for (const auto& [kind, y] : {std::pair(ImplKind::simd, simd), std::pair(ImplKind::reference, plain)}) {
      const ForceKind force(kind);
      launch(kernels::copy, current_stream(kCpu), {.x = x.view(), .y = y.view()});
    }
    for (std::int64_t i = 0; i < x.numel(); ++i)
      ASSERT_EQ(simd.view().as<std::uint8_t>()[i], plain.view().as<std::uint8_t>()[i]) << numbers[i];
  }
  std::vector<std::uint8_t> codes(256 * 6);
  for (std::size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<std::uint8_t>(i);
  const Tensor bytes = Tensor::from(codes, {6, 256});
  for (const DType dtype : {DType::f8e4m3, DType::f8e5m2, DType::i8}) {
    View from = slice(bytes, 1, 1, 256, 3).view();
    from.dtype = dtype;
    const Tensor simd = Tensor::empty({6, 85}), plain = Tensor::empty({6, 85});
    for (const auto& [kind, y] : {std::pair(ImplKind::simd, simd), std::pair(ImplKind::reference, plain)}) {
      const ForceKind force(kind);
      launch(kernels::copy, current_stream(kCpu), {.x = from, .y = y.view()});
    }
    for (std::int64_t i = 0; i < simd.numel(); ++i)
      ASSERT_EQ(std::bit_cast<std::uint32_t>(simd.data<float>()[i]),
                std::bit_cast<std::uint32_t>(plain.data<float>()[i]));
  }
}

// What x86 and PyTorch give: cut towards zero, the lowest bits of what 32 bits (or 64) hold, else of the
// least number.
TEST(CopyKernel, FloatsThatIntegersDoNotHoldAreDefined) {
  const std::vector<float> numbers{NAN, INFINITY, -INFINITY, -1.9F, 300.5F, 3e9F, -2147483648.0F, 1e19F};
  constexpr std::int64_t kLeast = INT64_MIN, kLeast32 = INT32_MIN;
  const std::pair<DType, std::vector<std::int64_t>> expected[] = {
      {DType::u8, {0, 0, 0, 255, 44, 0, 0, 0}},
      {DType::i32, {kLeast32, kLeast32, kLeast32, -1, 300, kLeast32, kLeast32, kLeast32}},
      {DType::i64, {kLeast, kLeast, kLeast, -1, 300, 3000000000, -2147483648, kLeast}},
  };
  for (const DType from : {DType::f32, DType::f64}) {
    const Tensor x = to(Tensor::from(numbers, {8}), from);
    for (const auto& [dtype, values] : expected) {
      const Tensor y = Tensor::empty({8}, dtype), wide = Tensor::empty({8}, DType::i64);
      launch(kernels::copy, current_stream(kCpu), {.x = x.view(), .y = y.view()});
      launch(kernels::copy, current_stream(kCpu), {.x = y.view(), .y = wide.view()});
      EXPECT_EQ(wide.to_vector<std::int64_t>(), values) << name(from) << " to " << name(dtype);
    }
  }
}

TEST(CopyKernel, TransposesMatricesOfManyTiles) {
  for (const DType from : {DType::f32, DType::bf16}) {
    const Tensor x = transpose(randn({3, 130, 201}, 3, from), 1, 2);
    for (const DType dtype : {DType::f32, DType::f16})
      EXPECT_EQ(copied(x, dtype, false, ImplKind::simd), copied(x, dtype, false, ImplKind::reference));
  }
  const Tensor heads = permute(randn({2, 90, 5, 40}, 4), {2, 3, 0, 1});
  EXPECT_EQ(copied(heads, DType::f32, true, ImplKind::simd),
            copied(heads, DType::f32, true, ImplKind::reference));
}

// Every few elements of a row, up to the end of the memory.
TEST(CopyKernel, SimdEqualsTheReferenceOnEveryFewElements) {
  for (const std::int64_t step : {2, 3, 4, 5}) {
    for (const std::int64_t first : {0, 1}) {
      const Tensor x = slice(randn({5, 131}, 5), 1, first, 131, step);
      EXPECT_EQ(copied(x, DType::f32, false, ImplKind::simd),
                copied(x, DType::f32, false, ImplKind::reference))
          << step;
    }
  }
}

// Rows whose elements are interleaved: blocks of channels as positions, and images enlarged by whole factors.
TEST(CopyKernel, SimdEqualsTheReferenceWhereRowsAreInterleaved) {
  for (const std::int64_t count : {2, 3, 4, 5, 7}) {
    const Tensor channels = permute(randn({2, count, 3, 37}, 5), {0, 2, 3, 1});
    EXPECT_EQ(copied(channels, DType::f32, false, ImplKind::simd),
              copied(channels, DType::f32, false, ImplKind::reference))
        << count;
    const Tensor enlarged = broadcast_to(randn({6, 1, 37, 1}, 6), {6, 2, 37, count});
    EXPECT_EQ(copied(enlarged, DType::f32, false, ImplKind::simd),
              copied(enlarged, DType::f32, false, ImplKind::reference))
        << count;
    EXPECT_EQ(copied(enlarged, DType::f32, true, ImplKind::simd),
              copied(enlarged, DType::f32, true, ImplKind::reference))
        << count;
  }
}

std::vector<std::uint32_t> element_bits(const Tensor& x) {
  std::vector<std::uint32_t> bits(static_cast<std::size_t>(x.numel()));
  for (std::size_t i = 0; i < bits.size(); ++i)
    bits[i] = x.dtype() == DType::f32 ? std::bit_cast<std::uint32_t>(x.data<float>()[i])
                                      : static_cast<const std::uint16_t*>(x.view().data)[i];
  return bits;
}

std::vector<std::uint32_t> converted(const Tensor& x, DType dtype, ImplKind kind) {
  const Tensor y = Tensor::empty(x.shape(), dtype);
  const ForceKind force(kind);
  launch(kernels::copy, current_stream(kCpu), {.x = x.view(), .y = y.view(), .accumulate = false});
  return element_bits(y);
}

// How NaN is marked is the processor's affair.
std::uint32_t without_payload(std::uint32_t bits, DType dtype) {
  const std::uint32_t infinity = dtype == DType::f32 ? 0x7f800000 : dtype == DType::f16 ? 0x7c00 : 0x7f80;
  const std::uint32_t sign = dtype == DType::f32 ? 0x80000000 : 0x8000;
  return (bits & ~sign) > infinity ? infinity + 1 : bits;
}

void expect_same_numbers(const Tensor& x, DType dtype) {
  const auto fast = converted(x, dtype, ImplKind::simd), plain = converted(x, dtype, ImplKind::reference);
  const auto from = element_bits(x);
  for (std::size_t i = 0; i < fast.size(); ++i)
    ASSERT_EQ(without_payload(fast[i], dtype), without_payload(plain[i], dtype))
        << name(x.dtype()) << " of bits " << std::hex << from[i] << " as " << name(dtype);
}

TEST(CopyKernel, WidensEveryHalf) {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    const Tensor x = Tensor::empty({65536}, dtype);
    for (std::size_t i = 0; i < 65536; ++i)
      static_cast<std::uint16_t*>(x.view().data)[i] = static_cast<std::uint16_t>(i);
    expect_same_numbers(x, DType::f32);
  }
}

// Every half, what lies next to the middle between it and the next, and beyond the largest.
TEST(CopyKernel, RoundsToTheNearestHalfAndTiesToEven) {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    std::vector<float> values;
    for (std::uint32_t i = 0; i < 0x10000; ++i) {
      f16 half;
      half.bits = static_cast<std::uint16_t>(i);
      const auto at = dtype == DType::f16 ? std::bit_cast<std::uint32_t>(static_cast<float>(half)) : i << 16;
      const std::uint32_t middle = dtype == DType::f16 ? 0x1000 : 0x8000;
      for (const std::uint32_t bits : {at, at + middle - 1, at + middle, at + middle + 1})
        values.push_back(std::bit_cast<float>(bits));
      values.push_back(static_cast<float>(half) * 1.5F);  // between the denormal ones
    }
    expect_same_numbers(Tensor::from(values, {static_cast<std::int64_t>(values.size())}), dtype);
  }
}

}  // namespace
}  // namespace ingot
