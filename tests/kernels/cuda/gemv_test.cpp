#include <cmath>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/kernels/cuda/device.h"
#include "tests/support/op_case.h"
#include <gtest/gtest.h>

#include "ingot/core/backend.h"
#include "ingot/kernels/gemm.h"
#include "ingot/kernels/launch_profile.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/view.h"

// Matmuls of few rows with the transpose of a weight, against the CPU's reference in f32 on the same rounded
// numbers.
namespace ingot {
namespace {

using testing::max_error;
using testing::randn;

using test::kDevice;

struct GemvCase {
  std::int64_t m, n, k;
  DType x = DType::f32, weight = DType::f32;
  float alpha = 1.0F, beta = 0.0F;
  bool bias = false;
};

std::string of(const GemvCase& t) {
  return std::to_string(t.m) + "x" + std::to_string(t.n) + "x" + std::to_string(t.k) + " " +
         std::string(name(t.x)) + " " + std::string(name(t.weight));
}

struct GemvOperands {
  Tensor x, weight, y, bias;

  explicit GemvOperands(const GemvCase& t)
      : x(to(randn({t.m, t.k}, 1), t.x)),
        weight(to(randn({t.n, t.k}, 2), t.weight)),
        y(to(randn({t.m, t.n}, 3), t.x)) {
    if (t.bias) bias = to(randn({t.n}, 4), t.x);
  }
};

/// What the matmul makes of `y`.
Tensor run_gemv(const GemvCase& t, const Tensor& x, const Tensor& weight, const Tensor& y,
                const Tensor& bias) {
  launch(kernels::gemm, current_stream(y.device()),
         {.a = x.view(),
          .b = transposed(weight.view()),
          .c = y.view(),
          .bias = bias.defined() ? bias.view() : View{},
          .alpha = t.alpha,
          .beta = t.beta});
  return y;
}

Tensor gemv_on_device(const GemvCase& t, const GemvOperands& o) {
  return to(run_gemv(t, to(o.x, kDevice), to(o.weight, kDevice), to(o.y, kDevice),
                     o.bias.defined() ? to(o.bias, kDevice) : o.bias),
            kCpu);
}

void expect_right_gemv(const GemvCase& t) {
  const GemvOperands o(t);
  const auto wide = [](const Tensor& x) { return x.defined() ? to(to(x, DType::f32), DType::f32) : x; };
  const Tensor y = Tensor::empty(o.y.shape());
  std::memcpy(y.view().data, wide(o.y).view().data, y.nbytes());
  Tensor expected;
  {
    const kernels::ForceKind reference(kernels::ImplKind::reference);
    expected = run_gemv(t, wide(o.x), wide(o.weight), y, wide(o.bias));
  }
  const double rounding = t.x == DType::bf16 ? 4e-3 : t.x == DType::f16 ? 5e-4 : 1e-6;
  EXPECT_LE(max_error(to(gemv_on_device(t, o), DType::f32), expected), test::largest(expected) * rounding)
      << of(t);
}

/// The implementation that takes the matmul of these operands on the device.
template <class F>
std::string implementation_of(const F& run, std::string_view kernel = "gemm") {
  const kernels::LaunchProfile profile;
  run();
  for (const kernels::LaunchProfile::Entry& entry : profile.entries())
    if (entry.kernel == kernel) return entry.implementation;
  return "";
}

struct GemvTypes {
  DType x, weight;
  std::int64_t most_rows;
};
constexpr GemvTypes kGemvTypes[] = {{DType::bf16, DType::bf16, 16},
                                    {DType::f16, DType::f16, 16},
                                    {DType::f32, DType::f32, 8},
                                    {DType::f32, DType::bf16, 8},
                                    {DType::f32, DType::f16, 8}};

bool have_same_bytes(const Tensor& a, const Tensor& b) {
  return a.nbytes() == b.nbytes() && std::memcmp(a.view().data, b.view().data, a.nbytes()) == 0;
}

// Of each number of rows; depths of a part of an access by all lanes, of one round of all warps and of
// several, tiles that are not full.
TEST(CudaGemv, GivesTheMatmulOfTheReference) {
  for (const GemvTypes& types : kGemvTypes) {
    for (std::int64_t m = 1; m <= types.most_rows; ++m)
      expect_right_gemv({.m = m, .n = 33, .k = 264, .x = types.x, .weight = types.weight});
    for (const auto& [n, k] : {std::pair{1, 8}, {17, 40}, {3, 2048}, {40, 5000}, {2050, 136}})
      expect_right_gemv({.m = 3, .n = n, .k = k, .x = types.x, .weight = types.weight});
  }
}

TEST(CudaGemv, ScalesAndAddsToWhatIsThereAndToABias) {
  for (const GemvTypes& types : kGemvTypes) {
    for (const std::int64_t m : {std::int64_t{1}, std::int64_t{5}, types.most_rows}) {
      for (const float beta : {0.0F, 1.0F, -0.5F}) {
        for (const bool bias : {false, true}) {
          expect_right_gemv({.m = m,
                             .n = 19,
                             .k = 72,
                             .x = types.x,
                             .weight = types.weight,
                             .alpha = 0.5F,
                             .beta = beta,
                             .bias = bias});
        }
      }
    }
  }
}

// Poison is not a number.
TEST(CudaGemv, DoesNotReadAResultThatItDoesNotAddTo) {
  for (const GemvTypes& types : kGemvTypes) {
    const GemvCase t{.m = 2, .n = 18, .k = 64, .x = types.x, .weight = types.weight};
    const GemvOperands o(t);
    const Tensor poison = Tensor::empty(o.y.shape(), t.x);
    std::memset(poison.view().data, 0xff, poison.nbytes());
    const Tensor found =
        to(run_gemv(t, to(o.x, kDevice), to(o.weight, kDevice), to(poison, kDevice), {}), kCpu);
    EXPECT_TRUE(have_same_bytes(found, gemv_on_device(t, o))) << of(t);
  }
}

// Even where another row holds no number.
TEST(CudaGemv, ARowHasTheBitsThatItHasAlone) {
  for (const GemvTypes& types : kGemvTypes) {
    for (const std::int64_t m : {std::int64_t{2}, std::int64_t{5}, types.most_rows}) {
      const GemvCase t{.m = m, .n = 35, .k = 1096, .x = types.x, .weight = types.weight, .bias = true};
      const GemvOperands o(t);
      Tensor numbers = to(o.x, DType::f32);
      numbers.data<float>()[0] = NAN;
      const Tensor x = to(to(numbers, t.x), kDevice), weight = to(o.weight, kDevice),
                   bias = to(o.bias, kDevice);
      const auto empty = [&](std::int64_t rows) { return Tensor::empty({rows, t.n}, t.x, kDevice); };
      const Tensor all = run_gemv(t, x, weight, empty(m), bias);
      for (std::int64_t row = 1; row < m; ++row) {
        const Tensor alone = run_gemv(t, narrow(x, 0, row, 1), weight, empty(1), bias);
        EXPECT_TRUE(have_same_bytes(to(alone, kCpu), contiguous(to(narrow(all, 0, row, 1), kCpu))))
            << of(t) << ": row " << row;
      }
    }
  }
}

TEST(CudaGemv, TakesRowsThatLieApart) {
  for (const GemvTypes& types : kGemvTypes) {
    const GemvCase t{.m = 4, .n = 20, .k = 48, .x = types.x, .weight = types.weight};
    const Tensor x = to(randn({4, 64}, 1, t.x), kDevice), weight = to(randn({20, 80}, 2, t.weight), kDevice);
    const Tensor y = Tensor::empty({4, 30}, t.x, kDevice);
    const Tensor near_x = contiguous(narrow(x, 1, 8, 48)),
                 near_weight = contiguous(narrow(weight, 1, 16, 48));
    const auto run = [&] {
      run_gemv(t, narrow(x, 1, 8, 48), narrow(weight, 1, 16, 48), narrow(y, 1, 5, 20), {});
    };
    EXPECT_EQ(implementation_of(run), "gemv") << of(t);
    const Tensor near_y = run_gemv(t, near_x, near_weight, Tensor::empty({4, 20}, t.x, kDevice), {});
    EXPECT_TRUE(have_same_bytes(contiguous(to(narrow(y, 1, 5, 20), kCpu)), to(near_y, kCpu))) << of(t);
  }
}

// More rows, depths that are not whole vectors, addresses and rows that 16 bytes do not divide.
TEST(CudaGemv, LeavesToOthersWhatItCannotRead) {
  const auto taken_by = [](const GemvTypes& types, std::int64_t m, std::int64_t k, std::int64_t room,
                           std::int64_t skip) {
    const Tensor x = to(randn({m, k}, 1, types.x), kDevice);
    const Tensor weight = narrow(to(randn({6, room}, 2, types.weight), kDevice), 1, skip, k);
    const Tensor y = Tensor::empty({m, 6}, types.x, kDevice);
    return implementation_of([&] { run_gemv({.m = m, .n = 6, .k = k}, x, weight, y, {}); });
  };
  for (const GemvTypes& types : kGemvTypes) {
    EXPECT_EQ(taken_by(types, types.most_rows, 64, 72, 8), "gemv");
    EXPECT_NE(taken_by(types, types.most_rows + 1, 64, 72, 8), "gemv");
    EXPECT_NE(taken_by(types, 1, 60, 72, 8), "gemv");
    EXPECT_NE(taken_by(types, 1, 64, 72, 2), "gemv");
    EXPECT_NE(taken_by(types, 1, 64, 70, 0), "gemv");
  }
}

/// Matmuls of one x, on the device.
std::vector<Tensor> products_each(const Tensor& x, const std::vector<Tensor>& weights,
                                  const std::vector<Tensor>& biases) {
  kernels::GemmEachArgs args{.a = x.view(), .count = static_cast<int>(weights.size())};
  std::vector<Tensor> results;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    results.push_back(Tensor::empty({x.dim(0), weights[i].dim(0)}, x.dtype(), x.device()));
    args.matmuls[i] = {
        .b = transposed(weights[i].view()), .c = results.back().view(), .bias = biases[i].view()};
  }
  launch(kernels::gemm_each, current_stream(x.device()), args);
  return results;
}

struct EachOperands {
  std::vector<Tensor> weights, biases;

  EachOperands(const GemvTypes& types, const std::vector<std::int64_t>& sizes, std::int64_t k) {
    for (const std::int64_t n : sizes) {
      const std::uint64_t seed = weights.size() + 10;
      weights.push_back(to(to(randn({n, k}, seed), types.weight), kDevice));
      // every second one has a bias
      biases.push_back(weights.size() % 2 == 0 ? to(to(randn({n}, seed + 10), types.x), kDevice) : Tensor{});
    }
  }
};

// Two to four weights of few rows and of many, tiles that are not full, depths of several iterations of all
// warps.
TEST(CudaGemvEach, AreTheMatmulsOfEachInOneLaunch) {
  const std::vector<std::vector<std::int64_t>> all_sizes{{33, 5}, {16, 1, 40}, {4, 16, 3, 17}, {1030, 1030}};
  for (const GemvTypes& types : kGemvTypes) {
    for (const std::vector<std::int64_t>& sizes : all_sizes) {
      for (const std::int64_t m : {std::int64_t{1}, types.most_rows}) {
        const bool many = sizes[0] > 1000;
        if (many && (m > 1 || types.x != DType::bf16)) continue;  // they take long
        const std::int64_t k = many ? 136 : sizes[0] == 33 ? 2312 : 264;
        const EachOperands o(types, sizes, k);
        const Tensor x = to(to(randn({m, k}, 1), types.x), kDevice);
        std::vector<Tensor> found;
        EXPECT_EQ(implementation_of([&] { found = products_each(x, o.weights, o.biases); }, "gemm_each"),
                  "gemv");
        const double rounding = types.x == DType::bf16 ? 8e-3 : types.x == DType::f16 ? 1e-3 : 2e-6;
        for (std::size_t i = 0; i < sizes.size(); ++i) {
          const GemvCase t{.m = m, .n = sizes[i], .k = k, .x = types.x, .weight = types.weight};
          const Tensor y = Tensor::empty({m, sizes[i]}, types.x, kDevice);
          const Tensor alone = to(to(run_gemv(t, x, o.weights[i], y, o.biases[i]), kCpu), DType::f32);
          EXPECT_LE(max_error(to(to(found[i], kCpu), DType::f32), alone), test::largest(alone) * rounding)
              << of(t) << ", " << i;
          // Up to here all have as many warps as one alone, so the order of the sums is the same.
          if (!many) EXPECT_TRUE(have_same_bytes(to(found[i], kCpu), to(y, kCpu))) << of(t) << ", " << i;
        }
      }
    }
  }
}

// With as many rows of weights together as take 16 warps, and 8.
TEST(CudaGemvEach, ARowHasTheBitsThatItHasAlone) {
  for (const GemvTypes& types : kGemvTypes) {
    for (const auto& [n, k] : {std::pair{20, 1096}, {1040, 136}}) {
      if (n > 1000 && types.x != DType::bf16) continue;  // they take long
      const EachOperands o(types, {n, n}, k);
      const Tensor x = to(to(randn({types.most_rows, k}, 1), types.x), kDevice);
      const std::vector<Tensor> all = products_each(x, o.weights, o.biases);
      for (const std::int64_t row : {std::int64_t{0}, types.most_rows - 1}) {
        const std::vector<Tensor> alone = products_each(narrow(x, 0, row, 1), o.weights, o.biases);
        for (std::size_t i = 0; i < 2; ++i)
          EXPECT_TRUE(have_same_bytes(to(alone[i], kCpu), contiguous(to(narrow(all[i], 0, row, 1), kCpu))))
              << name(types.x) << " " << n << ": row " << row << " of " << i;
      }
    }
  }
}

// Weights of two dtypes, more rows, a depth that is not whole vectors.
TEST(CudaGemvEach, GoOneByOneWhereItCannotReadThemAll) {
  const auto expect_one_by_one = [](std::int64_t m, std::int64_t k, DType first, DType second) {
    const Tensor x = to(randn({m, k}, 1), kDevice);
    EachOperands o({DType::f32, first, 8}, {6, 7}, k);
    o.weights[1] = to(to(randn({7, k}, 5), second), kDevice);
    std::vector<Tensor> found;
    EXPECT_EQ(implementation_of([&] { found = products_each(x, o.weights, o.biases); }, "gemm_each"),
              "one_by_one");
    for (std::size_t i = 0; i < 2; ++i) {
      const Tensor y = Tensor::empty(found[i].shape(), DType::f32, kDevice);
      run_gemv({.m = m, .n = y.dim(1), .k = k}, x, o.weights[i], y, o.biases[i]);
      EXPECT_TRUE(have_same_bytes(to(found[i], kCpu), to(y, kCpu))) << m << " " << k << ": " << i;
    }
  };
  expect_one_by_one(2, 64, DType::bf16, DType::f16);
  expect_one_by_one(9, 64, DType::f32, DType::f32);
  expect_one_by_one(2, 60, DType::f32, DType::f32);
}

}  // namespace
}  // namespace ingot
