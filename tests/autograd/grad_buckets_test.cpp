#include "ingot/autograd/grad_buckets.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/support/op_case.h"
#include <gtest/gtest.h>

#include "ingot/autograd/engine.h"
#include "ingot/autograd/node.h"
#include "ingot/autograd/ready_hooks.h"
#include "ingot/base/error.h"
#include "ingot/core/backend.h"
#include "ingot/core/contiguous_rows.h"
#include "ingot/core/meta_backend.h"
#include "ingot/ops/checkpoint.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/matmul.h"
#include "ingot/ops/reduce.h"

namespace ingot {
namespace {

using testing::randn;

Tensor parameter(const Shape& shape, std::uint64_t seed) {
  Tensor x = randn(shape, seed);
  x.set_requires_grad(true);
  return x;
}

// A chain of linear layers, each weight used as often as `uses` says, all of it or half inside checkpoint().
struct Chain {
  std::vector<Tensor> weights;
  std::vector<int> order;  // of weights
  bool checkpointed = false;

  explicit Chain(std::uint64_t seed, bool checkpointed_ = false) : checkpointed(checkpointed_) {
    std::mt19937_64 random(seed);
    const auto count = 1 + random() % 6;
    for (std::size_t i = 0; i < count; ++i) weights.push_back(parameter({6, 6}, seed * 100 + i));
    const auto layers = count + random() % 4;
    for (std::size_t i = 0; i < layers; ++i)
      order.push_back(static_cast<int>(i < count ? i : random() % count));
    std::shuffle(order.begin(), order.end(), random);
  }

  Tensor layer(const Tensor& x, int which) const {
    const std::function<Tensor(const Tensor&)> f = [this, which](const Tensor& in) {
      return tanh(matmul(in, weights[static_cast<std::size_t>(which)]));
    };
    return checkpointed && which % 2 == 0 ? checkpoint(f, x) : f(x);
  }
  Tensor loss() const {
    Tensor x = parameter({3, 6}, 7);
    for (const int which : order) x = layer(x, which);
    return sum(x * x);
  }
  std::vector<std::vector<float>> gradients() const {
    std::vector<std::vector<float>> result;
    for (const Tensor& weight : weights) result.push_back(weight.grad().to_vector<float>());
    return result;
  }
};

TEST(GradientReady, EachHookRunsOnceWhenItsGradientIsFinalAlwaysInTheSameOrder) {
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    const Chain chain(seed, seed % 2 == 1);
    std::vector<int> first_order;
    for (int repeat = 0; repeat < 2; ++repeat) {
      std::vector<int> order;
      std::vector<std::vector<float>> when_ready(chain.weights.size());
      for (std::size_t i = 0; i < chain.weights.size(); ++i) {
        chain.weights[i].set_grad({});
        on_gradient_ready(chain.weights[i], [&, i] {
          order.push_back(static_cast<int>(i));
          when_ready[i] = chain.weights[i].grad().to_vector<float>();
        });
      }
      backward(chain.loss());
      EXPECT_EQ(order.size(), chain.weights.size()) << seed;
      EXPECT_EQ(when_ready, chain.gradients()) << seed;
      if (repeat == 0) first_order = order;
      EXPECT_EQ(order, first_order) << seed;
    }
    for (const Tensor& weight : chain.weights) on_gradient_ready(weight, {});
  }
}

TEST(GradientReady, TheLastLayerIsReadyBeforeTheFirstHasRun) {
  const Tensor a = parameter({4, 4}, 1), b = parameter({4, 4}, 2);
  bool a_has_gradient = true;
  on_gradient_ready(b, [&] { a_has_gradient = a.grad().defined(); });
  backward(sum(matmul(matmul(parameter({2, 4}, 3), a), b)));
  EXPECT_FALSE(a_has_gradient);
  EXPECT_TRUE(a.grad().defined());
}

TEST(GradientReady, ALeafThatIsTheRootIsReadyToo) {
  const Tensor x = parameter({1}, 1);
  int calls = 0;
  on_gradient_ready(x, [&] { ++calls; });
  backward(x);
  EXPECT_EQ(calls, 1);
}

struct GivesNothing : Node {
  std::string_view name() const override { return "gives_nothing"; }
  void backward(BackwardContext&) override {}
};

// As offloading moves it, with the device of shapes in the host's place.
TEST(GradientReady, AGradientThatIsElsewhereComesBackForThePassesThatAddToIt) {
  const Tensor used = parameter({4}, 1), unused = parameter({4}, 2);
  std::vector<std::string> calls;
  std::vector<Tensor> kept(2);
  const auto move = [&](const Tensor& leaf, std::size_t i, const std::string& name) {
    GradBuffer& buffer = leaf.autograd_meta()->grad;
    on_gradient_ready(
        leaf,
        [&buffer, &calls, &kept, i, name] {
          if (buffer.memory.device() == kMeta) return;
          calls.push_back(name + " leaves");
          const View away = contiguous_view(buffer.memory.view().data, {4}, DType::f32, kMeta);
          kept[i] = std::exchange(buffer.memory, Tensor(buffer.memory.storage(), away));
        },
        [&buffer, &calls, &kept, i, name] {
          calls.push_back(name + " comes");
          buffer.memory = kept[i];
        });
  };
  move(used, 0, "used");
  move(unused, 1, "unused");
  backward(sum(used * unused));
  calls.clear();
  // The second one is a leaf of the pass that gets no gradient in it.
  Tensor nothing = Tensor::zeros({4});
  const auto node = std::make_shared<GivesNothing>();
  const Tensor* inputs[]{&unused};
  node->set_inputs(inputs);
  connect(nothing, node, 0);
  backward(sum(used * nothing));
  EXPECT_EQ(calls, (std::vector<std::string>{"used comes", "used leaves"}));
}

TEST(GradBuckets, GradientsInBucketsHaveTheBitsOfSeparateOnes) {
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    const Chain chain(seed, seed % 3 == 1);
    backward(chain.loss());
    backward(chain.loss());
    const auto separate = chain.gradients();
    const GradBuckets buckets(chain.weights, seed % 2 == 0 ? 1 : 300);
    for (int pass = 0; pass < 2; ++pass) {  // what the memory held before does not matter
      for (const Tensor& weight : chain.weights) {
        weight.set_grad({});
        EXPECT_FALSE(weight.grad().defined());
      }
      backward(chain.loss());
      backward(chain.loss());
      EXPECT_EQ(chain.gradients(), separate) << seed;
    }
  }
}

TEST(GradBuckets, ReportReadyInOrderInTheLastPassOnly) {
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    const Chain chain(seed);
    GradBuckets buckets(chain.weights, 300);
    std::vector<std::size_t> ready;
    buckets.on_ready([&](std::size_t i) { ready.push_back(i); });
    backward(chain.loss());
    EXPECT_TRUE(ready.empty());
    buckets.last_pass();
    backward(chain.loss());
    EXPECT_FALSE(ready.empty());
    buckets.finish();
    std::vector<std::size_t> all(buckets.size());
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = i;
    EXPECT_EQ(ready, all);
  }
}

TEST(GradBuckets, WhatGotNoGradientIsZeroAfterFinish) {
  const Tensor used = parameter({3}, 1), unused = parameter({5}, 2);
  GradBuckets buckets(std::vector{unused, used}, 1 << 20);
  ASSERT_EQ(buckets.size(), 1);
  std::vector<std::size_t> ready;
  buckets.on_ready([&](std::size_t i) { ready.push_back(i); });
  unused.autograd_meta()->grad.memory.data<float>()[2] = 7;  // of a step before
  buckets.last_pass();
  backward(sum(used * 2.0));
  EXPECT_TRUE(ready.empty());
  buckets.finish();
  EXPECT_EQ(ready, std::vector<std::size_t>{0});
  EXPECT_EQ(unused.grad().to_vector<float>(), std::vector<float>(5, 0.0F));
  EXPECT_EQ(used.grad().to_vector<float>(), std::vector<float>(3, 2.0F));
}

TEST(GradBuckets, LeavesThatFollowOneAnotherStayJoined) {
  const std::vector<Tensor> leaves{parameter({64, 4}, 1), parameter({32, 4}, 2), parameter({16, 4}, 3)};
  const GradBuckets buckets(leaves, 1 << 20);
  std::vector<Tensor> memory;
  for (const Tensor& leaf : leaves) memory.push_back(leaf.autograd_meta()->grad.memory);
  EXPECT_EQ(contiguous_rows(memory).shape(), (Shape{112, 4}));
}

TEST(GradBuckets, ForeignMemoryIsRefusedAndGradientsOutliveTheBuckets) {
  const Tensor x = parameter({3}, 1);
  {
    const GradBuckets buckets(std::vector{x}, 1);
    EXPECT_THROW(x.set_grad(Tensor::zeros({3})), Error);
    EXPECT_THROW(GradBuckets(std::vector{x}, 1), Error);
    backward(sum(x));
  }
  EXPECT_EQ(x.grad().to_vector<float>(), std::vector<float>(3, 1.0F));
  x.set_grad({});
  backward(sum(x * 3.0));
  EXPECT_EQ(x.grad().to_vector<float>(), std::vector<float>(3, 3.0F));
}

TEST(SaveByIdentity, AnOffloadedParameterIsFreedBetweenForwardAndBackward) {
  for (const bool trainable : {true, false}) {
    const Tensor x = parameter({4, 256}, 1);
    Tensor weight = randn({256, 256}, 2);
    weight.set_requires_grad(trainable);
    backward(sum(tanh(matmul(x, weight))));
    const std::vector<float> dx = x.grad().to_vector<float>();
    const std::vector<float> dw = trainable ? weight.grad().to_vector<float>() : std::vector<float>{};
    x.set_grad({});
    if (trainable) weight.set_grad({});

    const std::vector<float> away = weight.to_vector<float>();  // the copy on the host
    std::optional<Tensor> back;
    int fetched = 0;
    save_by_identity(weight, [&] {
      ++fetched;
      back = Tensor::from(away, {256, 256});
      return *back;
    });
    const Tensor loss = sum(tanh(matmul(x, weight)));
    const std::weak_ptr<Storage> memory = weight.storage();
    Tensor handle({}, weight.view());  // the parameter without its memory
    handle.set_autograd_meta(weight.autograd_meta());
    weight = handle;
    EXPECT_TRUE(memory.expired()) << "the graph holds the weight";
    backward(loss);
    EXPECT_EQ(fetched, 1);
    EXPECT_EQ(back->storage().use_count(), 1) << "the graph holds what it fetched";
    EXPECT_EQ(x.grad().to_vector<float>(), dx);
    if (trainable) EXPECT_EQ(weight.grad().to_vector<float>(), dw);
  }
}

TEST(SaveByIdentity, AValueChangedInBetweenIsRefused) {
  const Tensor x = parameter({2, 2}, 1);
  Tensor weight = parameter({2, 2}, 2);
  const Tensor changed = randn({2, 2}, 3);
  changed.storage()->continue_version(*weight.storage());
  changed.storage()->bump_version();
  save_by_identity(weight, [&] { return changed; });
  EXPECT_THROW(backward(sum(matmul(x, weight))), Error);
}

}  // namespace
}  // namespace ingot
