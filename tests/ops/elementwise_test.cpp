#include "ingot/ops/elementwise.h"

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "tests/support/op_case.h"
#include <gtest/gtest.h>

#include "ingot/autograd/engine.h"
#include "ingot/autograd/grad_mode.h"
#include "ingot/base/error.h"
#include "ingot/kernels/elementwise.h"
#include "ingot/kernels/kernel.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/reduce.h"
#include "ingot/ops/view.h"

namespace ingot {
namespace {

using testing::check_op;
using testing::InputSpec;
using testing::max_error;
using testing::randn;

struct UnaryCase {
  const char* name;
  Tensor (*op)(const Tensor&);
  double (*domain)(double) = nullptr;
};

// Away from a point where the derivative jumps.
double off_zero(double v) { return v + (v < 0 ? -0.1 : 0.1); }
double positive(double v) { return std::abs(v) + 0.3; }
// Away from whole numbers and halves, where steps are: as far as f16 could round.
double off_whole(double v) { return std::floor(4 * v) / 4 + 0.125; }

const UnaryCase kUnary[] = {
    {"neg", neg},
    {"abs", abs, off_zero},
    {"exp", exp},
    {"log", log, positive},
    {"sqrt", sqrt, positive},
    {"rsqrt", rsqrt, positive},
    {"square", square},
    {"reciprocal", reciprocal, positive},
    {"sin", sin},
    {"cos", cos},
    {"sigmoid", sigmoid},
    {"tanh", tanh},
    {"relu", relu, off_zero},
    {"silu", silu},
    {"gelu_erf", gelu_erf},
    {"gelu_tanh", gelu_tanh},
    {"mish", mish},
    {"softplus", softplus},
    {"scale", [](const Tensor& x) { return scale(x, -1.5, 0.25); }},
    {"pow", [](const Tensor& x) { return pow(x, 1.7); }, positive},
    {"pow of -2", [](const Tensor& x) { return pow(x, -2); }, positive},
    {"pow of 1", [](const Tensor& x) { return pow(x, 1); }},
    {"pow of 3", [](const Tensor& x) { return pow(x, 3); }},
    {"pow of 4", [](const Tensor& x) { return pow(x, 4); }},
    {"clamp", [](const Tensor& x) { return clamp(x, -0.5, 0.7); }},
    {"erf", erf},
    {"leaky_relu", [](const Tensor& x) { return leaky_relu(x, 0.2); }, off_zero},
    {"elu", [](const Tensor& x) { return elu(x, 1.5); }, off_zero},
    {"floor", floor, off_whole},
    {"ceil", ceil, off_whole},
    {"round", round, off_whole},
    {"sign", sign, off_zero},
    {"operators", [](const Tensor& x) { return (2.0 - x * 3.0 + 1.0) / 4.0 - 0.5 + 1.0 / x; }, positive},
};

TEST(Unary, HoldsForEveryFunctionAndShape) {
  for (const UnaryCase& unary : kUnary) {
    const auto op = [&](std::span<const Tensor> in) { return unary.op(in[0]); };
    for (const Shape& shape : {Shape{}, Shape{1}, Shape{3, 5}, Shape{2, 67}}) {
      check_op({.name = std::string(unary.name) + to_string(shape),
                .op = op,
                .inputs = {{.shape = shape, .values = unary.domain}},
                .gradcheck_tolerance = 1e-5});
    }
    const auto strided = [&](std::span<const Tensor> in) { return unary.op(transpose(in[0], 0, 1)); };
    check_op({.name = std::string(unary.name) + " transposed",
              .op = strided,
              .inputs = {{.shape = {5, 7}, .values = unary.domain}},
              .gradcheck_tolerance = 1e-5});
  }
}

TEST(Unary, FastKernelsAreAccurateOverTheWholeRange) {
  std::vector<double> points;
  for (int i = -2000; i <= 2000; ++i) points.push_back(i * 0.01);
  for (const double v : {1e-30, 1e-10, 1e-4, 30.0, 60.0, 85.0, 100.0, 1e4, 1e6, 1e30}) {
    points.push_back(v);
    points.push_back(-v);
  }
  for (const UnaryCase& unary : kUnary) {
    const bool only_positive = unary.domain == positive;
    std::vector<float> narrow;
    for (const double v : points) {
      const double limit = std::string(unary.name).starts_with("pow") ? 1e4 : 1e31;
      if ((!only_positive || v > 0) && std::abs(v) < limit) narrow.push_back(static_cast<float>(v));
    }
    const Tensor x = Tensor::from(narrow, {static_cast<std::int64_t>(narrow.size())});
    const std::vector<float> got = unary.op(x).to_vector<float>();
    const kernels::ForceKind reference(kernels::ImplKind::reference);
    const std::vector<double> want = unary.op(to(x, DType::f64)).to_vector<double>();
    for (std::size_t i = 0; i < got.size(); ++i) {
      const auto rounded = static_cast<float>(want[i]);
      if (got[i] == rounded) continue;  // infinities too
      // 6e-7 is five units in the last place; the absolute part is for what cancels near a zero. GELU's
      // 1 + erf cancels for every negative x, and x multiplies what is left: one unit of 1, times x.
      const double cancelled = std::string(unary.name) == "gelu_erf" ? 1.2e-7 * std::abs(narrow[i]) : 0.0;
      EXPECT_LE(std::abs(got[i] - want[i]), 6e-7 * std::abs(want[i]) + 2e-7 + cancelled)
          << unary.name << "(" << narrow[i] << ") = " << got[i] << ", want " << want[i];
    }
  }
}

TEST(Unary, NanAndInfinityComeThrough) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  const Tensor x = Tensor::from(std::vector<float>(67, nan), {67});
  for (const UnaryCase& unary : kUnary) {
    for (const float v : unary.op(x).to_vector<float>()) EXPECT_TRUE(std::isnan(v)) << unary.name;
  }
  const Tensor limits = Tensor::from(std::vector<float>{-inf, inf}, {2});
  EXPECT_EQ(exp(limits).to_vector<float>(), (std::vector<float>{0, inf}));
  EXPECT_EQ(sigmoid(limits).to_vector<float>(), (std::vector<float>{0, 1}));
  EXPECT_EQ(tanh(limits).to_vector<float>(), (std::vector<float>{-1, 1}));
  EXPECT_EQ(softplus(limits).to_vector<float>(), (std::vector<float>{0, inf}));
  EXPECT_EQ(log(Tensor::from(std::vector<float>{0, inf}, {2})).to_vector<float>(),
            (std::vector<float>{-inf, inf}));
}

TEST(Unary, GatesOfVeryNegativeNumbersAreNothing) {
  const Tensor x = Tensor::from(std::vector<float>{-3e38F, -1e20F, -200.0F}, {3});
  for (const auto& op : {sigmoid, silu, gelu_tanh})
    for (const float v : op(x).to_vector<float>()) EXPECT_EQ(v, 0.0F);
}

struct BinaryCase {
  const char* name;
  Tensor (*op)(const Tensor&, const Tensor&);
  double (*domain)(double) = nullptr;
};

const BinaryCase kBinary[] = {{"add", add},           {"sub", sub},         {"mul", mul},
                              {"div", div, positive}, {"maximum", maximum}, {"minimum", minimum}};

// Rows that ranks share out lie elsewhere in a tensor: the rest behind the last whole vector is no exception.
TEST(Unary, AGradientIsAddedWithTheSameBitsWhereverItsElementStands) {
  constexpr std::int64_t kMost = 64;
  for (const auto op : {sigmoid, tanh, silu, gelu_tanh, reciprocal}) {
    const Tensor x = randn({kMost}, 3), first = randn({kMost}, 4), second = randn({kMost}, 5);
    const auto gradient = [&](std::int64_t elements) {
      const auto part = [&](const Tensor& all) { return contiguous(narrow(all, 0, 0, elements)); };
      Tensor leaf = clone(part(x));
      leaf.set_requires_grad(true);
      backward(sum(op(leaf) * part(first)) + sum(op(leaf) * part(second)));
      return leaf.grad().to_vector<float>();
    };
    std::vector<float> whole = gradient(kMost);
    for (std::int64_t elements = kMost - 1; elements > 0; --elements) {
      whole.resize(static_cast<std::size_t>(elements));
      EXPECT_EQ(gradient(elements), whole) << elements;
    }
  }
}

TEST(Binary, HoldsForEveryBroadcast) {
  const std::pair<Shape, Shape> shapes[] = {
      {{3, 5}, {3, 5}},  {{4, 33}, {33}},     {{33}, {4, 33}},     {{3, 5}, {}},
      {{3, 1}, {1, 5}},  {{2, 3, 4}, {3, 1}}, {{2, 1, 4}, {3, 4}}, {{2, 3, 2, 5}, {1, 3, 1, 1}},
      {{3, 16}, {3, 1}}, {{37}, {}},          {{2, 1}, {2, 24}}};
  for (const BinaryCase& binary : kBinary) {
    const auto op = [&](std::span<const Tensor> in) { return binary.op(in[0], in[1]); };
    for (const auto& [a, b] : shapes) {
      check_op({.name = std::string(binary.name) + to_string(a) + to_string(b),
                .op = op,
                .inputs = {{a}, {.shape = b, .values = binary.domain}},
                .f32_tolerance = 1e-4,
                .half_tolerance = 6e-2});
    }
    const auto strided = [&](std::span<const Tensor> in) { return binary.op(transpose(in[0], 0, 1), in[1]); };
    check_op({.name = std::string(binary.name) + " transposed",
              .op = strided,
              .inputs = {{Shape{5, 3}}, {.shape = {3, 5}, .values = binary.domain}},
              .f32_tolerance = 1e-4,
              .half_tolerance = 6e-2});
  }
}

TEST(Binary, OneTensorTwiceGetsBothGradients) {
  const auto op = [](std::span<const Tensor> in) {
    return in[0] * in[0] + in[0] - in[0] + silu_mul(in[0], in[0]) + in[0] / (in[0] + in[0] * 2.0);
  };
  check_op({.name = "twice",
            .op = op,
            .inputs = {{.shape = {3, 21}, .values = positive}},
            .half_tolerance = 6e-2});
}

TEST(Binary, RefusesShapesThatDoNotBroadcastAndMixedDtypes) {
  EXPECT_THROW(add(randn({2, 3}, 1), randn({4}, 2)), ShapeMismatch);
  EXPECT_THROW(add(randn({2}, 1), randn({2}, 2, DType::bf16)), KernelError);
  EXPECT_THROW(add(randn({2}, 1), Tensor{}), Error);
}

TEST(Binary, WorksOnIntegers) {
  const Tensor a = Tensor::from(std::vector<std::int64_t>{1, 2, 3}, {3});
  const Tensor b = Tensor::from(std::vector<std::int64_t>{10}, {1});
  EXPECT_EQ(add(a, b).to_vector<std::int64_t>(), (std::vector<std::int64_t>{11, 12, 13}));
  EXPECT_THROW(div(a, b), KernelError);
}

TEST(Binary, ManyElementsOnSeveralThreads) {
  const Tensor a = randn({70, 1031}, 1), b = randn({1031}, 2), c = randn({70, 1}, 3);
  const Tensor fast = mul(add(a, b), c);
  const kernels::ForceKind reference(kernels::ImplKind::reference);
  EXPECT_LE(max_error(fast, mul(add(a, b), c)), 1e-6);
}

TEST(Where, HoldsForEveryBroadcast) {
  for (const auto& [a, b] : {std::pair{Shape{3, 5}, Shape{3, 5}},
                             {Shape{3, 5}, Shape{}},
                             {Shape{5}, Shape{3, 1}},
                             {Shape{3, 16}, Shape{3, 1}},
                             {Shape{16}, Shape{}}}) {
    const auto op = [](std::span<const Tensor> in) {
      return where(greater(in[2], scale(in[2], 0)), in[0], in[1]);
    };
    check_op({.name = to_string(a) + to_string(b),
              .op = op,
              .inputs = {{a}, {b}, {.shape = {3, a[a.rank() - 1]}, .differentiable = false}}});
  }
  EXPECT_THROW(where(randn({2}, 1), randn({2}, 1), randn({2}, 1)), KernelError);
}

TEST(Compare, AgreesWithTheOperatorsOfC) {
  const Tensor a = Tensor::from(std::vector<float>{1, 2, 3, NAN}, {4}),
               b = Tensor::from(std::vector<float>{2, 2, 2, 2}, {4});
  const auto bits = [](const Tensor& t) {
    std::string s;
    for (std::int64_t i = 0; i < t.numel(); ++i) s += t.data<bool>()[i] ? '1' : '0';
    return s;
  };
  EXPECT_EQ(bits(equal(a, b)), "0100");
  EXPECT_EQ(bits(not_equal(a, b)), "1011");
  EXPECT_EQ(bits(less(a, b)), "1000");
  EXPECT_EQ(bits(less_equal(a, b)), "1100");
  EXPECT_EQ(bits(greater(a, b)), "0010");
  EXPECT_EQ(bits(greater_equal(a, b)), "0110");
}

TEST(Compare, EveryImplementationAgreesForEveryDtypeAndLayout) {
  using Function = Tensor (*)(const Tensor&, const Tensor&);
  const Function functions[] = {equal, not_equal, less, less_equal, greater, greater_equal};
  std::vector<float> values(67 * 37);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i * i % 7) - 3;
  const Tensor whole = Tensor::from(values, {67, 37});
  for (std::size_t i = 0; i < values.size(); i += 5) values[i] = NAN;
  const Tensor base = Tensor::from(values, {67, 37});
  const auto bytes = [](const Tensor& t) {
    return std::vector<bool>(t.data<bool>(), t.data<bool>() + t.numel());
  };
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16, DType::i32, DType::i64}) {
    const Tensor x = to(is_floating_point(dtype) ? base : whole, dtype);
    const std::pair<Tensor, Tensor> operands[] = {{x, reshape(transpose(x, 0, 1), {67, 37})},  // contiguous
                                                  {transpose(x, 0, 1), reshape(x, {37, 67})},  // strided
                                                  {x, slice(x, 0, 3, 4)},
                                                  {x, slice(x, 1, 5, 6)}};  // one row, one column for all
    for (const auto& [a, b] : operands) {
      for (const Function& function : functions) {
        const std::vector<bool> fast = bytes(function(a, b));
        const kernels::ForceKind reference(kernels::ImplKind::reference);
        EXPECT_EQ(fast, bytes(function(a, b))) << name(dtype) << to_string(b.shape());
      }
    }
  }
}

TEST(SiluMul, HoldsForContiguousAndSplitOperands) {
  const auto op = [](std::span<const Tensor> in) { return silu_mul(in[0], in[1]); };
  for (const Shape& shape : {Shape{1}, Shape{3, 5}, Shape{2, 67}}) {
    check_op({.name = to_string(shape), .op = op, .inputs = {{shape}, {shape}}});
  }
  const auto halves = [](std::span<const Tensor> in) {
    const auto parts = chunk(in[0], 2, -1);
    return silu_mul(parts[0], parts[1]);
  };
  check_op({.name = "halves", .op = halves, .inputs = {{Shape{3, 38}}}});
  EXPECT_THROW(silu_mul(randn({2, 3}, 1), randn({3}, 1)), ShapeMismatch);
}

// What silu_mul and its gradient leave, and the product once more. `sliced`: gate, up and their gradients are
// halves of rows of twice the length; the product is written over dy.
struct SiluMulResults {
  Tensor y, dgate, dup, product;
};
SiluMulResults silu_mul_results(Device device, DType dtype, std::int64_t columns, bool sliced,
                                bool accumulate) {
  const Stream stream = current_stream(device);
  const auto halves_of = [&](const Tensor& both) {
    const Tensor moved = device.is_cpu() ? both : to(both, device);
    std::vector<Tensor> halves = chunk(moved, 2, -1);
    if (!sliced)
      for (Tensor& half : halves) half = contiguous(half);
    return halves;
  };
  const std::vector<Tensor> in = halves_of(to(randn({5, 2 * columns}, 1), dtype)),
                            out = halves_of(accumulate ? to(randn({5, 2 * columns}, 3), dtype)
                                                       : to(testing::filled({5, 2 * columns}, NAN), dtype));
  const Tensor dy = to(to(randn({5, columns}, 2), dtype), device), y = Tensor::empty_like(dy),
               product = sliced ? dy : to(to(testing::filled({5, columns}, NAN), dtype), device);
  kernels::launch(kernels::silu_mul, stream, {.gate = in[0].view(), .up = in[1].view(), .y = y.view()});
  kernels::launch(kernels::silu_mul_backward, stream,
                  {.gate = in[0].view(),
                   .up = in[1].view(),
                   .dy = dy.view(),
                   .dgate = out[0].view(),
                   .dup = out[1].view(),
                   .accumulate_dgate = accumulate,
                   .accumulate_dup = accumulate,
                   .product = product.view()});
  return {y, out[0], out[1], product};
}

// A name that says which, where they differ.
void expect_bits(const Tensor& found, const Tensor& expected, const std::string& what) {
  EXPECT_EQ(max_error(found, expected), 0.0) << what;
}

TEST(SiluMul, ItsGradientGivesTheProductAgainWithTheSameBits) {
  const Device device = testing::checked_device();
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    for (const std::int64_t columns : {1, 7, 64, 1100}) {
      for (const bool accumulate : {false, true}) {
        const std::string what = std::string(name(dtype)) + " " + std::to_string(columns);
        const SiluMulResults whole = silu_mul_results(device, dtype, columns, false, accumulate),
                             sliced = silu_mul_results(device, dtype, columns, true, accumulate);
        expect_bits(whole.product, whole.y, what);
        expect_bits(sliced.product, whole.y, what + " sliced");
        expect_bits(sliced.y, whole.y, what + " sliced, forward");
        expect_bits(sliced.dgate, whole.dgate, what + " sliced, dgate");
        expect_bits(sliced.dup, whole.dup, what + " sliced, dup");
      }
    }
  }
}

TEST(SiluMul, TheReferenceGivesTheProductAgainToo) {
  const kernels::ForceKind reference(kernels::ImplKind::reference);
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16}) {
    const SiluMulResults found = silu_mul_results(kCpu, dtype, 7, true, false);
    expect_bits(found.product, found.y, std::string(name(dtype)));
  }
}

// Nothing is wanted of the gradient of gate or of up: the other results are the same.
TEST(SiluMul, EachResultOfItsGradientCanBeLeftOut) {
  const Device device = testing::checked_device();
  const auto random = [&](std::uint64_t seed) { return to(randn({3, 40}, seed), device); };
  const Tensor gate = random(1), up = random(2), dy = random(3);
  const auto run = [&](unsigned wanted) {
    std::vector<Tensor> out;
    for (int i = 0; i < 3; ++i) out.push_back((wanted >> i & 1) != 0 ? Tensor::empty_like(gate) : Tensor{});
    kernels::launch(kernels::silu_mul_backward, current_stream(device),
                    {.gate = gate.view(),
                     .up = up.view(),
                     .dy = dy.view(),
                     .dgate = out[0].view(),
                     .dup = out[1].view(),
                     .product = out[2].view()});
    return out;
  };
  const std::vector<Tensor> all = run(7);
  for (unsigned wanted = 1; wanted < 7; ++wanted) {
    const std::vector<Tensor> found = run(wanted);
    for (std::size_t i = 0; i < 3; ++i)
      if (found[i].defined()) expect_bits(found[i], all[i], std::to_string(wanted));
  }
}

TEST(InPlace, ChangesTheMemoryAndTheVersion) {
  const Tensor y = Tensor::from(std::vector<float>{1, 2, 3, 4}, {2, 2});
  const Tensor alias = y;
  add_(y, Tensor::from(std::vector<float>{10, 20}, {2}), 2);
  mul_(y, 0.5);
  EXPECT_EQ(alias.to_vector<float>(), (std::vector<float>{10.5F, 21, 11.5F, 22}));
  mul_(y, Tensor::scalar(2));
  fill_(slice(y, 0, 1), 7);
  EXPECT_EQ(alias.to_vector<float>(), (std::vector<float>{21, 42, 7, 7}));
  zero_(y);
  EXPECT_EQ(alias.to_vector<float>(), (std::vector<float>{0, 0, 0, 0}));
  EXPECT_EQ(y.storage()->version(), 5U);
  EXPECT_THROW(add_(y, randn({3, 2, 2}, 1)), ShapeMismatch);
}

TEST(InPlace, AChangeOfASavedTensorIsAnErrorInBackward) {
  Tensor x = randn({3}, 1);
  x.set_requires_grad(true);
  const Tensor y = mul(x, x);
  EXPECT_THROW(add_(x, x), Error);
  {
    const NoGrad no_grad;
    mul_(x, 2);
  }
  EXPECT_THROW(backward(y, {.grad = randn({3}, 2)}), Error);
}

}  // namespace
}  // namespace ingot
