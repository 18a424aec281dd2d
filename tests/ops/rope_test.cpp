#include "ingot/ops/rope.h"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/support/op_case.h"
#include <gtest/gtest.h>

#include "ingot/autograd/engine.h"
#include "ingot/base/error.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/view.h"

namespace ingot {
namespace {

using testing::beside;
using testing::check_op;

TEST(Rope, HoldsForEveryLayout) {
  const Tensor positions = Tensor::from(std::vector<std::int64_t>{3, 0, 7, 7, 1, 2, 0, 19, 5, 4}, {2, 5});
  const Tensor row = Tensor::from(std::vector<std::int32_t>{3, 0, 7, 7, 1}, {5});
  for (const std::int64_t rotary : {2, 6, 32, 40}) {
    const RopeTable table = rope_table(rope_frequencies(rotary, 10000.0), 20);
    for (const bool interleaved : {false, true}) {
      for (const RopeOptions& options :
           {RopeOptions{.interleaved = interleaved}, RopeOptions{.interleaved = interleaved, .offset = 4},
            RopeOptions{.interleaved = interleaved, .positions = positions},
            RopeOptions{.interleaved = interleaved, .heads = 2, .positions = row}}) {
        check_op({.name = "rotary " + std::to_string(rotary),
                  .op =
                      [&](std::span<const Tensor> in) {
                        RopeOptions there = options;
                        there.positions = beside(options.positions, in);
                        return rope(in[0], {beside(table.cos, in), beside(table.sin, in)}, there);
                      },
                  .inputs = {{Shape{2, 5, 3, 40}}}});
      }
    }
  }
}

// Heads of whole vectors, more than a thread rotates at a time; some heads and a row of several tables' worth
// apart.
TEST(Rope, HoldsForHeadsOfWholeVectors) {
  const Tensor positions = Tensor::from(std::vector<std::int64_t>{3, 0, 7, 7, 1, 2, 0, 19, 5, 4}, {2, 5});
  for (const std::int64_t size : {16, 32, 64, 128}) {
    const RopeTable table = rope_table(rope_frequencies(size, 10000.0), 20);
    for (const std::int64_t heads : {1, 3, 11}) {
      for (const bool interleaved : {false, true}) {
        for (const RopeOptions& options :
             {RopeOptions{.interleaved = interleaved, .offset = 4},
              RopeOptions{.interleaved = interleaved, .heads = 1, .positions = positions}}) {
          const auto op = [&](std::span<const Tensor> in) {
            RopeOptions there = options;
            there.positions = beside(options.positions, in);
            return rope(in[0], {beside(table.cos, in), beside(table.sin, in)}, there);
          };
          check_op({.name = std::to_string(heads) + " heads of " + std::to_string(size),
                    .op = op,
                    .inputs = {{Shape{2, 5, heads, size}}}});
        }
      }
    }
  }
}

// Of heads of whole vectors, views that are not: of one dtype the offsets alone, of another the distances
// alone.
TEST(Rope, HoldsForViewsThatAreNotWholeVectors) {
  const RopeTable table = rope_table(rope_frequencies(32, 10000.0), 20);
  for (const auto& [width, skip] : {std::pair{34, 0}, {36, 0}, {40, 2}, {40, 4}}) {
    check_op({.name = std::to_string(skip) + " of " + std::to_string(width),
              .op =
                  [&](std::span<const Tensor> in) {
                    return rope(narrow(in[0], 3, skip, 32), {beside(table.cos, in), beside(table.sin, in)});
                  },
              .inputs = {{Shape{2, 5, 3, width}}}});
  }
}

TEST(Rope, HoldsForManyHeads) {
  const RopeTable table = rope_table(rope_frequencies(6, 10000.0), 450);
  check_op({.name = "many",
            .op =
                [&](std::span<const Tensor> in) {
                  return rope(in[0], {beside(table.cos, in), beside(table.sin, in)});
                },
            .inputs = {{Shape{1, 450, 3, 6}}}});
}

// Few and many heads of either, of whole vectors and not, adjacent and apart.
TEST(Rope, OfTwoHasTheBitsOfEach) {
  const Tensor positions = Tensor::from(std::vector<std::int32_t>{3, 0, 7}, {3});
  const Device device = testing::checked_device();
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    for (const auto& [q_heads, k_heads, size] :
         std::vector<std::tuple<std::int64_t, std::int64_t, std::int64_t>>{
             {1, 1, 64}, {8, 2, 64}, {3, 12, 128}, {6, 3, 20}, {2, 5, 6}}) {
      const RopeTable table = rope_table(rope_frequencies(size, 10000.0), 20, 1.0F, device);
      const Tensor q = to(to(testing::randn({2, 3, q_heads, size}, 1), dtype), device),
                   k = narrow(to(to(testing::randn({2, 3, k_heads, size + 8}, 2), dtype), device), 3, 8,
                              size);
      for (const RopeOptions& options : {RopeOptions{.interleaved = true, .offset = 4},
                                         RopeOptions{.heads = 2, .positions = to(positions, device)},
                                         RopeOptions{.positions = to(positions, device)}}) {
        if (options.heads > std::min(q_heads, k_heads)) continue;
        const auto found = rope(q, k, table, options);
        const auto values = [](const Tensor& x) { return to(to(x, kCpu), DType::f32).to_vector<float>(); };
        EXPECT_EQ(values(found[0]), values(rope(q, table, options))) << q_heads << " of " << size;
        EXPECT_EQ(values(found[1]), values(rope(k, table, options))) << k_heads << " of " << size;
      }
    }
  }
}

TEST(Rope, OfTwoPassesBackToBoth) {
  const RopeTable table = rope_table(rope_frequencies(16, 10000.0), 20);
  check_op({.name = "q and k",
            .op =
                [&](std::span<const Tensor> in) {
                  const auto rotated = rope(in[0], in[1], {beside(table.cos, in), beside(table.sin, in)});
                  return concat(rotated, 2);
                },
            .inputs = {{Shape{2, 5, 3, 16}}, {Shape{2, 5, 1, 16}}}});
}

TEST(Rope, InPlaceHasTheBitsOfRopeAndItsGradient) {
  const Device device = testing::checked_device();
  const RopeTable on_host = rope_table(rope_frequencies(32, 10000.0), 20);
  const RopeTable table{to(on_host.cos, device), to(on_host.sin, device)};
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const std::int64_t size : {32, 40}) {
      for (const std::int64_t heads : {0, 3}) {
        const RopeOptions options{.offset = 2, .heads = heads};
        Tensor x = to(to(testing::randn({2, 5, 4, size}, 1), dtype), device).set_requires_grad(true);
        const Tensor dy = to(to(testing::randn({2, 5, 4, size}, 2), dtype), device);
        const auto run = [&](bool in_place) {
          x.set_grad({});
          Tensor given = clone(x);
          const void* const memory = given.view().data;
          const Tensor y =
              in_place ? rope_in_place(std::move(given), table, options) : rope(given, table, options);
          EXPECT_EQ(y.view().data == memory, in_place);
          backward(y, {.grad = dy});
          return std::pair{to(y, kCpu), to(x.grad(), kCpu)};
        };
        const auto found = run(true), expected = run(false);
        EXPECT_EQ(testing::max_error(found.first, expected.first), 0.0);
        EXPECT_EQ(testing::max_error(found.second, expected.second), 0.0);
      }
    }
  }
}

TEST(Rope, InPlaceLeavesMemoryThatOthersHold) {
  const RopeTable table = rope_table(rope_frequencies(8, 10000.0), 20);
  const Tensor x = testing::randn({1, 5, 2, 8}, 1), before = clone(x);
  const Tensor y = rope_in_place(x, table);
  EXPECT_EQ(testing::max_error(x, before), 0.0);
  EXPECT_EQ(testing::max_error(y, rope(x, table)), 0.0);
  // The gradient that arrives at two nodes is not rotated at the other.
  Tensor a = clone(x).set_requires_grad(true), b = clone(x).set_requires_grad(true);
  const Tensor dy = testing::randn({1, 5, 2, 8}, 2);
  backward(rope(a, table) + b, {.grad = dy});
  EXPECT_EQ(testing::max_error(b.grad(), dy), 0.0);
}

TEST(Rope, RotatesPairsByTheirAngle) {
  const RopeTable table = rope_table(std::vector<float>{1.0F, 0.25F}, 8);
  const Tensor x = Tensor::from(std::vector<float>{1, 2, 3, 4}, {1, 1, 1, 4});
  const double a = 5.0, b = 1.25;  // angles of position 5
  const std::vector<float> halves = rope(x, table, {.offset = 5}).to_vector<float>();
  EXPECT_NEAR(halves[0], std::cos(a) * 1 - std::sin(a) * 3, 1e-6);
  EXPECT_NEAR(halves[2], std::cos(a) * 3 + std::sin(a) * 1, 1e-6);
  EXPECT_NEAR(halves[1], std::cos(b) * 2 - std::sin(b) * 4, 1e-6);
  EXPECT_NEAR(halves[3], std::cos(b) * 4 + std::sin(b) * 2, 1e-6);
  const std::vector<float> pairs = rope(x, table, {.interleaved = true, .offset = 5}).to_vector<float>();
  EXPECT_NEAR(pairs[0], std::cos(a) * 1 - std::sin(a) * 2, 1e-6);
  EXPECT_NEAR(pairs[1], std::cos(a) * 2 + std::sin(a) * 1, 1e-6);
  EXPECT_NEAR(pairs[3], std::cos(b) * 4 + std::sin(b) * 3, 1e-6);
}

TEST(Rope, APositionOutsideTheTableIsNamed) {
  const RopeTable table = rope_table(rope_frequencies(4, 10000.0), 8);
  try {
    rope(Tensor::zeros({1, 3, 1, 4}), table, {.offset = 6});
    FAIL();
  } catch (const KernelError& e) {
    EXPECT_NE(std::string(e.what()).find("position 8"), std::string::npos) << e.what();
  }
}

TEST(Rope, RefusesShapesThatDoNotFit) {
  const RopeTable table = rope_table(rope_frequencies(8, 10000.0), 8);
  EXPECT_THROW(rope(Tensor::zeros({1, 3, 2, 8}), Tensor::zeros({1, 2, 1, 8}), table), ShapeMismatch);
  EXPECT_THROW(rope(Tensor::zeros({1, 3, 2, 8}), Tensor::zeros({1, 3, 1, 10}), table), ShapeMismatch);
  EXPECT_THROW(rope(Tensor::zeros({1, 3, 2, 8}), Tensor::zeros({1, 3, 1, 8}, DType::bf16), table),
               KernelError);
  EXPECT_THROW(rope(Tensor::zeros({1, 3, 1, 4}), table), ShapeMismatch);
  EXPECT_THROW(rope(Tensor::zeros({3, 1, 8}), table), DimensionMismatch);
  EXPECT_THROW(rope(Tensor::zeros({1, 3, 1, 8}), table, {.heads = 2}), DimensionMismatch);
  EXPECT_THROW(rope(Tensor::zeros({1, 3, 1, 8}), table, {.positions = Tensor::zeros({2}, DType::i64)}),
               ShapeMismatch);
  EXPECT_THROW(rope_frequencies(7, 10000.0), DimensionMismatch);
}

}  // namespace
}  // namespace ingot
