#include "ingot/kernels/cuda/elementwise/map.h"

#include <array>
#include <cstdint>
#include <vector>

#include "tests/support/op_case.h"
#include <gtest/gtest.h>

#include "ingot/kernels/strided_iterator.h"
#include "ingot/ops/view.h"

// Where the elements of operands lie, and which of them are read in vectors.
namespace ingot::kernels::cuda {
namespace {

using testing::randn;

constexpr std::int64_t kMost = 0x7fffffff;

void expect_positions(std::int64_t rows, std::int64_t columns) {
  Walk<2> walk;
  walk.rank = 2;
  walk.total = rows * columns;
  walk.set_size(0, rows);
  walk.set_size(1, columns);
  walk.strides[0][0] = 2 * columns;
  walk.strides[0][1] = 1;
  walk.strides[1][0] = 3;
  walk.strides[1][1] = 5 * rows;
  for (const std::int64_t row : {std::int64_t{0}, std::int64_t{1}, rows / 2, rows - 1}) {
    for (const std::int64_t column : {std::int64_t{0}, std::int64_t{1}, columns / 2, columns - 1}) {
      if (row >= rows || column >= columns) continue;
      std::int64_t at[2];
      walk.offsets(row * columns + column, at);
      ASSERT_EQ(at[0], row * 2 * columns + column) << rows << " x " << columns;
      ASSERT_EQ(at[1], row * 3 + column * 5 * rows) << rows << " x " << columns;
    }
  }
}

TEST(CudaMap, FindsThePositionsOfRowsOfEveryLength) {
  for (std::int64_t columns = 1; columns < 3000; ++columns) {
    expect_positions(7, columns);
    expect_positions(kMost / columns, columns);
  }
  for (int bits = 1; bits <= 31; ++bits) {
    for (const std::int64_t around : {-1, 0, 1}) {
      const std::int64_t columns = (std::int64_t{1} << bits) + around;
      if (columns > kMost) continue;
      expect_positions(kMost / columns, columns);
      expect_positions(kMost / columns + 1, columns);  // more than divisors take
      expect_positions(std::int64_t{1} << 20, columns);
    }
  }
}

TEST(CudaMap, ReadsColumnsOfAWiderMatrixInVectors) {
  const Tensor wide = randn({3, 64}, 1, DType::bf16), whole = randn({3, 32}, 2, DType::bf16);
  const auto in_vectors = [&](const Tensor& a) {
    const std::array views{a.view(), whole.view()};
    return vectors(StridedIterator<2>(views), views, kVector<bfloat_t>);
  };
  EXPECT_TRUE(in_vectors(slice(wide, 1, 0, 32)));
  EXPECT_TRUE(in_vectors(slice(wide, 1, 32, 64)));
  EXPECT_FALSE(in_vectors(slice(wide, 1, 1, 33))) << "begins within a vector";
  EXPECT_FALSE(in_vectors(slice(randn({3, 65}, 1, DType::bf16), 1, 0, 32))) << "its second row does";
}

}  // namespace
}  // namespace ingot::kernels::cuda
