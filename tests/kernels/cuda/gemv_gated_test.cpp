#include <cmath>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include "tests/kernels/cuda/device.h"
#include "tests/support/op_case.h"
#include <gtest/gtest.h>

#include "ingot/core/backend.h"
#include "ingot/kernels/elementwise.h"
#include "ingot/kernels/gemm.h"
#include "ingot/kernels/launch_profile.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/view.h"

// silu(gate) · up in the launch of its two matmuls, against one launch after the other.
namespace ingot {
namespace {

using testing::randn;

using test::kDevice;

struct GatedCase {
  std::int64_t m, n, k;
  DType x = DType::f32, weight = DType::f32;
  bool gate_bias = false, up_bias = false;
  bool cancels = false;  ///< what the first 128 columns give is large, and minus what the last ones do
};

std::string of(const GatedCase& t) {
  return std::to_string(t.m) + "x" + std::to_string(t.n) + "x" + std::to_string(t.k) + " " +
         std::string(name(t.x)) + " " + std::string(name(t.weight));
}

/// Rows of y and of the scratch lie apart; what is in them and around them is not a number.
struct GatedOperands {
  static constexpr std::int64_t kMargin = 3;
  Tensor x, gate, up, gate_bias, up_bias, y, scratch;

  explicit GatedOperands(const GatedCase& t)
      : x(on_device(operand(t, t.m, 1, 1000), t.x)),
        gate(on_device(operand(t, t.n, 2, -1), t.weight)),
        up(on_device(operand(t, t.n, 3, -1), t.weight)) {
    if (t.gate_bias) gate_bias = on_device(randn({t.n}, 4), t.x);
    if (t.up_bias) up_bias = on_device(randn({t.n}, 5), t.x);
    const Tensor poison = Tensor::empty({t.m, t.n + 2 * kMargin}, t.x);
    std::memset(poison.view().data, 0xff, poison.nbytes());
    y = to(poison, kDevice);
    scratch = to(poison, kDevice);
  }

  static Tensor on_device(const Tensor& numbers, DType dtype) { return to(to(numbers, dtype), kDevice); }
  static Tensor operand(const GatedCase& t, std::int64_t rows, std::uint64_t seed, float first) {
    Tensor numbers = randn({rows, t.k}, seed);
    if (!t.cancels) return numbers;
    for (std::int64_t row = 0; row < rows; ++row) {
      float* const of = numbers.data<float>() + row * t.k;
      for (int i = 0; i < 128; ++i) {
        const float value = of[i] * std::abs(first);
        of[i] = value * (first < 0 ? -1.0F : 1.0F);
        of[t.k - 128 + i] = value;
      }
    }
    return numbers;
  }
  kernels::GemmSiluMulArgs args() const {
    const std::int64_t n = gate.dim(0);
    return {.a = x.view(),
            .gate = transposed(gate.view()),
            .up = transposed(up.view()),
            .c = narrow(y, 1, kMargin, n).view(),
            .scratch = narrow(scratch, 1, kMargin, n).view(),
            .gate_bias = gate_bias.view(),
            .up_bias = up_bias.view()};
  }
};

/// y with its margins, and who computed it.
std::pair<Tensor, std::string> gated(const GatedCase& t) {
  const GatedOperands o(t);
  const kernels::LaunchProfile profile;
  launch(kernels::gemm_silu_mul, current_stream(kDevice), o.args());
  std::string by;
  for (const kernels::LaunchProfile::Entry& entry : profile.entries())
    if (std::string_view(entry.kernel) == "gemm_silu_mul") by = entry.implementation;
  return {to(o.y, kCpu), by};
}

Tensor one_after_the_other(const GatedCase& t) {
  const GatedOperands o(t);
  const kernels::GemmSiluMulArgs args = o.args();
  launch(kernels::gemm_each, current_stream(kDevice), args.matmuls());
  launch(kernels::silu_mul, current_stream(kDevice), {.gate = args.c, .up = args.scratch, .y = args.c});
  return to(o.y, kCpu);
}

void expect_bits_of_one_after_the_other(const GatedCase& t, std::string_view by) {
  const auto [found, implementation] = gated(t);
  const Tensor expected = one_after_the_other(t);
  EXPECT_EQ(implementation, by) << of(t);
  EXPECT_EQ(std::memcmp(found.view().data, expected.view().data, expected.nbytes()), 0) << of(t);
}

struct GatedTypes {
  DType x, weight;
  std::int64_t most_rows;
};
constexpr GatedTypes kGatedTypes[] = {{DType::bf16, DType::bf16, 16},
                                      {DType::f16, DType::f16, 16},
                                      {DType::f32, DType::f32, 8},
                                      {DType::f32, DType::bf16, 8},
                                      {DType::f32, DType::f16, 8}};

// Of each number of rows; tiles that are full and not, depths of a part of an access by all lanes, of one
// round of all warps and of several.
TEST(CudaGemvGated, HasTheBitsOfBothMatmulsAndSiluMul) {
  for (const GatedTypes& types : kGatedTypes) {
    for (std::int64_t m = 1; m <= types.most_rows; ++m)
      expect_bits_of_one_after_the_other({.m = m, .n = 19, .k = 264, .x = types.x, .weight = types.weight},
                                         "gemv");
    for (const auto& [n, k] : {std::pair{1, 8}, {8, 40}, {3, 2312}, {16, 136}})
      expect_bits_of_one_after_the_other({.m = 3, .n = n, .k = k, .x = types.x, .weight = types.weight},
                                         "gemv");
  }
}

TEST(CudaGemvGated, AddsTheBiasOfEitherMatmul) {
  for (const GatedTypes& types : kGatedTypes) {
    for (const auto& [gate_bias, up_bias] : {std::pair{true, true}, {true, false}, {false, true}})
      expect_bits_of_one_after_the_other({.m = 2,
                                          .n = 21,
                                          .k = 72,
                                          .x = types.x,
                                          .weight = types.weight,
                                          .gate_bias = gate_bias,
                                          .up_bias = up_bias},
                                         "gemv");
  }
}

// The most rows of both that 16 warps take, and the fewest that 8 do: of one alone they would be 16. The
// order of such sums shows in the results.
TEST(CudaGemvGated, TakesAsManyWarpsAsBothMatmulsTogether) {
  for (const std::int64_t n : {1024, 1025})
    expect_bits_of_one_after_the_other(
        {.m = 1, .n = n, .k = 1152, .x = DType::f16, .weight = DType::f16, .cancels = true}, "gemv");
}

// More rows, a depth that is not whole vectors.
TEST(CudaGemvGated, LeavesToOthersWhatItCannotRead) {
  for (const GatedTypes& types : kGatedTypes) {
    expect_bits_of_one_after_the_other(
        {.m = types.most_rows + 1, .n = 6, .k = 64, .x = types.x, .weight = types.weight}, "in_three");
    expect_bits_of_one_after_the_other({.m = 2, .n = 6, .k = 60, .x = types.x, .weight = types.weight},
                                       "in_three");
  }
}

}  // namespace
}  // namespace ingot
