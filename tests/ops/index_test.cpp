#include "ingot/ops/index.h"

#include <string>

#include "tests/support/op_case.h"
#include <gtest/gtest.h>

#include "ingot/autograd/engine.h"
#include "ingot/base/error.h"
#include "ingot/base/parallel.h"
#include "ingot/kernels/kernel.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/view.h"

namespace ingot {
namespace {

using testing::check_op;
using testing::filled;
using testing::randn;

Tensor index_tensor(std::vector<std::int64_t> values, const Shape& shape) {
  return Tensor::from(values, shape);
}

TEST(Embedding, HoldsForEveryShape) {
  const auto op = [](std::span<const Tensor> in) { return embedding(in[0], in[1]); };
  for (const auto& [weight, shape] : {std::pair{Shape{1, 1}, Shape{1}},
                                      {Shape{5, 7}, Shape{2, 9}},
                                      {Shape{3, 33}, Shape{}},
                                      {Shape{4, 64}, Shape{2, 3, 2}}}) {
    check_op({.name = to_string(weight) + to_string(shape),
              .op = op,
              .inputs = {{weight}, {.shape = shape, .integers_below = weight[0]}}});
  }
  const auto narrow_ids = [](std::span<const Tensor> in) {
    return embedding(transpose(in[0], 0, 1), to(in[1], DType::i32));
  };
  check_op({.name = "transposed weight, i32 ids",
            .op = narrow_ids,
            .inputs = {{Shape{7, 5}}, {.shape = {4}, .integers_below = 5}}});
}

TEST(Embedding, TheGradientIsTheSameBitsForEveryThreadCount) {
  Tensor weight = randn({50, 100}, 1);
  weight.set_requires_grad(true);
  std::vector<std::int64_t> values(3000);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::int64_t>(i * i % 50);
  const Tensor indices = index_tensor(values, {3000}), dy = randn({3000, 100}, 2);
  const auto gradient = [&](int threads) {
    const int before = num_threads();
    set_num_threads(threads);
    weight.set_grad({});
    backward(embedding(weight, indices), {.grad = dy});
    set_num_threads(before);
    return weight.grad().to_vector<float>();
  };
  EXPECT_EQ(gradient(1), gradient(3));
}

TEST(Embedding, AHalfTypeGradientOfAFrequentTokenIsSummedInFull) {
  for (const DType dtype : {DType::bf16, DType::f16}) {
    Tensor weight = randn({3, 40}, 1, dtype);
    weight.set_requires_grad(true);
    const Tensor dy = to(Tensor::from(std::vector<float>(4096L * 40, 0.0078125F), {4096, 40}),
                         dtype);  // bf16 sums would stop growing at 2
    backward(embedding(weight, index_tensor(std::vector<std::int64_t>(4096, 1), {4096})), {.grad = dy});
    const std::vector<float> grad = to(weight.grad(), DType::f32).to_vector<float>();
    EXPECT_EQ(grad[0], 0.0F);
    EXPECT_EQ(grad[40], 32.0F);
    EXPECT_EQ(grad[119], 0.0F);
  }
}

TEST(Embedding, AnIdOutsideNamesIndexValueAndBound) {
  try {
    embedding(randn({5, 2}, 1), index_tensor({0, 4, 5, 9}, {2, 2}));
    FAIL() << "no error";
  } catch (const DimensionMismatch& error) {
    const std::string message = error.what();
    for (const char* part : {"embedding", "index 5", "position 2", "[0, 5)"}) {
      EXPECT_NE(message.find(part), std::string::npos) << message;
    }
  }
  EXPECT_THROW(embedding(randn({5, 2}, 1), index_tensor({-1}, {1})), DimensionMismatch);
  EXPECT_THROW(embedding(randn({5, 2}, 1), randn({3}, 1)), KernelError);
  EXPECT_THROW(embedding(randn({5}, 1), index_tensor({1}, {1})), DimensionMismatch);
}

TEST(Gather, HoldsOnEveryAxis) {
  for (const int axis : {0, 1, -1}) {
    const Shape shape{3, 4, 5};
    check_op(
        {.name = "axis " + std::to_string(axis),
         .op = [=](std::span<const Tensor> in) { return gather(in[0], axis, in[1]); },
         .inputs = {{shape}, {.shape = shape.with(axis < 0 ? axis + 3 : axis, 7), .integers_below = 3}}});
  }
  EXPECT_THROW(gather(randn({2, 3}, 1), 0, index_tensor({0, 0}, {1, 2})), ShapeMismatch);
  EXPECT_THROW(gather(randn({2, 3}, 1), 0, index_tensor({0, 2, 0}, {1, 3})), DimensionMismatch);
}

TEST(ScatterAdd, HoldsOnEveryAxis) {
  for (const int axis : {0, 1, -1}) {
    const Shape shape{3, 4, 5}, source = shape.with(axis < 0 ? axis + 3 : axis, 7);
    check_op({.name = "axis " + std::to_string(axis),
              .op = [=](std::span<const Tensor> in) { return scatter_add(in[0], axis, in[2], in[1]); },
              .inputs = {{shape}, {source}, {.shape = source, .integers_below = 3}}});
  }
  EXPECT_THROW(scatter_add(randn({2, 3}, 1), 1, index_tensor({0, 1}, {2, 1}), randn({2, 2}, 1)),
               ShapeMismatch);
}

// Larger than a thread's share, so that lines, parts of lines and parts of the destination are worked on
// apart.
TEST(ScatterAdd, ManyIndicesAddUpAsTheyWouldOneByOne) {
  for (const auto& [shape, along] : {std::pair{Shape{100'000}, 0},
                                     {Shape{2000, 70}, 0},
                                     {Shape{70, 2000}, 1},
                                     {Shape{3, 50'000}, 1},
                                     {Shape{4, 300, 90}, 1}}) {
    const int axis = along;  // clang 14 captures no binding
    std::vector<std::int64_t> places(static_cast<std::size_t>(shape.numel()));
    for (std::size_t i = 0; i < places.size(); ++i) places[i] = static_cast<std::int64_t>(i * i % 41);
    const Tensor index = index_tensor(places, shape);
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
      const Tensor source = randn(shape, 3, dtype), x = randn(shape.with(axis, 41), 4, dtype);
      const auto both = [&] {
        return std::pair{to(scatter_add(x, axis, index, source), DType::f32).to_vector<float>(),
                         to(gather(x, axis, index), DType::f32).to_vector<float>()};
      };
      const auto fast = both();
      const kernels::ForceKind reference(kernels::ImplKind::reference);
      EXPECT_EQ(fast, both()) << to_string(shape) << " axis " << axis << " " << name(dtype);
    }
  }
}

TEST(ScatterAdd, ManySmallNumbersCountInHalfTypesToo) {
  for (const DType dtype : {DType::bf16, DType::f16}) {
    for (const int axis : {0, 1}) {
      const Shape shape = axis == 0 ? Shape{4096, 3} : Shape{3, 4096};
      const Tensor small = to(filled(shape, 1.0F / 1024), dtype);  // lost if 1 + small were rounded
      const Tensor x = to(filled(shape.with(axis, 2), 1.0F), dtype);
      const Tensor sum = scatter_add(x, axis, Tensor::zeros(shape, DType::i64), small);
      const std::vector<float> got = to(sum, DType::f32).to_vector<float>();
      EXPECT_EQ(got,
                axis == 0 ? (std::vector<float>{5, 5, 5, 1, 1, 1}) : (std::vector<float>{5, 1, 5, 1, 5, 1}));
    }
  }
}

TEST(Gather, MovesElementsOfEveryType) {
  const std::vector<std::int64_t> values{1, 0, 1, 1, 0, 1};
  const Tensor index = index_tensor({2, 0, 1, 1, 2, 0}, {3, 2});
  for (const DType dtype : {DType::boolean, DType::i8, DType::i16, DType::i32, DType::i64, DType::f16,
                            DType::bf16, DType::f32, DType::f64}) {
    const Tensor x = to(Tensor::from(values, {3, 2}), dtype);
    EXPECT_EQ(to(gather(x, 0, index), DType::i64).to_vector<std::int64_t>(),
              (std::vector<std::int64_t>{0, 0, 1, 1, 0, 0}))
        << name(dtype);
  }
}

TEST(Gather, TransposedAndSlicedTensorsGiveWhatCopiesOfThemGive) {
  const Tensor x = transpose(randn({50, 40}, 1), 0, 1);  // [40, 50]
  std::vector<std::int64_t> places(60 * 50);
  for (std::size_t i = 0; i < places.size(); ++i) places[i] = static_cast<std::int64_t>(i * 7 % 40);
  const Tensor index = transpose(index_tensor(places, {50, 60}), 0, 1);  // [60, 50]
  EXPECT_EQ(gather(x, 0, index).to_vector<float>(),
            gather(contiguous(x), 0, contiguous(index)).to_vector<float>());
  const Tensor some = slice(transpose(index, 0, 1), 0, 0, 20);  // [20, 60]
  EXPECT_EQ(gather(slice(x, 0, 20, 40), 1, some).to_vector<float>(),
            gather(contiguous(slice(x, 0, 20, 40)), 1, contiguous(some)).to_vector<float>());
}

TEST(Indices, TheFirstOneOutsideIsNamedHoweverManyThereAre) {
  std::vector<std::int32_t> values(200'000, 1);
  values[150'001] = 7;
  values[199'999] = -2;
  try {
    one_hot(Tensor::from(values, {200'000}), 3);
    FAIL() << "no error";
  } catch (const DimensionMismatch& error) {
    EXPECT_NE(std::string(error.what()).find("index 7 at position 150001"), std::string::npos)
        << error.what();
  }
}

TEST(IndexSelect, HoldsOnEveryAxis) {
  for (const int axis : {0, 1, -1}) {
    check_op({.name = "axis " + std::to_string(axis),
              .op = [=](std::span<const Tensor> in) { return index_select(in[0], axis, in[1]); },
              .inputs = {{Shape{3, 4, 5}}, {.shape = {6}, .integers_below = 3}}});
  }
  EXPECT_THROW(index_select(randn({2}, 1), 0, index_tensor({2}, {1})), DimensionMismatch);
}

TEST(OneHot, IsOneAtTheIds) {
  EXPECT_EQ(one_hot(index_tensor({1, 0}, {2}), 3).to_vector<float>(), (std::vector<float>{0, 1, 0, 1, 0, 0}));
  EXPECT_EQ(one_hot(index_tensor({1}, {1}), 2, DType::i64).to_vector<std::int64_t>(),
            (std::vector<std::int64_t>{0, 1}));
  EXPECT_THROW(one_hot(index_tensor({3}, {1}), 3), DimensionMismatch);
}

}  // namespace
}  // namespace ingot
