#include <array>
#include <cmath>
#include <cstring>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "tests/support/op_case.h"
#include <gtest/gtest.h>

#include "ingot/autograd/engine.h"
#include "ingot/autograd/grad_mode.h"
#include "ingot/base/error.h"
#include "ingot/kernels/kernel.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/norm.h"
#include "ingot/ops/rope.h"
#include "ingot/ops/view.h"

namespace ingot {
namespace {

using testing::beside;
using testing::check_op;
using testing::checked_device;
using testing::randn;

constexpr float kEps = 1e-5F;

Tensor positions() { return Tensor::from(std::vector<std::int64_t>{3, 0, 7, 7, 1, 2, 0, 19, 5, 4}, {2, 5}); }

RopeTable table_of(std::int64_t rotary) { return rope_table(rope_frequencies(rotary, 10000.0), 20); }

// rms_norm_rope of in[0] with the weight in[1].
Tensor rotated(std::span<const Tensor> in, const RopeTable& table, RopeOptions options, float offset = 0) {
  options.positions = beside(options.positions, in);
  return rms_norm_rope(in[0], in[1], kEps, offset, {beside(table.cos, in), beside(table.sin, in)}, options);
}

// The gradient of a half type is rounded once more, after it is rotated back. Each term of the weight's
// gradient, one a head, then errs by up to 2^-8 of itself in bf16, and their sum by that times the root of
// their number.
double tolerance_of_half(std::int64_t heads) { return 2e-2 + std::sqrt(static_cast<double>(heads)) * 0x1p-8; }

TEST(RmsNormRope, HoldsForEveryLayout) {
  const Tensor row = Tensor::from(std::vector<std::int32_t>{3, 0, 7, 7, 1}, {5});
  for (const std::int64_t rotary : {2, 6, 32, 40}) {
    const RopeTable table = table_of(rotary);
    for (const bool interleaved : {false, true}) {
      for (const RopeOptions& options :
           {RopeOptions{.interleaved = interleaved, .offset = 4},
            RopeOptions{.interleaved = interleaved, .positions = positions()},
            RopeOptions{.interleaved = interleaved, .heads = 2, .positions = row}}) {
        check_op({.name = "rotary " + std::to_string(rotary),
                  .op = [&](std::span<const Tensor> in) { return rotated(in, table, options); },
                  .inputs = {{Shape{2, 5, 3, 40}}, {Shape{40}}},
                  .half_tolerance = tolerance_of_half(30)});
      }
    }
  }
}

// Few and many heads of a token, of every size that is held in registers, and with Gemma's weights.
TEST(RmsNormRope, HoldsForHeadsOfWholeVectors) {
  for (const std::int64_t size : {32, 64, 128, 256, 512}) {
    const RopeTable table = table_of(size);
    for (const std::int64_t heads : {1, 6}) {
      const float offset = heads == 1 ? 1.0F : 0.0F;
      check_op({.name = std::to_string(heads) + " heads of " + std::to_string(size),
                .op = [&](std::span<const Tensor> in) { return rotated(in, table, {.offset = 3}, offset); },
                .inputs = {{Shape{2, 2, heads, size}}, {Shape{size}}},
                .half_tolerance = tolerance_of_half(4 * heads)});
    }
  }
}

// Heads within a projection for q, k and v; and of each dtype some whose vectors begin elsewhere.
TEST(RmsNormRope, HoldsForSlices) {
  const RopeTable table = table_of(64);
  check_op({.name = "heads",
            .op =
                [&](std::span<const Tensor> in) {
                  const std::vector<Tensor> k{narrow(in[0], 2, 4, 2), in[1]};
                  return rotated(k, table, {.offset = 3});
                },
            .inputs = {{Shape{2, 5, 8, 64}}, {Shape{64}}},
            .half_tolerance = tolerance_of_half(20)});
  for (const auto& [width, skip] : {std::pair{66, 0}, {68, 0}, {72, 2}, {72, 4}}) {
    check_op({.name = std::to_string(skip) + " of " + std::to_string(width),
              .op =
                  [&](std::span<const Tensor> in) {
                    const std::vector<Tensor> slice{narrow(in[0], 3, skip, 64), in[1]};
                    return rotated(slice, table, {});
                  },
              .inputs = {{Shape{2, 5, 3, width}}, {Shape{64}}},
              .half_tolerance = tolerance_of_half(30)});
  }
}

// q, k and v of in[0] with the weights in[1] and in[2], one after another in one row for each token.
Tensor rotated_qkv(std::span<const Tensor> in, const RopeTable& table, float offset = 0) {
  RopeOptions options;
  options.positions = beside(positions(), in);
  const HeadNorms norms{in[1], in[2], kEps, offset};
  const RopeTable there{beside(table.cos, in), beside(table.sin, in)};
  return concat(rms_norm_rope_qkv(in[0], 2, norms, there, options), 2);
}

TEST(RmsNormRope, OfAFusedProjectionHoldsForEveryLayout) {
  for (const std::int64_t size : {40, 64, 128}) {
    const RopeTable table = table_of(size == 40 ? 32 : size);
    check_op(
        {.name = "heads of " + std::to_string(size),
         .op = [&](std::span<const Tensor> in) { return rotated_qkv(in, table, size == 64 ? 1.0F : 0.0F); },
         .inputs = {{Shape{2, 5, 7, size}}, {Shape{size}}, {Shape{size}}},
         .half_tolerance = tolerance_of_half(30)});
  }
}

std::vector<std::byte> bits(const Tensor& x) {
  const Tensor host = to(contiguous(x), kCpu);
  std::vector<std::byte> all(host.nbytes());
  std::memcpy(all.data(), host.view().data, all.size());
  return all;
}

// The results and all gradients; of v only where `with_v`.
std::vector<Tensor> qkv_pass(bool fused, DType dtype, bool with_v, bool selective) {
  constexpr std::int64_t kSize = 64;
  const Device device = checked_device();
  const auto leaf = [&](const Shape& shape, std::uint64_t seed) {
    return to(to(randn(shape, seed), dtype), device).set_requires_grad(true);
  };
  const Tensor source = leaf({2, 5, 7, kSize}, 1), wq = leaf({kSize}, 2), wk = leaf({kSize}, 3);
  const RopeTable table{to(table_of(kSize).cos, device), to(table_of(kSize).sin, device)};
  std::array<Tensor, 3> found;
  {
    const SelectiveRecompute scope(selective);
    const Tensor x = source * 2.0;  // not a leaf, as a projection is none
    if (fused) {
      found = rms_norm_rope_qkv(x, 2, {wq, wk, kEps, 0}, table);
    } else {
      const std::vector<Tensor> parts = split(x, {3, 2, 2}, 2);
      found = {rms_norm_rope(parts[0], wq, kEps, 0, table), rms_norm_rope(parts[1], wk, kEps, 0, table),
               parts[2]};
    }
    // Each is kept by who squares it.
    found = {square(found[0]), square(found[1]), with_v ? square(found[2]) : Tensor{}};
  }
  const std::size_t count = with_v ? 3 : 2;
  std::vector<Tensor> gradients;
  for (std::size_t i = 0; i < count; ++i)
    gradients.push_back(to(to(randn(found[i].shape(), 10 + i), dtype), device));
  backward(std::span(found.data(), count), gradients);
  std::vector<Tensor> all(found.begin(), found.begin() + static_cast<std::ptrdiff_t>(count));
  for (const Tensor& input : {source, wq, wk}) all.push_back(input.grad());
  return all;
}

TEST(RmsNormRope, OfAFusedProjectionHasTheBitsOfItsPartsAndMadeAgain) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const bool with_v : {true, false}) {
      const std::vector<Tensor> expected = qkv_pass(false, dtype, with_v, false);
      for (const bool selective : {false, true}) {
        const std::vector<Tensor> found = qkv_pass(true, dtype, with_v, selective);
        ASSERT_EQ(found.size(), expected.size());
        for (std::size_t i = 0; i < found.size(); ++i)
          EXPECT_EQ(bits(found[i]), bits(expected[i])) << name(dtype) << with_v << selective << i;
      }
    }
  }
}

TEST(RmsNormRope, OfAFusedProjectionRefusesHeadsThatAreNotThere) {
  const Tensor x = Tensor::zeros({1, 2, 4, 8}), w = Tensor::zeros({8});
  EXPECT_THROW(std::ignore = rms_norm_rope_qkv(x, 2, {w, w, kEps, 0}, table_of(8)), ShapeMismatch);
  EXPECT_THROW(std::ignore = rms_norm_rope_qkv(x, 1, {w, Tensor::zeros({4}), kEps, 0}, table_of(8)),
               ShapeMismatch);
}

struct BitsCase {
  DType dtype;
  std::int64_t heads, size, rotary;
  bool interleaved;
};

struct Results {
  Tensor y, dx, dweight;
};

// Of x within a wider tensor, both ways.
Results results(const BitsCase& c, bool fused) {
  const Device device = checked_device();
  const Tensor wide = to(randn({2, 5, c.heads + 3, c.size}, 1, c.dtype), device);
  Tensor weight = to(randn({c.size}, 2, c.dtype), device);
  Tensor x = narrow(wide, 2, 2, c.heads);
  for (Tensor* t : {&x, &weight}) t->set_requires_grad(true);
  const RopeTable host = table_of(c.rotary), table{to(host.cos, device), to(host.sin, device)};
  const RopeOptions options{.interleaved = c.interleaved, .positions = to(positions(), device)};
  const Tensor y = fused ? rms_norm_rope(x, weight, kEps, 1.0F, table, options)
                         : rope(rms_norm(x, weight, kEps, 1.0F), table, options);
  backward(y, {.grad = to(randn(y.shape(), 3, c.dtype), device)});
  return {y, x.grad(), weight.grad()};
}

void expect_the_bits_of_both(const BitsCase& c) {
  SCOPED_TRACE(std::to_string(c.heads) + " heads of " + std::to_string(c.size) + ", " +
               std::to_string(c.rotary) + " rotated" + (c.interleaved ? " side by side, " : ", ") +
               std::string(name(c.dtype)));
  const Results one = results(c, true), two = results(c, false);
  EXPECT_EQ(bits(one.y), bits(two.y));
  EXPECT_EQ(bits(one.dx), bits(two.dx));
  const bool half = is_half_precision(c.dtype);  // of which an ulp is up to 2^-7
  EXPECT_LE(testing::max_error(to(one.dweight, kCpu), to(two.dweight, kCpu)), half ? 0x1p-7 : 1e-5);
}

TEST(RmsNormRope, HasTheBitsOfTheTwoOperations) {
  std::vector<std::optional<kernels::ImplKind>> kinds{std::nullopt};
  if (checked_device().is_cpu()) kinds.emplace_back(kernels::ImplKind::reference);
  for (const auto& kind : kinds) {
    std::optional<kernels::ForceKind> forced;
    if (kind) forced.emplace(*kind);
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
      for (const std::int64_t size : {32, 64, 128, 256, 512})
        expect_the_bits_of_both({dtype, size == 128 ? 11 : 2, size, size, false});
      // In whole vectors, of more numbers than have a config, and not; some elements rotated, and pairs side
      // by side.
      for (const std::int64_t size : {6, 33, 80, 160, 130}) {
        expect_the_bits_of_both({dtype, 3, size, size / 2 * 2, size == 80});
        expect_the_bits_of_both({dtype, 3, size, 4, size != 80});
      }
    }
  }
  if (checked_device().is_cpu()) expect_the_bits_of_both({DType::f64, 3, 64, 64, false});
}

// Few and many heads of either, adjacent and apart.
TEST(RmsNormRope, OfTwoHasTheBitsOfEach) {
  const Device device = checked_device();
  const Tensor row = to(Tensor::from(std::vector<std::int32_t>{3, 0, 7}, {3}), device);
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    for (const auto& [q_heads, k_heads, size] :
         std::vector<std::tuple<std::int64_t, std::int64_t, std::int64_t>>{
             {1, 1, 64}, {8, 2, 64}, {3, 12, 128}, {6, 3, 20}, {2, 5, 6}}) {
      const RopeTable host = table_of(size), table{to(host.cos, device), to(host.sin, device)};
      const auto values = [&](const Shape& shape, std::uint64_t seed) {
        return to(randn(shape, seed, dtype), device);
      };
      const Tensor q = values({2, 3, q_heads, size}, 1), q_weight = values({size}, 2),
                   k = narrow(values({2, 3, k_heads, size + 8}, 3), 3, 8, size), k_weight = values({size}, 4);
      for (const RopeOptions& options :
           {RopeOptions{.interleaved = true, .offset = 4}, RopeOptions{.positions = row}}) {
        const auto both = rms_norm_rope({q, q_weight}, {k, k_weight}, kEps, 0.0F, table, options);
        EXPECT_EQ(bits(both[0]), bits(rms_norm_rope(q, q_weight, kEps, 0.0F, table, options)))
            << q_heads << " of " << size;
        EXPECT_EQ(bits(both[1]), bits(rms_norm_rope(k, k_weight, kEps, 0.0F, table, options)))
            << k_heads << " of " << size;
      }
    }
  }
}

TEST(RmsNormRope, OfTwoPassesBackToBoth) {
  const RopeTable table = table_of(16);
  check_op({.name = "q and k",
            .op =
                [&](std::span<const Tensor> in) {
                  const auto both = rms_norm_rope({in[0], in[2]}, {in[1], in[3]}, kEps, 1.0F,
                                                  {beside(table.cos, in), beside(table.sin, in)});
                  return concat(both, 2);
                },
            .inputs = {{Shape{2, 5, 3, 16}}, {Shape{2, 5, 1, 16}}, {Shape{16}}, {Shape{16}}}});
}

TEST(RmsNormRope, RefusesShapesThatDoNotFit) {
  const RopeTable table = table_of(8);
  const Tensor x = Tensor::zeros({1, 3, 2, 8}), weight = Tensor::zeros({8});
  const auto one = [&](const Tensor& heads, const Tensor& w, const RopeOptions& options = {}) {
    return rms_norm_rope(heads, w, kEps, 0.0F, table, options);
  };
  EXPECT_THROW(one(x, Tensor::zeros({7})), ShapeMismatch);
  EXPECT_THROW(one(x, Tensor::zeros({8}, DType::bf16)), KernelError);
  EXPECT_THROW(one(Tensor::zeros({1, 3, 2, 4}), Tensor::zeros({4})),
               ShapeMismatch);  // more angles than pairs
  EXPECT_THROW(one(Tensor::zeros({3, 2, 8}), weight), DimensionMismatch);
  EXPECT_THROW(one(x, weight, {.heads = 3}), DimensionMismatch);
  EXPECT_THROW(one(x, weight, {.positions = Tensor::zeros({2}, DType::i64)}), ShapeMismatch);
  EXPECT_THROW(one(x, weight, {.offset = 18}), KernelError);  // beyond the table
  const Tensor other = Tensor::zeros({1, 2, 1, 8});
  EXPECT_THROW(rms_norm_rope({x, weight}, {other, weight}, kEps, 0.0F, table), ShapeMismatch);
}

}  // namespace
}  // namespace ingot
