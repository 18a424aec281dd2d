#include "ingot/infer/generate.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "ingot/autograd/grad_mode.h"
#include "ingot/base/error.h"
#include "ingot/models/language/model_directory.h"

namespace ingot {
namespace {

std::unique_ptr<LanguageModel> golden(const std::string& name) {
  return load_language_model(std::string(INGOT_SOURCE_DIR) + "/tests/models/goldens/" + name,
                             {.trainable = false});
}

// The likeliest next token by running everything again, without a cache.
std::int32_t next_token(const LanguageModel& model, const std::vector<std::int32_t>& ids) {
  const NoGrad no_grad;
  const Tensor tokens = Tensor::from(ids, {1, static_cast<std::int64_t>(ids.size())});
  const std::vector<float> all = model.logits(model.hidden({.tokens = tokens})).to_vector<float>();
  const auto last = all.end() - model.config.vocab_size;
  return static_cast<std::int32_t>(std::max_element(last, all.end()) - last);
}

TEST(Generate, GreedyTextEqualsRunningTheWholeSequenceEachTime) {
  for (const char* name : {"llama_gqa_llama3", "mistral_window", "qwen3", "gpt2"}) {
    const auto model = golden(name);
    std::vector<std::int32_t> ids{5, 17, 42};
    const Generation result = generate(*model, ids, {.max_tokens = 12, .sampling = {.temperature = 0}});
    for (const std::int32_t token : result.tokens) {
      EXPECT_EQ(token, next_token(*model, ids)) << name;
      ids.push_back(token);
    }
    EXPECT_EQ(result.tokens.size(), 12U);
    EXPECT_EQ(result.reason, StopReason::max_tokens);
  }
}

TEST(Generate, EndsAtAStopTokenAtTheContextsEndAndWhenTold) {
  const auto model = golden("gpt2");  // 32 positions
  const std::vector<std::int32_t> prompt{5, 17, 42};
  const Generation free = generate(*model, prompt, {.max_tokens = 100, .sampling = {.temperature = 0}});
  EXPECT_EQ(free.reason, StopReason::context_full);
  EXPECT_EQ(free.tokens.size(), 30U);  // the last one needs no place in the cache
  const std::int32_t stop = free.tokens[4];
  const auto first = std::find(free.tokens.begin(), free.tokens.end(), stop) - free.tokens.begin();
  const Generation stopped =
      generate(*model, prompt, {.max_tokens = 100, .sampling = {.temperature = 0}, .stop_tokens = {stop}});
  EXPECT_EQ(stopped.reason, StopReason::stop_token);
  EXPECT_EQ(static_cast<std::ptrdiff_t>(stopped.tokens.size()), first);
  int seen = 0;
  const Generation cancelled =
      generate(*model, prompt, {.max_tokens = 100}, [&](std::int32_t) { return ++seen < 3; });
  EXPECT_EQ(cancelled.reason, StopReason::cancelled);
  EXPECT_EQ(cancelled.tokens.size(), 3U);
}

TEST(Generate, RefusesPromptsThatCannotBe) {
  const auto model = golden("gpt2");
  const std::vector<std::int32_t> empty, outside{5, 61}, negative{-1}, too_long(33, 1);
  EXPECT_THROW(generate(*model, empty, {}), DimensionMismatch);
  EXPECT_THROW(generate(*model, outside, {}), DimensionMismatch);
  EXPECT_THROW(generate(*model, negative, {}), DimensionMismatch);
  EXPECT_THROW(generate(*model, too_long, {}), DimensionMismatch);
  EXPECT_THROW(generate(*model, outside, {.max_tokens = 0}), InvalidConfig);
}

}  // namespace
}  // namespace ingot
