#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "tests/support/op_case.h"
#include <gtest/gtest.h>

#include "ingot/autograd/grad_mode.h"
#include "ingot/base/error.h"
#include "ingot/models/forecast/decomposition_transformer.h"
#include "ingot/models/forecast/fourier_mixer.h"
#include "ingot/models/forecast/wavelet_mixer.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/matmul.h"
#include "ingot/ops/view.h"
#include "ingot/ops/weighted_roll.h"

// What holds for the parts of Autoformer and FEDformer beyond equality with the originals
// (forecast_golden_test.cpp).
namespace ingot {
namespace {

using testing::max_error;
using testing::randn;

ForecastModelConfig small(const char* model) {
  ForecastModelConfig c = ForecastModelConfig::defaults(model);
  c.lookback = 24;
  c.horizon = 9;
  c.channels = 3;
  c.d_model = 16;
  c.heads = 2;
  c.d_ff = 24;
  c.wavelet_order = 3;
  c.wavelet_channels = 4;
  c.wavelet_modes = 4;
  c.wavelet_skip = 0;
  return c;
}

Tensor forecast(const ForecastModelConfig& c, const Tensor& x, bool training) {
  InitSource source(1);
  const auto model = make_forecast_model(c, source);
  model->set_training(training);
  const NoGrad no_grad;
  return (*model)({.x = x, .past_marks = {}, .future_marks = {}});
}

TEST(AutoCorrelation, FindsThePeriodOfASeries) {
  // One delay, and a period of 5: the delay is 5 or a multiple of it, where the series equals itself.
  std::vector<float> values(40);
  for (std::size_t t = 0; t < values.size(); ++t) values[t] = t % 5 == 0 ? 1.0F : -0.25F;
  const Tensor x = Tensor::from(values, {1, 40, 1});
  EXPECT_LT(max_error(AutoCorrelation(0.3, true)(x, x, x, false), x), 1e-6);
}

TEST(AutoCorrelation, IsTheSameForEveryWindowAloneUnlessTheBatchSharesDelays) {
  const AutoCorrelation published(2, false), per_window(2, true);
  const Tensor x = randn({4, 30, 6}, 1), key = randn({4, 30, 6}, 2);  // unlike: no delay outweighs all others
  const auto first = [&](const AutoCorrelation& mixer, const Tensor& all, bool training) {
    return slice(mixer(all, slice(key, 0, 0, all.dim(0)), all, training), 0, 0, 1);
  };
  const Tensor alone = slice(x, 0, 0, 1);
  EXPECT_LT(max_error(first(published, x, false), first(published, alone, false)), 1e-6);
  EXPECT_LT(max_error(first(per_window, x, true), first(published, alone, false)), 1e-6);
  EXPECT_GT(max_error(first(published, x, true), first(published, alone, true)), 1e-2);
}

TEST(AutoCorrelation, CutsOrFillsUpSeriesOfAnotherLength) {
  const AutoCorrelation mixer(2, true);
  const Tensor q = randn({2, 12, 4}, 1);
  for (const std::int64_t other : {1, 7, 12, 20}) {
    const Tensor k = randn({2, other, 4}, 2);
    EXPECT_EQ(mixer(q, k, k, false).shape(), q.shape());
  }
}

TEST(FourierMixer, AsInThePaperFollowsAShiftOfItsSeries) {
  // A product per frequency is a circular convolution; the published block, which moves frequencies and
  // misreads its result, is none.
  ForecastModelConfig c = small("fedformer");
  c.modes = 5;
  const Tensor x = randn({2, 24, 16}, 3) * 100.0;
  for (const bool follow : {true, false}) {
    c.follow_paper = follow;
    InitSource source(1);
    const FourierMixer mixer(source, c, 24, 0);
    const auto run = [&](const Tensor& in) { return mixer(in, {}, {}, false); };
    const double error = max_error(run(roll(x, 7, 1)), roll(run(x), 7, 1));
    EXPECT_EQ(error < 1e-5, follow) << error;
  }
}

TEST(FourierMixer, ChoosesModesBySeed) {
  ForecastModelConfig c = small("fedformer");
  c.modes = 64;
  std::vector<std::int64_t> all(12);
  std::iota(all.begin(), all.end(), 0);
  EXPECT_EQ(choose_modes(c, 24, 0), all);  // more than there are: all below half of the length
  c.modes = 4;
  const auto chosen = choose_modes(c, 200, 0);
  EXPECT_EQ(chosen.size(), 4U);
  EXPECT_TRUE(std::ranges::is_sorted(chosen));
  EXPECT_EQ(choose_modes(c, 200, 0), chosen);
  EXPECT_NE(choose_modes(c, 200, 1), chosen);
  c.mode_seed = 1;
  EXPECT_NE(choose_modes(c, 200, 0), chosen);
  c.mode_select = "low";
  EXPECT_EQ(choose_modes(c, 200, 0), (std::vector<std::int64_t>{0, 1, 2, 3}));
  EXPECT_EQ(choose_modes(c, 1, 0), (std::vector<std::int64_t>{0}));
}

TEST(Multiwavelets, AnalysisAndSynthesisAreOrthogonalAndInverse) {
  for (const std::int64_t order : {1, 2, 3, 8, 16}) {
    const MultiwaveletFilters f = legendre_multiwavelets(order);
    const std::int64_t k = order;
    Tensor identity = Tensor::zeros({2 * k, 2 * k});
    for (std::int64_t i = 0; i < 2 * k; ++i) identity.data<float>()[i * (2 * k + 1)] = 1;
    EXPECT_LT(max_error(matmul(f.analysis, transpose(f.analysis, 0, 1)), identity), 1e-5) << order;
    // synthesis takes sums first, analysis gives details first
    const Tensor sums_first = concat(std::array{slice(f.analysis, 1, k), slice(f.analysis, 1, 0, k)}, 1);
    EXPECT_LT(max_error(matmul(sums_first, f.synthesis), identity), 1e-5) << order;
  }
  // Order 1 is Haar's.
  const float r = 0.70710678F;
  EXPECT_LT(
      max_error(legendre_multiwavelets(1).analysis, Tensor::from(std::vector<float>{r, r, -r, r}, {2, 2})),
      1e-6);
  EXPECT_THROW(legendre_multiwavelets(0), InvalidConfig);
  EXPECT_THROW(legendre_multiwavelets(17), InvalidConfig);
}

TEST(WaveletTransform, PutsTogetherWhatItTookApart) {
  for (const std::int64_t n : {1, 2, 3, 16, 22, 31}) {
    for (const std::int64_t skipped : {0, 1, 9}) {
      const WaveletTransform transform(3, skipped);
      const Tensor x = randn({2, n, 4, 3}, static_cast<std::uint64_t>(n));
      WaveletLevels levels = transform.take_apart(x);
      const Tensor coarsest = levels.sums.back();
      for (Tensor& sums : levels.sums) sums = Tensor::zeros(sums.shape());
      EXPECT_LT(max_error(transform.put_together(coarsest, levels, n), x), 1e-5) << n << ", " << skipped;
    }
  }
}

TEST(DecompositionTransformer, ForecastsWithEveryOption) {
  const Tensor x = randn({2, 3, 24}, 1);
  for (const char* model : {"autoformer", "fedformer"}) {
    for (const char* version : {"fourier", "wavelets"}) {
      for (const bool follow : {false, true}) {
        ForecastModelConfig c = small(model);
        c.version = version;
        c.follow_paper = follow;
        c.moving_averages = follow ? std::vector<std::int64_t>{4, 7} : std::vector<std::int64_t>{24};
        c.cross_activation = follow ? "softmax" : "tanh";
        c.label_length = follow ? 24 : 0;
        c.decoder_layers = follow ? 2 : 1;
        const Tensor y = forecast(c, x, false);
        ASSERT_EQ(y.shape(), (Shape{2, 3, 9})) << model << ", " << version;
        for (const float v : y.to_vector<float>()) ASSERT_TRUE(std::isfinite(v)) << model << ", " << version;
        EXPECT_EQ(max_error(forecast(c, x, false), y), 0);  // the same seed, the same bits
      }
    }
  }
}

TEST(DecompositionTransformer, WorksAtTheSmallestSizes) {
  for (const char* model : {"autoformer", "fedformer"}) {
    for (const char* version : {"fourier", "wavelets"}) {
      ForecastModelConfig c = small(model);
      c.lookback = c.horizon = 1;
      c.label_length = 1;
      c.version = version;
      EXPECT_EQ(forecast(c, randn({1, 3, 1}, 1), true).shape(), (Shape{1, 3, 1})) << model << ", " << version;
    }
  }
}

}  // namespace
}  // namespace ingot
