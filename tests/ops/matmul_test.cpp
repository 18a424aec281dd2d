#include "ingot/ops/matmul.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string_view>
#include <tuple>

#include "tests/support/op_case.h"
#include <gtest/gtest.h>

#include "ingot/autograd/engine.h"
#include "ingot/autograd/grad_mode.h"
#include "ingot/base/error.h"
#include "ingot/core/contiguous_rows.h"
#include "ingot/kernels/gemm.h"
#include "ingot/kernels/launch_profile.h"
#include "ingot/kernels/scratch.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/reduce.h"
#include "ingot/ops/view.h"

namespace ingot {
namespace {

using testing::check_op;
using testing::filled;
using testing::max_error;
using testing::randn;

Tensor swap_last(const Tensor& x) {
  View v = x.view();
  const auto i = static_cast<std::size_t>(v.rank - 1);
  std::swap(v.shape[i], v.shape[i - 1]);
  std::swap(v.strides[i], v.strides[i - 1]);
  return {x.storage(), v};
}

TEST(Matmul, HoldsForEveryShape) {
  const std::vector<std::pair<Shape, Shape>> cases{{{1, 1}, {1, 1}},
                                                   {{3, 5}, {5, 7}},
                                                   {{17, 33}, {33, 19}},
                                                   {{2, 3, 4}, {2, 4, 5}},
                                                   {{2, 3, 4}, {4, 5}},
                                                   {{3, 4}, {2, 4, 5}},
                                                   {{2, 1, 3, 4}, {5, 4, 2}},
                                                   {{2, 1, 3, 4}, {1, 5, 4, 2}},
                                                   {{4}, {4}},
                                                   {{4}, {4, 3}},
                                                   {{2, 3, 4}, {4}},
                                                   {{4}, {2, 4, 3}},
                                                   {{1, 64}, {64, 9}},
                                                   {{6, 1}, {1, 6}},
                                                   {{2, 5, 1}, {2, 1, 1}},
                                                   {{1, 3, 4}, {1, 4, 2}},
                                                   {{2, 3, 1, 4}, {2, 3, 4, 1}}};
  for (const auto& [a, b] : cases) {
    check_op({.name = to_string(a) + " x " + to_string(b),
              .op = [](std::span<const Tensor> in) { return matmul(in[0], in[1]); },
              .inputs = {{a}, {b}},
              .half_tolerance = 4e-2});
  }
}

TEST(GeluMlp, IsALinearLayerOfGeluOfALinearLayer) {
  const double rounding =
      1.5e-2;  // of three ops in a half type; gradients of weights add it up over the rows
  for (const bool bias : {false, true}) {
    for (const auto& [x, up, out] :
         std::vector<std::tuple<Shape, Shape, std::int64_t>>{{{3, 5}, {7, 5}, 4},
                                                             {{2, 3, 17}, {40, 17}, 17},
                                                             {{1, 64}, {8, 64}, 3},
                                                             {{65, 3}, {66, 3}, 70}}) {
      // Weights as small as those of a network: what two layers sum then stays near one.
      const auto weight = [](std::int64_t rows, std::int64_t columns) {
        const double scale = 1 / std::sqrt(static_cast<double>(columns));
        return testing::InputSpec{.shape = {rows, columns},
                                  .values = [scale](double v) { return v * scale; }};
      };
      std::vector<testing::InputSpec> inputs{{x}, weight(up[0], up[1]), weight(out, up[0])};
      if (bias) inputs.insert(inputs.end(), {{Shape{up[0]}}, {Shape{out}}});
      check_op(
          {.name = to_string(x) + " x " + to_string(up) + (bias ? " + bias" : ""),
           .op =
               [bias](std::span<const Tensor> in) {
                 return gelu_mlp(in[0], {in[1], bias ? in[3] : Tensor{}}, {in[2], bias ? in[4] : Tensor{}});
               },
           .inputs = inputs,
           .half_tolerance = rounding * std::sqrt(static_cast<double>(x.drop_last().numel()))});
    }
  }
}

TEST(GeluMlp, HasTheBitsOfTheThreeOpsOnTheCpu) {
  Tensor x = randn({9, 33}, 1), up = randn({50, 33}, 2), up_bias = randn({50}, 3), down = randn({20, 50}, 4),
         down_bias = randn({20}, 5);
  const std::vector<Tensor*> inputs{&x, &up, &up_bias, &down, &down_bias};
  for (Tensor* input : inputs) input->set_requires_grad(true);
  const auto gradients_of = [&](const Tensor& y) {
    for (Tensor* input : inputs) input->set_grad({});
    backward(sum(square(y)));
    std::vector<Tensor> found{y};
    for (const Tensor* input : inputs) found.push_back(clone(input->grad()));
    return found;
  };
  const auto fused = gradients_of(gelu_mlp(x, {up, up_bias}, {down, down_bias}));
  const auto single = gradients_of(linear(gelu_tanh(linear(x, up, up_bias)), down, down_bias));
  for (std::size_t i = 0; i < fused.size(); ++i) EXPECT_EQ(max_error(fused[i], single[i]), 0.0) << i;

  const NoGrad no_grad;
  const Tensor half = to(up, DType::bf16);
  EXPECT_EQ(max_error(gelu_mlp(x, {half, up_bias}, {down, down_bias}),
                      linear(gelu_tanh(linear(x, half, up_bias)), down, down_bias)),
            0.0);
}

TEST(GeluMlp, PassesBackToEveryChoiceOfItsInputs) {
  std::vector<Tensor> inputs{randn({4, 6}, 1), randn({8, 6}, 2), randn({8}, 3), randn({5, 8}, 4),
                             randn({5}, 5)};
  const auto run = [&] {
    backward(sum(square(gelu_mlp(inputs[0], {inputs[1], inputs[2]}, {inputs[3], inputs[4]}))));
  };
  for (Tensor& input : inputs) input.set_requires_grad(true);
  run();
  std::vector<Tensor> all;
  for (const Tensor& input : inputs) all.push_back(clone(input.grad()));
  for (unsigned choice = 1; choice < 32; ++choice) {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      inputs[i] = inputs[i].detach();
      inputs[i].set_requires_grad((choice >> i & 1) != 0);
    }
    run();
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      ASSERT_EQ(inputs[i].grad().defined(), (choice >> i & 1) != 0) << choice << " " << i;
      if (inputs[i].grad().defined())
        EXPECT_EQ(max_error(inputs[i].grad(), all[i]), 0.0) << choice << " " << i;
    }
  }
}

TEST(Matmul, ReadsTransposedOperandsInPlace) {
  const NoGrad no_grad;
  for (const Shape& size :
       {Shape{3, 5, 7}, Shape{1, 40, 65}, Shape{40, 33, 1}, Shape{64, 64, 64}, Shape{2, 1, 50}}) {
    const Tensor a = randn({size[0], size[1]}, 1), b = randn({size[1], size[2]}, 2);
    const Tensor at = swap_last(contiguous(swap_last(a))), bt = swap_last(contiguous(swap_last(b)));
    const Tensor expected = matmul(to(a, DType::f64), to(b, DType::f64));
    for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16}) {
      // half inputs are rounded, so compare with the same rounded inputs
      const auto rounded = [&](const Tensor& x) { return swap_last(contiguous(swap_last(to(x, dtype)))); };
      const Tensor wide = matmul(to(to(a, dtype), DType::f64), to(to(b, dtype), DType::f64));
      const double tolerance = dtype == DType::f32 ? 2e-6 : dtype == DType::f64 ? 1e-12 : 1e-2;
      EXPECT_LE(max_error(matmul(rounded(a), rounded(b)), wide), tolerance * 10)
          << to_string(size) << name(dtype);
      EXPECT_LE(max_error(matmul(to(a, dtype), rounded(b)), wide), tolerance * 10)
          << to_string(size) << name(dtype);
      EXPECT_LE(max_error(matmul(rounded(a), to(b, dtype)), wide), tolerance * 10)
          << to_string(size) << name(dtype);
    }
    EXPECT_LE(max_error(matmul(at, bt), expected), 2e-5);
  }
}

// Every implementation that accepts the arguments, against the reference: layouts of a, b and c, alpha, beta.
TEST(Gemm, EveryImplementationEqualsTheReference) {
  const NoGrad no_grad;
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    for (const auto& [m, n, k] : std::vector<std::array<std::int64_t, 3>>{{1, 1, 1},
                                                                          {1, 37, 64},
                                                                          {5, 6, 7},
                                                                          {16, 130, 50},
                                                                          {70, 3, 20},
                                                                          {33, 65, 49},
                                                                          {530, 18, 9},
                                                                          {18, 1030, 9},
                                                                          {40, 200, 100}}) {
      for (int layout = 0; layout < 8; ++layout) {
        const auto matrix = [&](std::int64_t rows, std::int64_t cols, bool transpose, std::uint64_t seed) {
          const Tensor x = randn(transpose ? Shape{2, cols, rows} : Shape{2, rows, cols}, seed, dtype);
          return transpose ? swap_last(x) : x;
        };
        const Tensor a = matrix(m, k, (layout & 1) != 0, 1), b = matrix(k, n, (layout & 2) != 0, 2);
        const Tensor c0 = matrix(m, n, (layout & 4) != 0, 3), bias = randn({n}, 4, dtype);
        for (const float beta : {0.0F, 1.0F}) {
          for (const auto& [with_bias, alpha] :
               {std::pair{false, 0.5F}, {true, 0.5F}, {false, 1.0F}, {true, 1.0F}}) {
            const auto run = [&](const auto& implementation) {
              Tensor c = Tensor::empty(Shape{2, m * n}, dtype);
              std::memcpy(c.view().data, c0.storage()->data(), c.nbytes());
              View view = c0.view();
              view.data = c.view().data;
              kernels::GemmArgs args{.a = a.view(), .b = b.view(), .c = view, .alpha = alpha, .beta = beta};
              if (with_bias) args.bias = bias.view();
              if (implementation.accepts != nullptr && !implementation.accepts(args)) return Tensor{};
              implementation.run(args, current_stream(kCpu));
              return c;
            };
            const auto& all = kernels::gemm.implementations(DeviceType::cpu);
            const Tensor expected = run(all.back());
            for (const auto& implementation : all) {
              const Tensor actual = run(implementation);
              if (!actual.defined()) continue;
              EXPECT_LE(max_error(actual, expected), dtype == DType::f32 ? 2e-5 : 1.6e-2)
                  << implementation.name << " " << name(dtype) << " " << m << "x" << n << "x" << k
                  << " layout " << layout << " alpha " << alpha << " beta " << beta << " bias " << with_bias;
            }
          }
        }
      }
    }
  }
}

// Larger than the blocks that a library cuts matmuls into, forward and both gradients.
TEST(Linear, SumsManyBlocksOfBf16LikeF32) {
  const std::int64_t m = 300, n = 520, k = 1100;
  const Tensor x = randn({m, k}, 1, DType::bf16), w = randn({n, k}, 2, DType::bf16);
  const Tensor dy = randn({m, n}, 3, DType::bf16);
  const auto results = [&](DType dtype) {
    Tensor in = to(x, dtype), weight = to(w, dtype);
    in.set_requires_grad(true);
    weight.set_requires_grad(true);
    const Tensor y = linear(in, weight);
    backward(y, {.grad = to(dy, dtype)});
    return std::array{y.detach(), in.grad(), weight.grad()};
  };
  const auto found = results(DType::bf16), expected = results(DType::f32);
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_LE(max_error(found[i], expected[i]), 4e-3) << i;
}

// Leading dimensions beyond the columns: parts of larger matrices.
TEST(Gemm, ReadsAndWritesPartsOfMatrices) {
  const NoGrad no_grad;
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    const Tensor a = randn({40, 100}, 1, dtype), b = randn({90, 60}, 2, dtype),
                 c0 = randn({40, 80}, 3, dtype);
    const auto run = [&](const auto& implementation) {
      Tensor c = Tensor::empty({40, 80}, dtype);
      std::memcpy(c.view().data, c0.view().data, c.nbytes());
      implementation.run({.a = narrow(a, 1, 3, 90).view(),
                          .b = narrow(b, 1, 5, 33).view(),
                          .c = narrow(c, 1, 7, 33).view(),
                          .beta = 1.0F},
                         current_stream(kCpu));
      return c;
    };
    const auto& all = kernels::gemm.implementations(DeviceType::cpu);
    const Tensor expected = run(all.back());
    const kernels::GemmArgs args{.a = narrow(a, 1, 3, 90).view(),
                                 .b = narrow(b, 1, 5, 33).view(),
                                 .c = narrow(c0, 1, 7, 33).view(),
                                 .beta = 1.0F};
    for (const auto& implementation : all) {
      if (implementation.accepts != nullptr && !implementation.accepts(args)) continue;
      EXPECT_LE(max_error(run(implementation), expected), dtype == DType::f32 ? 2e-5 : 1.6e-2)
          << implementation.name << " " << name(dtype);
    }
  }
}

// A row of the bias's gradient adds up hundreds of values: sums in f32, rounded once.
TEST(ColumnSum, EqualsTheReferenceInEveryDtype) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    for (const Shape& shape :
         {Shape{1, 1}, Shape{1, 300}, Shape{700, 3}, Shape{333, 130}, Shape{256, 5000}}) {
      for (const bool accumulate : {false, true}) {
        const Tensor x = randn(shape, 1, dtype);
        const auto run = [&](kernels::ImplKind kind) {
          Tensor y = randn({shape[1]}, 2, dtype);
          const Tensor partials = Tensor::empty({kernels::scratch_parts(kCpu), shape[1]});
          const kernels::ForceKind force(kind);
          kernels::launch(
              kernels::column_sum, current_stream(kCpu),
              {.x = x.view(), .y = y.view(), .partials = partials.view(), .accumulate = accumulate});
          return y;
        };
        EXPECT_LE(max_error(run(kernels::ImplKind::simd), run(kernels::ImplKind::reference)),
                  dtype == DType::f32   ? 2e-5
                  : dtype == DType::f16 ? 1e-3
                                        : 8e-3)
            << to_string(shape) << name(dtype) << accumulate;
      }
    }
  }
}

// Rows off every block, a bias, and a destination that is wider than the result.
TEST(Linear, ForwardMatmulsOfManyRowsTakeTheWeightAsItLies) {
  if (kernels::instruction_set_limit() < kernels::InstructionSet::avx512) GTEST_SKIP() << "without AVX-512";
  const NoGrad no_grad;
  for (const auto& [rows, in, out] : {std::tuple{64, 300, 131}, {257, 70, 131}, {600, 300, 40}}) {
    const Tensor x = randn({rows, in}, 1), w = randn({out, in}, 2), bias = randn({out}, 3);
    const auto product = [&](kernels::ImplKind kind) {
      const kernels::ForceKind force(kind);
      const Tensor y = testing::filled({rows, out + 5}, 7);
      View part = y.view();
      part.shape[1] = out;
      kernels::launch(kernels::gemm, current_stream(kCpu),
                      {.a = x.view(), .b = swap_last(w).view(), .c = part, .bias = bias.view(), .beta = 1});
      return y;
    };
    const kernels::LaunchProfile profile;
    const Tensor y = product(kernels::ImplKind::library);
    EXPECT_EQ(std::string_view(profile.entries()[0].implementation), "onednn_transposed");
    EXPECT_LE(max_error(y, product(kernels::ImplKind::reference)), 2e-5) << rows;
  }
}

TEST(Matmul, EmptySumsAreZero) {
  const Tensor y = matmul(Tensor::empty({2, 0}), Tensor::empty({0, 3}));
  EXPECT_EQ(y.to_vector<float>(), std::vector<float>(6, 0.0F));
  EXPECT_EQ(matmul(Tensor::empty({0, 4}), Tensor::zeros({4, 3})).shape(), Shape({0, 3}));
}

TEST(Matmul, ErrorsNameBothShapes) {
  try {
    matmul(Tensor::zeros({2, 3}), Tensor::zeros({4, 5}));
    FAIL();
  } catch (const ShapeMismatch& e) {
    EXPECT_NE(std::string(e.what()).find("[2, 3]"), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find("[4, 5]"), std::string::npos) << e.what();
  }
  try {
    matmul(Tensor::zeros({2, 3}), Tensor::zeros({4}));
    FAIL();
  } catch (const ShapeMismatch& e) {
    EXPECT_NE(std::string(e.what()).find("the only axis of the second"), std::string::npos) << e.what();
  }
  EXPECT_THROW(matmul(Tensor::zeros({2, 2, 3}), Tensor::zeros({3, 3, 4})), ShapeMismatch);
  EXPECT_THROW(matmul(Tensor::scalar(1), Tensor::zeros({3})), DimensionMismatch);
  EXPECT_THROW(matmul(Tensor::zeros({2, 3}), Tensor::zeros({3, 2}, DType::bf16)), KernelError);
}

TEST(Linear, HoldsForEveryShape) {
  for (const Shape& x : {Shape{1, 1}, Shape{5}, Shape{3, 7}, Shape{2, 3, 16}, Shape{33, 20}, Shape{1, 70}}) {
    for (const std::int64_t out : {1, 4, 19, 130}) {
      const std::string name = to_string(x) + " -> " + std::to_string(out);
      check_op({.name = name + ", bias",
                .op = [](std::span<const Tensor> in) { return linear(in[0], in[1], in[2]); },
                .inputs = {{x}, {Shape{out, x.back()}}, {Shape{out}}},
                .half_tolerance = 6e-2});
    }
    check_op({.name = to_string(x),
              .op = [](std::span<const Tensor> in) { return linear(in[0], in[1]); },
              .inputs = {{x}, {Shape{6, x.back()}}},
              .half_tolerance = 6e-2});
  }
}

// As one tensor.
Tensor several_of(std::span<const Tensor> in) {
  const std::vector<LinearWeights> layers{{in[1], in[2]}, {in[3], {}}, {in[4], in[5]}};
  return concat(linear(in[0], layers), -1);
}

TEST(Linear, SeveralOfOneInputHoldForEveryShape) {
  for (const Shape& x : {Shape{1, 1}, Shape{5}, Shape{2, 3, 16}, Shape{1, 1, 64}, Shape{20, 24}}) {
    const std::int64_t in = x.back();
    check_op({.name = to_string(x),
              .op = several_of,
              .inputs = {{x}, {Shape{4, in}}, {Shape{4}}, {Shape{19, in}}, {Shape{1, in}}, {Shape{1}}},
              .half_tolerance = 6e-2});
  }
}

TEST(Linear, SeveralOfOneInputHaveTheBitsOfEachOnTheCpu) {
  std::vector<Tensor> in{randn({2, 3, 24}, 1), randn({8, 24}, 2),  randn({8}, 3),
                         randn({5, 24}, 4),    randn({30, 24}, 5), randn({30}, 6)};
  const auto each = [&] {
    return concat(
        std::vector<Tensor>{linear(in[0], in[1], in[2]), linear(in[0], in[3]), linear(in[0], in[4], in[5])},
        -1);
  };
  const auto gradients_of = [&](const Tensor& y) {
    for (Tensor& input : in) input.set_grad({});
    backward(sum(square(y)));
    std::vector<Tensor> found{y};
    for (const Tensor& input : in) found.push_back(clone(input.grad()));
    return found;
  };
  EXPECT_EQ(max_error(several_of(in), each()), 0.0);
  for (Tensor& input : in) input.set_requires_grad(true);
  const auto found = gradients_of(several_of(in)), expected = gradients_of(each());
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_EQ(max_error(found[i], expected[i]), 0.0) << i;
  const NoGrad no_grad;
  EXPECT_EQ(max_error(several_of(in), each()), 0.0);
}

TEST(FusedLinear, HoldsForEveryShape) {
  const auto layers_of = [](std::span<const Tensor> in) {
    return std::vector<LinearWeights>{{in[1], in[2]}, {in[3], in[4]}, {in[5], in[6]}};
  };
  for (const Shape& x : {Shape{1, 1}, Shape{5}, Shape{2, 3, 16}, Shape{1, 1, 64}, Shape{20, 24}}) {
    const std::int64_t in = x.back();
    check_op({.name = to_string(x),
              .op = [&](std::span<const Tensor> of) { return fused_linear(of[0], layers_of(of)); },
              .inputs =
                  {{x}, {Shape{4, in}}, {Shape{4}}, {Shape{19, in}}, {Shape{19}}, {Shape{1, in}}, {Shape{1}}},
              .half_tolerance = 6e-2});
  }
}

// Three layers whose parameters are contiguous, or apart.
struct SideBySide {
  static constexpr std::int64_t kIn = 24;
  Tensor x;
  std::vector<Tensor> weights, biases;

  SideBySide(bool joined, bool biased, DType dtype) {
    const std::vector<std::int64_t> outs{16, 8, 40};
    const auto values = [&](const Shape& shape, std::uint64_t seed) {
      return to(to(randn(shape, seed), dtype), testing::checked_device());
    };
    x = values({2, 5, kIn}, 1).set_requires_grad(true);
    weights = split_rows(values({64, kIn}, 2), outs);
    if (biased) biases = split_rows(values({64}, 3), outs);
    for (std::vector<Tensor>* all : {&weights, &biases}) {
      for (Tensor& one : *all) one = (joined ? one : clone(one)).set_requires_grad(true);
    }
  }
  Tensor operator()() const {
    std::vector<LinearWeights> layers;
    for (std::size_t i = 0; i < weights.size(); ++i)
      layers.push_back({weights[i], biases.empty() ? Tensor{} : biases[i]});
    return fused_linear(x, layers);
  }
  void run_backward() const {
    const Tensor y = (*this)();
    backward(y, {.grad = to(to(randn(y.shape(), 4), y.dtype()), y.device())});
  }
  /// Of x, the weights and the biases, as far as they are trained.
  std::vector<Tensor> gradients() const {
    std::vector<Tensor> all{x.grad()};
    for (const std::vector<Tensor>* some : {&weights, &biases})
      for (const Tensor& one : *some) all.push_back(one.grad());
    return all;
  }
};

void expect_near(const std::vector<Tensor>& found, const std::vector<Tensor>& expected, double tolerance) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    ASSERT_EQ(found[i].defined(), expected[i].defined()) << i;
    if (!found[i].defined()) continue;
    EXPECT_LE(max_error(to(to(found[i], kCpu), DType::f32), to(to(expected[i], kCpu), DType::f32)), tolerance)
        << i;
  }
}

TEST(FusedLinear, IsTheSameWhereverItsParametersLie) {
  for (const auto& [dtype, tolerance] : {std::pair{DType::f32, 2e-5}, std::pair{DType::bf16, 4e-2}}) {
    for (const bool biased : {false, true}) {
      const SideBySide joined(true, biased, dtype), apart(false, biased, dtype);
      expect_near({joined()}, {apart()}, tolerance);
      for (int pass = 0; pass < 2; ++pass) {  // the second adds to the first
        joined.run_backward();
        apart.run_backward();
        expect_near(joined.gradients(), apart.gradients(), tolerance * (1 + pass));
      }
      EXPECT_TRUE(
          contiguous_rows({{joined.weights[0].grad(), joined.weights[1].grad(), joined.weights[2].grad()}})
              .defined());
    }
  }
}

TEST(FusedLinear, IsOneMatmulForEachPassWhereItsParametersAreContiguous) {
  const SideBySide joined(true, false, DType::f32);
  for (int pass = 0; pass < 2; ++pass) {
    const kernels::LaunchProfile profile;
    joined.run_backward();
    std::int64_t products = 0;
    for (const auto& entry : profile.entries())
      if (std::string_view(entry.kernel) == "gemm") products += entry.launches;
    EXPECT_EQ(products, 3) << pass;
  }
}

TEST(FusedLinear, TrainsSomeOfItsLayersOnly) {
  SideBySide joined(true, true, DType::f32), apart(false, true, DType::f32);
  for (SideBySide* of : {&joined, &apart}) {
    of->weights[1].set_requires_grad(false);
    of->biases[0].set_requires_grad(false);
    of->run_backward();
    of->x.set_requires_grad(false);
    of->run_backward();
  }
  EXPECT_FALSE(joined.weights[1].grad().defined());
  expect_near(joined.gradients(), apart.gradients(), 4e-5);
}

TEST(FusedLinear, AddsToGradientsThatLieApart) {
  const SideBySide joined(true, true, DType::f32), apart(false, true, DType::f32);
  for (const SideBySide* of : {&joined, &apart}) {
    of->weights[1].set_grad(to(filled(of->weights[1].shape(), 1), of->x.device()));
    of->run_backward();
  }
  expect_near(joined.gradients(), apart.gradients(), 4e-5);
}

TEST(FusedLinear, RefusesABiasOfSomeLayers) {
  const Tensor x = Tensor::zeros({2, 4}), w = Tensor::zeros({3, 4});
  const std::vector<LinearWeights> layers{{w, {}}, {w, Tensor::zeros({3})}};
  EXPECT_THROW(fused_linear(x, layers), Error);
}

TEST(Linear, AddsWeightGradientsOverMicroBatches) {
  const Tensor x1 = randn({40, 24}, 1), x2 = randn({40, 24}, 2);
  Tensor w = randn({32, 24}, 3), b = randn({32}, 4);
  w.set_requires_grad(true);
  b.set_requires_grad(true);
  const Tensor dy = randn({40, 32}, 5);
  for (const Tensor& x : {x1, x2}) backward(linear(x, w, b), {.grad = dy});
  const NoGrad no_grad;
  Tensor expected = matmul(swap_last(dy), x1);
  const Tensor second = matmul(swap_last(dy), x2);
  for (std::int64_t i = 0; i < expected.numel(); ++i) expected.data<float>()[i] += second.data<float>()[i];
  EXPECT_LE(max_error(w.grad(), expected), 2e-5);
}

TEST(Linear, RefusesShapesThatDoNotFit) {
  const std::vector<LinearWeights> layers{{Tensor::zeros({2, 4}), {}}, {Tensor::zeros({2, 5}), {}}};
  EXPECT_THROW(linear(Tensor::zeros({3, 4}), layers), ShapeMismatch);
  EXPECT_THROW(linear(Tensor::zeros({2, 4}), Tensor::zeros({3, 5})), ShapeMismatch);
  EXPECT_THROW(linear(Tensor::zeros({2, 4}), Tensor::zeros({3, 4}), Tensor::zeros({4})), ShapeMismatch);
}

TEST(Linear, WeightsInHalfPrecisionServeAnF32Input) {
  const NoGrad no_grad;
  for (const DType dtype : {DType::bf16, DType::f16}) {
    for (const std::int64_t rows : {1, 3, 16, 17, 70}) {
      const Tensor x = randn({rows, 130}, 1), w = randn({77, 130}, 2, dtype), b = randn({77}, 3);
      const Tensor expected = linear(x, to(w, DType::f32), b);
      for (const kernels::ImplKind kind : {kernels::ImplKind::reference, kernels::ImplKind::library}) {
        Tensor found;
        {
          const kernels::ForceKind force(kind);
          found = linear(x, w, b);
        }
        EXPECT_LE(max_error(found, expected), 5e-5) << rows;
      }
      const Tensor y = linear(x, w, b);
      EXPECT_LE(max_error(y, expected), 5e-5) << rows;
      if (rows > 16) continue;  // a row's bits do not depend on its neighbours
      EXPECT_EQ(max_error(linear(narrow(x, 0, rows - 1, 1), w, b), narrow(y, 0, rows - 1, 1)), 0) << rows;
    }
  }
  const GradMode grad(true);
  EXPECT_THROW(linear(randn({2, 4}, 1), randn({3, 4}, 2, DType::bf16)), KernelError);
}

// Weights that were read just now are read from their other end.
TEST(Linear, HasTheSameBitsWithWhicheverWeightsItBegins) {
  for (const std::int64_t outputs : {3, 64, 2050}) {
    const Tensor x = testing::randn({1, 160}, 1), w = testing::randn({outputs, 160}, 2),
                 bias = testing::randn({outputs}, 3);
    const std::vector<float> first = linear(x, w, bias).to_vector<float>();
    for (int i = 0; i < 3; ++i) EXPECT_EQ(linear(x, w, bias).to_vector<float>(), first) << outputs;
  }
}

}  // namespace
}  // namespace ingot
