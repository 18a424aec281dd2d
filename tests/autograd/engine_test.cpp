#include "ingot/autograd/engine.h"

#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "tests/support/op_case.h"
#include <gtest/gtest.h>

#include "ingot/autograd/grad_mode.h"
#include "ingot/autograd/gradcheck.h"
#include "ingot/autograd/node.h"
#include "ingot/base/error.h"
#include "ingot/core/backend.h"
#include "ingot/core/memory.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/checkpoint.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/index.h"
#include "ingot/ops/matmul.h"
#include "ingot/ops/random.h"
#include "ingot/ops/reduce.h"
#include "ingot/ops/view.h"

namespace ingot {
namespace {

Tensor leaf(const std::vector<float>& values) {
  Tensor x = Tensor::from(values, {static_cast<std::int64_t>(values.size())});
  x.set_requires_grad(true);
  return x;
}

std::vector<float> grad_of(const Tensor& x) { return x.grad().to_vector<float>(); }

TEST(Engine, AddsWhatReachesALeafByEveryPathAndPass) {
  const Tensor x = leaf({2, -3});
  const auto f = [&] { return sum(x * x + x * 3.0); };
  backward(f());
  EXPECT_EQ(grad_of(x), (std::vector<float>{7, -3}));
  backward(f());
  EXPECT_EQ(grad_of(x), (std::vector<float>{14, -6}));
  x.set_grad({});
  backward(f());
  EXPECT_EQ(grad_of(x), (std::vector<float>{7, -3}));
}

// The gradient of y is handed on to both operands of y + y without a copy; adding to one must not change the
// other.
TEST(Engine, AGradientThatIsPassedOnTwiceIsNotShared) {
  const Tensor a = leaf({1, 2}), b = leaf({3, 4});
  const Tensor y = a * 2.0, z = b * 5.0;
  backward(sum((y + z) + y));
  EXPECT_EQ(grad_of(a), (std::vector<float>{4, 4}));
  EXPECT_EQ(grad_of(b), (std::vector<float>{5, 5}));
}

TEST(Engine, TheGraphIsReleasedUnlessItIsRetained) {
  const Tensor x = leaf({2});
  const Tensor y = sum(square(x));
  backward(y, {.retain_graph = true});
  backward(y);
  EXPECT_EQ(grad_of(x), (std::vector<float>{8}));
  try {
    backward(y);
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("retain_graph"), std::string::npos);
  }
}

TEST(Engine, ATensorChangedInPlaceAfterItWasSavedIsAnError) {
  const Tensor x = leaf({2});
  const Tensor y = x * 1.0;
  const Tensor z = sum(square(y));
  {
    const NoGrad no_grad;
    mul_(y, 3.0);
  }
  try {
    backward(z);
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("changed in place"), std::string::npos);
  }
}

TEST(Engine, RefusesARootWithoutAGraphOrOfSeveralElements) {
  EXPECT_THROW(backward(Tensor::scalar(1)), Error);
  EXPECT_THROW(backward(leaf({1, 2}) * 2.0), DimensionMismatch);
  const Tensor x = leaf({1, 2});
  EXPECT_THROW(backward(x * 2.0, {.grad = Tensor::zeros({3})}), ShapeMismatch);
  backward(x * 2.0, {.grad = Tensor::from<float>({1, 10}, {2})});
  EXPECT_EQ(grad_of(x), (std::vector<float>{2, 20}));
}

TEST(Engine, NothingIsRecordedUnderNoGrad) {
  const Tensor x = leaf({1});
  const NoGrad no_grad;
  EXPECT_FALSE((x * 2.0).requires_grad());
  const GradMode again(true);
  EXPECT_TRUE((x * 2.0).requires_grad());
}

TEST(Engine, AnErrorInTheMiddleLeavesNothingForTheNextPass) {
  const Tensor x = leaf({2});
  const Tensor good = x * 3.0;
  const Tensor bad = square(good);
  {
    const NoGrad no_grad;
    mul_(good, 1.0);  // makes bad's backward fail
  }
  const std::vector<Tensor> roots{sum(bad), sum(good * 1.0)}, grads{Tensor::scalar(1), Tensor::scalar(1)};
  EXPECT_THROW(backward(roots, grads), Error);
  x.set_grad({});
  backward(sum(x * 3.0));
  EXPECT_EQ(grad_of(x), (std::vector<float>{3}));
}

// Destroying the last handle of a chain must not recurse: this one would need some 30 MB of stack.
TEST(Engine, AVeryLongChainRunsAndGoesAwayWithoutRecursion) {
  const Tensor x = leaf({1});
  Tensor y = x;
  for (int i = 0; i < 200000; ++i) y = y + 1.0;
  backward(sum(y));
  EXPECT_EQ(grad_of(x), (std::vector<float>{1}));
}

class Anomaly : public ::testing::Test {
 protected:
  void SetUp() override { set_detect_anomaly(true); }
  void TearDown() override { set_detect_anomaly(false); }
};

TEST_F(Anomaly, NamesTheOperationThatFirstMadeANanInTheForwardPass) {
  const Tensor x = leaf({-1, 4});
  try {
    static_cast<void>(sum(sqrt(x) * 2.0));
    FAIL();
  } catch (const NonFinite& error) {
    EXPECT_NE(error.where.find("sqrt"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("1 of 2"), std::string::npos) << error.what();
  }
}

TEST_F(Anomaly, NamesTheOperationWhoseGradientIsNotFinite) {
  const Tensor x = leaf({0, 4});
  const Tensor y = sum(sqrt(x));  // finite; its derivative at 0 is not
  try {
    backward(y);
    FAIL();
  } catch (const NonFinite& error) {
    EXPECT_NE(error.where.find("sqrt"), std::string::npos) << error.what();
    EXPECT_NE(error.where.find("backward"), std::string::npos) << error.what();
  }
}

TEST(Gradcheck, FindsAWrongGradient) {
  Tensor x = testing::randn({4}, 1, DType::f64);
  x.set_requires_grad(true);
  EXPECT_EQ(gradcheck([](std::span<const Tensor> in) { return square(in[0]); }, {x}), "");
  // The value of 2x with the gradient of x, as a forgotten factor in a backward rule would give.
  const auto wrong = [](std::span<const Tensor> in) { return in[0] + in[0].detach(); };
  EXPECT_NE(gradcheck(wrong, {x}), "");
}

TEST(Checkpoint, RecomputesWithTheSameRandomNumbersAndBits) {
  const auto gradients = [](bool recompute) {
    const Tensor x = leaf({1, 2, 3, 4, 5, 6, 7, 8}), w = leaf({1, -1, 1, -1, 1, -1, 1, -1});
    const auto block = [&w](const Tensor& in) { return tanh(dropout(in * w, 0.5)) * w; };
    const RandomScope random(7, 3);
    const Tensor y = recompute ? checkpoint(block, x * 0.5) : block(x * 0.5);
    backward(sum(y * y));
    std::vector<float> all = y.to_vector<float>();
    for (const Tensor& t : {x.grad(), w.grad()}) {
      const std::vector<float> values = t.to_vector<float>();
      all.insert(all.end(), values.begin(), values.end());
    }
    return all;
  };
  EXPECT_EQ(gradients(true), gradients(false));
}

// Adapters on a frozen base: the first layer reads what needs no gradient.
TEST(Checkpoint, KeepsNothingOfAFunctionWhoseParametersAloneTrain) {
  const Tensor x = Tensor::from(std::vector<float>(1000, 2.0F), {1000}), w = leaf({3});
  const MemoryTracker& memory = backend(kCpu).memory();
  const std::size_t before = memory.allocated();
  const Tensor y = checkpoint([&w](const Tensor& in) { return sum(square(square(in * w))); }, x);
  EXPECT_LT(memory.allocated() - before, 1000 * sizeof(float)) << "nothing as long as x";
  backward(y);
  EXPECT_EQ(w.grad().to_vector<float>(), (std::vector<float>{1000 * 4 * 16 * 27}));
  EXPECT_FALSE(x.grad().defined());
}

class CountingStore : public CheckpointStore {
 public:
  std::shared_ptr<Held> put(const Tensor& input) override {
    ++put_;
    return std::make_shared<Copy>(*this, clone(input));
  }
  int put_ = 0, got_ = 0, there_ = 0;

 private:
  class Copy : public Held {
   public:
    Copy(CountingStore& store, Tensor values) : store_(store), values_(std::move(values)) { ++store_.there_; }
    ~Copy() override { --store_.there_; }
    Copy(const Copy&) = delete;
    Copy& operator=(const Copy&) = delete;
    Tensor get() override {
      ++store_.got_;
      return values_;
    }

   private:
    CountingStore& store_;
    Tensor values_;
  };
};

TEST(Checkpoint, AStoreHasTheInputUntilTheBackwardPassHasUsedIt) {
  CountingStore store;
  const Tensor x = leaf({1, 2, 3});
  const auto function = [](std::span<const Tensor> in) { return std::vector<Tensor>{square(in.front())}; };
  const Tensor inputs[] = {x * 2.0};
  const Tensor y = sum(checkpoint(function, inputs, &store).front());
  EXPECT_EQ(store.put_, 1);
  EXPECT_EQ(store.there_, 1);
  backward(y, {.retain_graph = true});
  EXPECT_EQ(store.there_, 1);
  backward(y);
  EXPECT_EQ(store.got_, 2);
  EXPECT_EQ(store.there_, 0);
  EXPECT_EQ(x.grad().to_vector<float>(), (std::vector<float>{16, 32, 48}));
  EXPECT_THROW(backward(y), Error);
}

// Two inputs, of which the store keeps the first; a result of one call goes into the next.
TEST(Checkpoint, SeveralInputsAndResultsHaveTheGradientsOfPlainCalls) {
  const auto gradients = [](bool again, CheckpointStore* store) {
    const Tensor x = leaf({1, 2, 3}), w = leaf({-1, 4, 2});
    const std::function<std::vector<Tensor>(std::span<const Tensor>)> function =
        [](std::span<const Tensor> in) {
          return std::vector<Tensor>{in[0] * in[1], square(in[1])};
        };
    const auto call = [&](const Tensor& a, const Tensor& b) {
      const Tensor inputs[] = {a, b};
      return again ? checkpoint(function, inputs, store) : function(inputs);
    };
    const std::vector<Tensor> first = call(x * 2.0, w * 1.0), second = call(first[0], first[1]);
    backward(sum(second[0] * x + second[1]));
    return std::pair(x.grad().to_vector<float>(), w.grad().to_vector<float>());
  };
  const auto expected = gradients(false, nullptr);
  EXPECT_EQ(gradients(true, nullptr), expected);
  CountingStore store;
  EXPECT_EQ(gradients(true, &store), expected);
  EXPECT_EQ(store.put_, 2);
  EXPECT_EQ(store.got_, 2);
}

// As of a layer whose experts train and whose router does not.
TEST(Checkpoint, AResultThatNothingTrainsInTakesNoGradient) {
  const Tensor w = leaf({2, 3}), x = Tensor::from(std::vector<float>{5, 7}, {2});
  const std::function<std::vector<Tensor>(std::span<const Tensor>)> function =
      [&](std::span<const Tensor> in) {
        return std::vector<Tensor>{in[0] * w, square(in[0])};
      };
  const std::vector<Tensor> results = checkpoint(function, {&x, 1});
  backward(sum(results[0] + results[1]));
  EXPECT_EQ(w.grad().to_vector<float>(), (std::vector<float>{5, 7}));
}

TEST(CheckpointRows, HasTheRowsAndGradientsOfOneCall) {
  const auto all = [](std::int64_t rows, bool again) {
    Tensor x = testing::randn({2, 5, 8}, 1), w = testing::randn({8, 8}, 2), v = testing::randn({8}, 3);
    for (Tensor* t : {&x, &w, &v}) t->set_requires_grad(true);
    const auto function = [&](const Tensor& in) { return tanh(matmul(in, w)) * v; };
    Tensor in = x * 0.5;
    const Tensor y = rows == 0 ? function(in) : checkpoint_rows(function, in, rows);
    EXPECT_EQ(y.shape(), Shape({2, 5, 8}));
    backward(sum(again ? y * y + in : y * y));
    return std::vector{y.to_vector<float>(), x.grad().to_vector<float>(), w.grad().to_vector<float>(),
                       v.grad().to_vector<float>()};
  };
  for (const bool again : {false, true}) {
    const auto expected = all(0, again);
    for (const std::int64_t rows : {1, 3, 4, 10, 99}) {
      const auto actual = all(rows, again);
      for (std::size_t i = 0; i < expected.size(); ++i)
        for (std::size_t j = 0; j < expected[i].size(); ++j)
          EXPECT_NEAR(actual[i][j], expected[i][j], 2e-5) << rows << " " << i;
    }
  }
}

TEST(CheckpointRows, DrawsTheRandomNumbersOfTheForwardPassAgain) {
  const Tensor x = leaf(std::vector<float>(64, 1.0F));
  const RandomScope random(7, 3);
  const auto function = [](const Tensor& in) { return dropout(in, 0.5); };
  const Tensor y = checkpoint_rows(function, reshape(x, {16, 4}), 3);
  backward(sum(y));
  EXPECT_EQ(x.grad().to_vector<float>(), y.to_vector<float>());
}

TEST(CheckpointRows, TrainsParametersOfAFunctionOfFrozenRows) {
  const Tensor x = Tensor::from(std::vector<float>{1, 2, 3, 4}, {4, 1}), w = leaf({3});
  backward(sum(checkpoint_rows([&w](const Tensor& in) { return square(in * w); }, x, 3)));
  EXPECT_EQ(w.grad().to_vector<float>(), (std::vector<float>{2 * 3 * 30}));
}

TEST(CheckpointRows, GivesTheGradientsOfSeveralInputsButForWholeNumbers) {
  const auto all = [](std::int64_t rows) {
    Tensor x = testing::randn({6, 4}, 1), w = testing::randn({6, 1}, 2), unread = testing::randn({6, 2}, 3);
    for (Tensor* t : {&x, &w, &unread}) t->set_requires_grad(true);
    const Tensor which = Tensor::from(std::vector<std::int64_t>{3, 0, 1, 2, 2, 3}, {6, 1});
    const auto function = [](std::span<const Tensor> in) {
      return gather_within(in[0], 1, in[2]) * tanh(in[1]);
    };
    const std::vector<Tensor> inputs{x, w, which, unread};
    backward(sum(rows == 0 ? function(inputs) : checkpoint_rows(function, inputs, rows)));
    if (rows > 0) EXPECT_EQ(unread.grad().to_vector<float>(), std::vector<float>(12, 0.0F));
    return std::pair(x.grad().to_vector<float>(), w.grad().to_vector<float>());
  };
  const auto expected = all(0);
  for (const std::int64_t rows : {1, 4, 6}) EXPECT_EQ(all(rows), expected) << rows;
  EXPECT_THROW(checkpoint_rows([](std::span<const Tensor> in) { return in[0]; },
                               std::vector{Tensor::zeros({2, 3}), Tensor::zeros({3, 3})}, 1),
               DimensionMismatch);
}

TEST(CheckpointRows, ComputesWithoutGradientsToo) {
  const NoGrad no_grad;
  const Tensor x = Tensor::from(std::vector<float>{1, 2, 3}, {3, 1});
  const Tensor y = checkpoint_rows([](const Tensor& in) { return square(in); }, x, 2);
  EXPECT_EQ(y.to_vector<float>(), (std::vector<float>{1, 4, 9}));
  EXPECT_THROW(checkpoint_rows([](const Tensor& in) { return in; }, x, 0), InvalidConfig);
}

TEST(Checkpoint, ItsFunctionKnowsThatItRunsOnceMore) {
  const Tensor x = leaf({2, -3});
  std::vector<std::pair<bool, bool>> seen;  // recorded now, recorded later
  const auto function = [&](const Tensor& in) {
    seen.emplace_back(grad_enabled(), recorded_later());
    return square(in);
  };
  backward(sum(checkpoint(function, x)));
  EXPECT_EQ(seen, (std::vector<std::pair<bool, bool>>{{false, true}, {true, false}}));
  EXPECT_FALSE(recorded_later());
  const NoGrad no_grad;
  checkpoint(function, x);
  EXPECT_EQ(seen.back(), std::pair(false, false)) << "nothing is recorded at all";
}

}  // namespace
}  // namespace ingot
