#include "ingot/infer/perplexity.h"

#include <cmath>

#include "tests/infer/goldens.h"
#include "tests/support/source_dir.h"
#include <gtest/gtest.h>

#include "ingot/autograd/grad_mode.h"
#include "ingot/base/error.h"
#include "ingot/models/language/model_directory.h"
#include "ingot/ops/view.h"

namespace ingot::infer {
namespace {

using test::golden_model;

std::vector<std::int32_t> some_text(std::int64_t length) {
  std::vector<std::int32_t> ids;
  for (std::int64_t i = 0; i < length; ++i) ids.push_back(static_cast<std::int32_t>(i * i % 59));
  return ids;
}

// What training calls the loss of these tokens, each given all before it.
double mean_loss(const LanguageModel& model, std::span<const std::int32_t> ids) {
  const NoGrad no_grad;
  const auto count = static_cast<std::int64_t>(ids.size()) - 1;
  const Tensor inputs = Tensor::from(ids.first(ids.size() - 1), {1, count});
  return model.loss({.tokens = inputs}, Tensor::from(ids.subspan(1), {1, count})).item();
}

TEST(Perplexity, OfOneWindowIsTheExponentialOfTheTrainingLoss) {
  for (const char* name : {"llama_gqa_llama3", "gpt2", "qwen3"}) {
    const auto model = golden_model(name);
    const std::vector<std::int32_t> ids = some_text(25);
    const Perplexity found = measure_perplexity(*model, ids, {}, {.window = 32, .stride = 16});
    EXPECT_EQ(found.tokens, 24);
    EXPECT_NEAR(found.perplexity(), std::exp(mean_loss(*model, ids)), 1e-3) << name;
    EXPECT_NEAR(found.bits_per_byte(48), mean_loss(*model, ids) / std::log(2.0) / 2, 1e-5) << name;
  }
}

TEST(Perplexity, EveryTokenIsScoredOnceWithAtLeastTheWindowLessTheStrideBeforeIt) {
  const auto model = golden_model("qwen3");
  const std::vector<std::int32_t> ids = some_text(61);
  const std::int64_t window = 16, stride = 6;
  double expected = 0;
  for (std::int64_t scored = 1, begin = 0; scored < 61; begin += stride) {
    const std::int64_t end = std::min<std::int64_t>(begin + window, 61);
    const std::span text(ids);
    const auto whole = text.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin));
    const double all = mean_loss(*model, whole) * static_cast<double>(end - begin - 1);
    const auto known = whole.first(static_cast<std::size_t>(scored - begin));
    expected +=
        all - (known.size() < 2 ? 0 : mean_loss(*model, known) * static_cast<double>(known.size() - 1));
    scored = end;
  }
  std::int64_t last = 0;
  const Perplexity found = measure_perplexity(*model, ids, {.chunk = 5}, {.window = window, .stride = stride},
                                              [&](std::int64_t done) {
                                                EXPECT_GT(done, last);
                                                last = done;
                                              });
  EXPECT_EQ(found.tokens, 60);
  EXPECT_EQ(last, 60);
  EXPECT_NEAR(found.negative_log_likelihood, expected, 1e-3);
}

TEST(Perplexity, RefusesWindowsThatCannotBe) {
  const auto model = golden_model("gpt2");  // 32 positions
  const std::vector<std::int32_t> ids = some_text(40);
  EXPECT_THROW(measure_perplexity(*model, ids, {}, {.window = 33, .stride = 8}), InvalidConfig);
  EXPECT_THROW(measure_perplexity(*model, ids, {}, {.window = 16, .stride = 16}), InvalidConfig);
  EXPECT_THROW(measure_perplexity(*model, ids, {}, {.window = 16, .stride = -1}), InvalidConfig);
  EXPECT_THROW(measure_perplexity(*model, some_text(1), {}, {.window = 16, .stride = 8}), DimensionMismatch);
}

}  // namespace
}  // namespace ingot::infer
