#include "ingot/ops/random.h"

#include <cmath>

#include "tests/support/op_case.h"
#include <gtest/gtest.h>

#include "ingot/base/error.h"
#include "ingot/base/parallel.h"
#include "ingot/kernels/kernel.h"

namespace ingot {
namespace {

using testing::check_op;
using testing::randn;

TEST(Dropout, HoldsForEveryShape) {
  const auto op = [](std::span<const Tensor> in) { return dropout(in[0], 0.3, RngKey{7, 3}); };
  for (const Shape& shape : {Shape{1}, Shape{3, 5}, Shape{2, 131}}) {
    check_op({.name = to_string(shape), .op = op, .inputs = {{shape}}});
  }
}

TEST(Dropout, DropsTheFractionAskedForAndKeepsTheMean) {
  const Tensor ones = Tensor::from(std::vector<float>(100000, 1.0F), {100000});
  double zeros = 0, total = 0;
  for (const float v : dropout(ones, 0.25, RngKey{1, 2}).to_vector<float>()) {
    zeros += v == 0 ? 1 : 0;
    total += v;
  }
  EXPECT_NEAR(zeros / 1e5, 0.25, 0.006);  // four deviations
  EXPECT_NEAR(total / 1e5, 1.0, 0.008);
}

TEST(Dropout, FastAndReferenceKernelsDropTheSame) {
  const Tensor x = randn({20011}, 1);
  const RngKey key{99, (std::uint64_t{1} << 40) + 5};
  const std::vector<float> fast = dropout(x, 0.5, key).to_vector<float>();
  const kernels::ForceKind reference(kernels::ImplKind::reference);
  EXPECT_EQ(fast, dropout(x, 0.5, key).to_vector<float>());
}

TEST(Dropout, RestoringTheStateGivesTheSameMask) {
  set_random_state({.seed = 5, .stream = 1, .calls = 0});
  const Tensor x = randn({64}, 1);
  dropout(x, 0.5);
  const RandomState before = random_state();
  const std::vector<float> first = dropout(x, 0.5).to_vector<float>();
  const std::vector<float> next = dropout(x, 0.5).to_vector<float>();
  EXPECT_NE(first, next);
  {
    const RandomScope again(before);
    EXPECT_EQ(first, dropout(x, 0.5).to_vector<float>());
  }
  EXPECT_EQ(random_state().calls, 3U);
}

TEST(Dropout, RefusesAProbabilityOfOne) { EXPECT_THROW(dropout(randn({2}, 1), 1.0), Error); }

TEST(RandomFill, HasTheMomentsAskedFor) {
  const Tensor y = Tensor::empty({200000});
  normal_(y, 1, 2, RngKey{3, 4});
  double sum = 0, squares = 0, cubes = 0;
  for (const float v : y.to_vector<float>()) {
    const double z = (v - 1) / 2;
    sum += z;
    squares += z * z;
    cubes += z * z * z;
  }
  EXPECT_NEAR(sum / 2e5, 0, 0.01);
  EXPECT_NEAR(squares / 2e5, 1, 0.015);
  EXPECT_NEAR(cubes / 2e5, 0, 0.04);
  uniform_(y, -1, 3, RngKey{3, 4});
  sum = 0;
  for (const float v : y.to_vector<float>()) {
    ASSERT_GE(v, -1);
    ASSERT_LT(v, 3);
    sum += v;
  }
  EXPECT_NEAR(sum / 2e5, 1, 0.012);
}

TEST(RandomFill, FastAgreesWithReferenceForEveryThreadCountAndLength) {
  for (const std::int64_t n : {1, 3, 64, 65, 50001}) {
    const Tensor fast = Tensor::empty({n}), one = Tensor::empty({n}), reference = Tensor::empty({n});
    const RngKey key{11, 12};
    const int threads = num_threads();
    normal_(fast, 0, 1, key);
    set_num_threads(1);
    normal_(one, 0, 1, key);
    set_num_threads(threads);
    EXPECT_EQ(fast.to_vector<float>(), one.to_vector<float>());
    const kernels::ForceKind force(kernels::ImplKind::reference);
    normal_(reference, 0, 1, key);
    EXPECT_LE(testing::max_error(fast, reference), 5e-6);
  }
}

}  // namespace
}  // namespace ingot
