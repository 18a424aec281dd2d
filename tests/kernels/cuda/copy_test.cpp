#include "ingot/kernels/copy.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/kernels/cuda/device.h"
#include "tests/support/op_case.h"
#include <gtest/gtest.h>

#include "ingot/core/backend.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/view.h"

// Copies that change the layout, against the CPU's: the same bits.
namespace ingot {
namespace {

using testing::max_error;
using testing::randn;

using test::kDevice;

struct Transposed {
  Shape shape;            // of what is stored
  std::vector<int> axes;  // in the order of the copy
  std::int64_t skip = 0;  // first elements of the last axis that are left out: an odd number misaligns
};

// Around a tile, around a vector, odd; axes outside, between and broadcast; columns of fewer than 16; rows of
// y of a tile of words and more.
const std::vector<Transposed> kTransposed = {{{64, 64}, {1, 0}},
                                             {{65, 63}, {1, 0}},
                                             {{136, 72}, {1, 0}},
                                             {{16, 200}, {1, 0}},
                                             {{200, 16}, {1, 0}},
                                             {{15, 80}, {1, 0}},
                                             {{3, 40, 72}, {0, 2, 1}},
                                             {{2, 24, 3, 32}, {0, 3, 2, 1}},
                                             {{2, 3, 17, 33}, {1, 3, 0, 2}},
                                             {{2, 3, 24, 40}, {3, 1, 2, 0}},
                                             {{40, 73}, {1, 0}, 1},
                                             {{40, 80}, {1, 0}, 8},
                                             {{2, 32, 5, 48}, {0, 3, 1, 2}},
                                             {{2, 454, 70}, {0, 2, 1}},
                                             {{2, 72, 902}, {0, 2, 1}}};

void expect_copied(const Transposed& c, DType from, DType into, bool accumulate) {
  const auto run = [&](Device device) {
    const Tensor whole = to(to(randn(c.shape, 1), from), device);
    const std::int64_t last = c.shape[c.shape.rank() - 1];
    const Tensor x = permute(slice(whole, -1, c.skip, last), c.axes);
    const Tensor y = to(to(randn(x.shape(), 2), into), device);
    launch(kernels::copy, current_stream(device), {.x = x.view(), .y = y.view(), .accumulate = accumulate});
    // and back, into the strides of the source
    const Tensor back = to(to(randn(c.shape, 3), from), device);
    const Tensor again = permute(slice(back, -1, c.skip, last), c.axes);
    launch(kernels::copy, current_stream(device),
           {.x = y.view(), .y = again.view(), .accumulate = accumulate});
    return std::pair{to(y, kCpu), to(back, kCpu)};
  };
  const auto [actual, actual_back] = run(kDevice);
  const auto [expected, expected_back] = run(kCpu);
  const std::string what =
      to_string(c.shape) + " " + std::string(name(from)) + " to " + std::string(name(into));
  EXPECT_EQ(max_error(actual, expected), 0.0) << what;
  EXPECT_EQ(max_error(actual_back, expected_back), 0.0) << what << " and back";
}

TEST(CudaCopy, TransposesAsTheCpuDoes) {
  for (const Transposed& c : kTransposed) {
    for (const DType dtype : {DType::f32, DType::bf16, DType::i64, DType::u8})
      expect_copied(c, dtype, dtype, false);
    for (const DType from : {DType::f32, DType::bf16, DType::f16})
      for (const DType into : {DType::f32, DType::bf16, DType::f16})
        for (const bool accumulate : {false, true}) expect_copied(c, from, into, accumulate);
  }
}

/// Where a matrix lies in its buffer.
struct Position {
  std::int64_t skip = 0, gap = 0;  // elements before it, and between its rows
};
struct Placed {
  Tensor buffer, matrix;
};
Placed placed(std::int64_t rows, std::int64_t columns, const Position& position, const Tensor& values) {
  const Tensor grid = reshape(slice(values, 0, position.skip), {rows, columns + position.gap});
  return {values, slice(grid, -1, 0, columns)};
}

struct OddlyPlaced {
  std::int64_t rows, columns;
  Position x, y;
};

void expect_transposed(const OddlyPlaced& c) {
  const std::vector<std::pair<DType, DType>> dtypes = {{DType::f32, DType::f32},
                                                       {DType::bf16, DType::bf16},
                                                       {DType::u8, DType::u8},
                                                       {DType::f32, DType::bf16},
                                                       {DType::bf16, DType::f32}};
  for (const auto& [from, into] : dtypes) {
    const auto run = [&](Device device) {
      const auto there = [&](std::int64_t rows, std::int64_t columns, const Position& position, DType dtype) {
        const Tensor values = randn({position.skip + rows * (columns + position.gap)}, 1);
        return placed(rows, columns, position, to(to(values, dtype), device));
      };
      const Placed x = there(c.rows, c.columns, c.x, from), y = there(c.columns, c.rows, c.y, into);
      launch(kernels::copy, current_stream(device),
             {.x = permute(x.matrix, {1, 0}).view(), .y = y.matrix.view()});
      return to(y.buffer, kCpu);
    };
    EXPECT_EQ(max_error(run(kDevice), run(kCpu)), 0.0)
        << c.rows << " x " << c.columns << " " << name(from) << " to " << name(into) << ", skip " << c.x.skip
        << " " << c.y.skip << ", gap " << c.x.gap << " " << c.y.gap;
  }
}

// One property alone keeps each from being read or written in whole vectors; what lies between rows stays.
TEST(CudaCopy, TransposesWhatIsNotWholeVectors) {
  const std::vector<OddlyPlaced> cases = {
      {48, 80, {.skip = 1}, {}}, {48, 80, {}, {.skip = 1}}, {48, 80, {.gap = 1}, {}},
      {48, 80, {}, {.gap = 1}},  {48, 75, {.gap = 5}, {}},  {43, 80, {}, {.gap = 5}},
      {48, 80, {.skip = 2}, {}}, {48, 80, {}, {.skip = 2}},
  };
  for (const OddlyPlaced& c : cases) expect_transposed(c);
}

// Rows of y as long as tiles of words have them, which begin at any word of a line of memory.
TEST(CudaCopy, TransposesIntoLinesThatBeginAnywhere) {
  const std::vector<OddlyPlaced> cases = {
      {450, 72, {}, {}},          {896, 136, {}, {.gap = 2}},          {902, 66, {}, {.skip = 6, .gap = 60}},
      {512, 64, {}, {.gap = 64}}, {450, 70, {.gap = 2}, {.skip = 62}},
  };
  for (const OddlyPlaced& c : cases) expect_transposed(c);
}

// Every quarter from -4 to 4, or from 0 where `smallest` says so: what truncates, and what is true though it
// is less than one.
Tensor quarters(double smallest, const Shape& shape, DType dtype, Device device) {
  std::vector<float> values(static_cast<std::size_t>(shape.numel()));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(std::max(smallest, static_cast<double>(i * 7 % 33) / 4 - 4));
  return to(to(Tensor::from(values, shape), dtype), device);
}

// From a size on they are the driver's: every byte, and none beyond, also where elements begin anywhere and
// where the copy is recorded.
TEST(CudaCopy, LargeOnesOfWholeTensorsAreExactAndCanBeRecorded) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const std::int64_t n = (std::int64_t{5} << 18) + 3;
    const Tensor from = to(to(randn({n + 2}, 1), dtype), kDevice);
    const Tensor into = to(to(randn({n + 2}, 2), dtype), kDevice), before = to(into, kCpu);
    const Tensor x = slice(from, 0, 1, n + 1), y = slice(into, 0, 1, n + 1);
    const auto work = backend(kDevice).capture(
        [&] { launch(kernels::copy, current_stream(kDevice), {.x = x.view(), .y = y.view()}); });
    work->launch(current_stream(kDevice));
    const Tensor copied = to(into, kCpu);
    EXPECT_EQ(max_error(slice(copied, 0, 1, n + 1), to(x, kCpu)), 0.0) << name(dtype);
    for (const std::int64_t beside : {std::int64_t{0}, n + 1})
      EXPECT_EQ(max_error(slice(copied, 0, beside, beside + 1), slice(before, 0, beside, beside + 1)), 0.0);
  }
}

// All of bf16, infinities and what is not a number among them, and the floats beside each: what lies between
// two 8-bit floats is there with what is just below and above.
TEST(CudaCopy, RoundsToEightBitFloatsAndBackAsTheCpuDoes) {
  std::vector<float> values;
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const auto exact = std::bit_cast<float>(bits << 16);  // of bf16, whose exponents reach further
    for (const float x : {exact, std::nextafter(exact, 1e30F), std::nextafter(exact, -1e30F)})
      values.push_back(x);
  }
  const Tensor numbers = Tensor::from(values, {static_cast<std::int64_t>(values.size())});
  for (const DType from : {DType::f32, DType::bf16, DType::f16}) {
    for (const DType small : {DType::f8e4m3, DType::f8e5m2}) {
      const Tensor x = to(numbers, from), expected = to(x, small), actual = to(to(x, kDevice), small);
      const Tensor codes = to(actual, kCpu), back = to(to(actual, from), kCpu), as_cpu = to(expected, from);
      std::int64_t different = 0, different_back = 0;
      const auto* const a = static_cast<const std::uint8_t*>(codes.view().data);
      const auto* const e = static_cast<const std::uint8_t*>(expected.view().data);
      for (std::size_t i = 0; i < values.size(); ++i) different += a[i] != e[i];
      const Tensor b = to(back, DType::f32), c = to(as_cpu, DType::f32);
      for (std::size_t i = 0; i < values.size(); ++i) {
        const float x0 = b.data<float>()[i], x1 = c.data<float>()[i];
        different_back += !(x0 == x1 || (std::isnan(x0) && std::isnan(x1)));
      }
      EXPECT_EQ(different, 0) << name(from) << " to " << name(small);
      EXPECT_EQ(different_back, 0) << name(small) << " to " << name(from);
    }
  }
}

TEST(CudaCopy, ConvertsAndAddsInEveryTypeAsTheCpuDoes) {
  const std::vector<DType> dtypes = {DType::f32, DType::f16, DType::bf16, DType::i64,    DType::i32,
                                     DType::i16, DType::i8,  DType::u8,   DType::boolean};
  for (const DType from : dtypes) {
    for (const DType into : dtypes) {
      for (const bool accumulate : {false, true}) {
        const double smallest =
            from == DType::u8 || into == DType::u8 ? 0 : -4;  // it has no negative numbers
        const auto run = [&](Device device) {
          const Tensor x = transpose(quarters(smallest, {7, 5, 3}, from, device), 0, 1);
          const Tensor y = quarters(0, {5, 7, 3}, into, device);
          launch(kernels::copy, current_stream(device),
                 {.x = x.view(), .y = y.view(), .accumulate = accumulate});
          return to(to(y, kCpu), DType::f32).to_vector<float>();
        };
        EXPECT_EQ(run(kDevice), run(kCpu)) << name(from) << " to " << name(into) << " " << accumulate;
      }
    }
  }
}

}  // namespace
}  // namespace ingot
