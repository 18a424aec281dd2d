#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/support/op_case.h"
#include <gtest/gtest.h>

#include "ingot/autograd/engine.h"
#include "ingot/autograd/grad_mode.h"
#include "ingot/autograd/node.h"
#include "ingot/base/error.h"
#include "ingot/core/backend.h"
#include "ingot/kernels/launch_profile.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/index.h"
#include "ingot/ops/matmul.h"
#include "ingot/ops/norm.h"
#include "ingot/ops/reduce.h"
#include "ingot/ops/rope.h"
#include "ingot/ops/view.h"

namespace ingot {
namespace {

using testing::randn;

constexpr std::int64_t kRows = 6, kWidth = 16;
constexpr std::size_t kFloats = kRows * kWidth;  // of one result
constexpr std::size_t kStatistics = kRows;       // that a norm keeps of its rows

using Function = std::function<Tensor(std::span<const Tensor>)>;

Tensor leaf(const Shape& shape, std::uint64_t seed) {
  Tensor x = randn(shape, seed);
  x.set_requires_grad(true);
  return x;
}

std::vector<Tensor> leaves(std::size_t count) {
  std::vector<Tensor> list;
  for (std::size_t i = 0; i < count; ++i) list.push_back(leaf({kRows, kWidth}, i + 1));
  return list;
}

/// A pass through a function with and without recomputation.
struct Pass {
  std::vector<std::vector<float>> bits;  // of the result and of the gradients
  std::size_t kept = 0;                  // bytes behind the forward pass, the result's left out
};

Pass pass(const Function& function, const std::vector<Tensor>& inputs, bool selective) {
  const MemoryTracker& memory = backend(kCpu).memory();
  Pass result;
  for (const Tensor& input : inputs) input.set_grad({});
  const std::size_t before = memory.allocated();
  Tensor y;
  {
    const SelectiveRecompute scope(selective);
    y = function(inputs);
  }
  result.kept = memory.allocated() - before - y.nbytes();
  result.bits.push_back(y.to_vector<float>());
  backward(y, {.grad = randn(y.shape(), 99)});
  for (const Tensor& input : inputs) result.bits.push_back(input.grad().to_vector<float>());
  return result;
}

/// That recomputation changes no bit and what it saves, in floats.
void expect_saved(const std::string& name, const Function& function, std::size_t inputs, std::size_t floats) {
  const std::vector<Tensor> in = leaves(inputs);
  const Pass plain = pass(function, in, false), selective = pass(function, in, true);
  EXPECT_EQ(selective.bits, plain.bits) << name;
  EXPECT_EQ(plain.kept - selective.kept, floats * sizeof(float)) << name;
}

TEST(SelectiveRecompute, KeepsTheInputsOfWhatIsCheapAndChangesNoBit) {
  const Tensor weight = leaf({kWidth}, 31), bias = leaf({kWidth}, 32), w = leaf({kWidth, kWidth}, 33);
  const Tensor v = leaf({kWidth, kWidth}, 34);
  expect_saved(
      "rms_norm, two products of it",
      [&](std::span<const Tensor> in) {
        const Tensor x = rms_norm(in[0], weight);
        return linear(x, w) + linear(x, v);
      },
      1, kFloats);
  expect_saved(
      "layer_norm without a bias",
      [&](std::span<const Tensor> in) { return linear(layer_norm(in[0], weight, {}), w); }, 1, kFloats);
  expect_saved(
      "add_rms_norm",
      [&](std::span<const Tensor> in) {
        const NormedSum x = add_rms_norm(in[0], in[1], weight);
        return linear(x.normed, w) + x.sum;
      },
      2, kFloats);
  expect_saved(
      "add_layer_norm",
      [&](std::span<const Tensor> in) {
        const NormedSum x = add_layer_norm(in[0], in[1], weight, bias);
        return linear(x.normed, w) + x.sum;
      },
      2, kFloats);
  expect_saved(
      "silu_mul", [&](std::span<const Tensor> in) { return linear(silu_mul(in[0], in[1]), w); }, 2, kFloats);
  expect_saved(
      "gelu_mlp",
      [&](std::span<const Tensor> in) {
        return gelu_mlp(in[0], {w, bias}, {v, bias});
      },
      1, kFloats);
  const Tensor narrow = leaf({kWidth, kWidth / 2}, 35);
  expect_saved(
      "swiglu_linear",
      [&](std::span<const Tensor> in) {
        return swiglu_linear(in[0], {narrow, bias});
      },
      1, kFloats / 2);
  expect_saved(
      "a chain of operations: both results",
      [&](std::span<const Tensor> in) { return linear(gelu_tanh(in[0]) * in[1], w); }, 2, 2 * kFloats);
  expect_saved(
      "what its own node keeps stays", [&](std::span<const Tensor> in) { return linear(tanh(in[0]), w); }, 1,
      0);
  expect_saved(
      "a sum, whose inputs nobody else keeps",
      [&](std::span<const Tensor> in) { return linear(in[0] + in[1], w); }, 2, 0);
}

TEST(SelectiveRecompute, GoesOnThroughRopeRowsAndShapesOfWhatIsMadeAgain) {
  const RopeTable table = rope_table(rope_frequencies(8, 1e4), kRows);
  const Tensor weight = leaf({8}, 31), wide = leaf({kWidth}, 32), w = leaf({kWidth, kWidth}, 33);
  const auto turned = [&](const Tensor& x) {  // as two heads of 8
    return rope(reshape(x, {1, kRows, 2, 8}), table);
  };
  const auto product = [&](const Tensor& x) { return linear(reshape(x, {kRows, kWidth}), w); };
  expect_saved(
      "rope of a norm",
      [&](std::span<const Tensor> in) {
        return product(rope(rms_norm(reshape(in[0], {1, kRows, 2, 8}), weight), table));
      },
      1, kFloats);
  expect_saved(
      "both in one",
      [&](std::span<const Tensor> in) {
        return product(rms_norm_rope(reshape(in[0], {1, kRows, 2, 8}), weight, 1e-5F, 0.0F, table));
      },
      1, kFloats);
  expect_saved(
      "rope alone", [&](std::span<const Tensor> in) { return product(turned(in[0])); }, 1, 0);
  const Tensor order = Tensor::from(std::vector<std::int64_t>{3, 0, 0, 5, 1, 2, 4, 4, 3}, {9});
  expect_saved(
      "rows of a norm, and the norm",
      [&](std::span<const Tensor> in) {
        const Tensor x = rms_norm(in[0], wide);
        return sum(linear(embedding(x, order), w)) + sum(linear(x, w));
      },
      1, kFloats + 9 * kWidth);
}

TEST(SelectiveRecompute, MakesAResultOnceForAllWhoSavedItAndFreesIt) {
  const Tensor weight = leaf({kWidth}, 31);
  const Tensor ws[] = {leaf({kWidth, kWidth}, 32), leaf({kWidth, kWidth}, 33), leaf({kWidth, kWidth}, 34)};
  const Tensor x = leaf({kRows, kWidth}, 1);
  const MemoryTracker& memory = backend(kCpu).memory();
  Tensor loss;
  {
    const SelectiveRecompute scope;
    const Tensor y = rms_norm(x, weight);
    loss = sum(linear(y, ws[0]) + linear(y, ws[1]) + linear(y, ws[2]));
  }
  const std::size_t before = memory.allocated();
  std::int64_t norms = 0;
  {
    const kernels::LaunchProfile profile;
    backward(loss);
    for (const auto& entry : profile.entries())
      if (std::string_view(entry.kernel) == "rms_norm") norms += entry.launches;
  }
  EXPECT_EQ(norms, 1);
  std::size_t gradients = x.grad().nbytes() + weight.grad().nbytes();
  for (const Tensor& w : ws) gradients += w.grad().nbytes();
  EXPECT_EQ(memory.allocated() + kStatistics * sizeof(float), before + gradients)
      << "the graph is still there, nothing that it saved is";
}

TEST(SelectiveRecompute, AGraphThatIsKeptGivesTheSameOnceMore) {
  const Tensor x = leaf({kRows, kWidth}, 1), w = leaf({kWidth, kWidth}, 33);
  Tensor loss;
  {
    const SelectiveRecompute scope;
    loss = sum(linear(silu(x) * x, w));
  }
  backward(loss, {.retain_graph = true});
  const std::vector<float> once = w.grad().to_vector<float>(), at_x = x.grad().to_vector<float>();
  for (const Tensor& leaf : {x, w}) leaf.set_grad({});
  backward(loss);
  EXPECT_EQ(w.grad().to_vector<float>(), once);
  EXPECT_EQ(x.grad().to_vector<float>(), at_x);
  EXPECT_THROW(backward(loss), Error) << "that pass released it";
}

TEST(SelectiveRecompute, AnInputThatIsChangedInPlaceIsAnError) {
  const Tensor x = leaf({kRows, kWidth}, 1), w = leaf({kWidth, kWidth}, 33);
  const SelectiveRecompute scope;
  const Tensor before = x * 2.0;
  const Tensor loss = sum(linear(silu(before), w));
  {
    const NoGrad no_grad;
    mul_(before, 3.0);
  }
  try {
    backward(loss);
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("changed in place"), std::string::npos) << error.what();
  }
}

// The gradient of the product is its other operand: the changed result, which silu does not give.
TEST(SelectiveRecompute, AResultThatIsChangedBeforeItIsSavedIsKept) {
  const Tensor x = leaf({kRows, kWidth}, 1), w = leaf({kWidth, kWidth}, 33);
  const auto gradient = [&](bool selective) {
    const SelectiveRecompute scope(selective);
    w.set_grad({});
    const Tensor y = silu(x);
    {
      const NoGrad no_grad;
      mul_(y, 3.0);
    }
    backward(sum(linear(y, w)));
    return w.grad().to_vector<float>();
  };
  EXPECT_EQ(gradient(true), gradient(false));
}

TEST(SelectiveRecompute, ALongChainIsKeptInPlaces) {
  constexpr int kLinks = 20000;
  constexpr std::size_t kEighth = kLinks / 8;
  const auto chain = [](std::span<const Tensor> in) {
    Tensor y = in[0];
    for (int i = 0; i < kLinks; ++i) y = silu(y);
    return y;
  };
  const std::vector<Tensor> in{leaf({4}, 1)};
  const Pass plain = pass(chain, in, false), selective = pass(chain, in, true);
  EXPECT_EQ(selective.bits, plain.bits);
  EXPECT_NEAR(static_cast<double>(selective.kept), kEighth * 16.0, 0.2 * kEighth * 16.0);
  EXPECT_GT(plain.kept, (kLinks - 2) * std::size_t{16});
}

TEST(SelectiveRecompute, NamesTheOperationThatMakesANan) {
  set_detect_anomaly(true);
  const Tensor x = leaf({kRows, kWidth}, 1), w = leaf({kWidth, kWidth}, 33);
  const SelectiveRecompute scope;
  const Tensor y = linear(silu(x), w);
  EXPECT_NO_THROW(backward(sum(y)));
  EXPECT_THROW(sum(log(y)), NonFinite);
  set_detect_anomaly(false);
}

TEST(SelectiveRecompute, EndsWithItsScope) {
  EXPECT_FALSE(selective_recompute());
  {
    const SelectiveRecompute on;
    EXPECT_TRUE(selective_recompute());
    const SelectiveRecompute off(false);
    EXPECT_FALSE(selective_recompute());
  }
  EXPECT_FALSE(selective_recompute());
}

}  // namespace
}  // namespace ingot
