// Models whose layers keep a state instead of keys and values.
#include "ingot/models/language/recurrent_state.h"

#include <algorithm>
#include <vector>

#include "tests/infer/goldens.h"
#include "tests/support/op_case.h"
#include "tests/support/temporary_directory.h"
#include <gtest/gtest.h>

#include "ingot/autograd/grad_mode.h"
#include "ingot/base/error.h"
#include "ingot/infer/engine.h"
#include "ingot/models/language/decoder.h"
#include "ingot/nn/param_source.h"
#include "ingot/ops/view.h"

namespace ingot::infer {
namespace {

using test::golden_model;

std::vector<std::int32_t> prompt_of(std::int64_t length) {
  std::vector<std::int32_t> ids;
  for (std::int64_t i = 0; i < length; ++i) ids.push_back(static_cast<std::int32_t>((3 + 7 * i * i) % 50));
  return ids;
}

Request greedy(std::vector<std::int32_t> prompt, std::int64_t tokens) {
  return {.prompt = std::move(prompt), .max_tokens = tokens, .sampling = {.temperature = 0}};
}

// Whatever came and was taken back, a convolution sees the steps before the next token; once a token lies
// farther back than that, only nothing at all can be gone back to.
TEST(RecurrentState, GivesTheStepsBeforeEachTokenThatCanBeGoneBackTo) {
  const auto model = golden_model("lfm2");
  const std::int64_t width = model->config.hidden_size, seen = model->config.conv_L_cache - 1;
  RecurrentState state(model->config, kCpu);
  const Tensor steps = testing::randn({200, width}, 1);
  std::int64_t length = 0;
  const auto check = [&] {
    const Tensor before = concat(std::vector<Tensor>{Tensor::zeros({seen, width}), steps});
    EXPECT_EQ(testing::max_error(select(state.past(0, length), 0, 0), narrow(before, 0, length, seen)), 0)
        << length << " tokens";
  };
  check();
  for (const std::int64_t count : {5, 1, 8, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 60, 1, 8, 20, 1}) {
    state.append(0, length, narrow(steps, 0, length, count));
    state.advance(length, count);
    length += count;
    check();
    if (count != RecurrentState::kRollback) continue;  // all but one of a step's tokens are taken back
    EXPECT_TRUE(state.reaches(length - count));
    length -= count - 1;
    check();
  }
  EXPECT_FALSE(state.reaches(length - 40));
  state.reset();
  length = 0;
  check();
}

TEST(RecurrentState, IsNotKnownWhereAPassEndedBetweenTwoLayers) {
  for (const char* name : {"lfm2", "mamba2", "qwen3_5"}) {
    const auto model = golden_model(name);
    RecurrentState state(model->config, kCpu);
    EXPECT_TRUE(state.reaches(0));
    state.append(0, 0, Tensor::zeros({3, model->config.conv_channels()}));
    EXPECT_FALSE(state.reaches(0)) << name;
    state.advance(0, 3);
    EXPECT_TRUE(state.reaches(3)) << name;
    if (!model->config.keeps_matrices()) continue;
    static_cast<void>(state.scan(0));
    EXPECT_FALSE(state.reaches(3)) << name;
    state.reset();
    EXPECT_TRUE(state.reaches(0)) << name;
  }
}

class RecurrentModel : public ::testing::TestWithParam<const char*> {
 protected:
  std::unique_ptr<LanguageModel> model_ = golden_model(GetParam());
  const LanguageModel* model = model_.get();
};

TEST_P(RecurrentModel, AChatGoesOnFromItsStateAndAnotherBeginningIsReadAgain) {
  Engine engine(*model, {.prefix_cache = true});
  const auto chat = engine.start(greedy(prompt_of(40), 9));
  engine.run();
  std::vector<std::int32_t> next(chat->tokens().begin(), chat->tokens().end());
  next.insert(next.end(), {9, 10, 11});
  const auto cached = [&](const std::vector<std::int32_t>& prompt) {
    const auto answer = engine.start(greedy(prompt, 5));
    engine.run();
    EXPECT_EQ(answer->result().tokens, generate(*model, greedy(prompt, 5)).tokens);
    return answer->result().cached_tokens;
  };
  EXPECT_EQ(cached(next), 48);  // all but the last token that was drawn
  std::vector<std::int32_t> other(next.begin(), next.begin() + 10);
  other.push_back(40);
  EXPECT_EQ(cached(other), 0);
}

TEST_P(RecurrentModel, AChatThatEndsWithAStopTokenGoesOnFromItsState) {
  const std::vector<std::int32_t> free = generate(*model, greedy(prompt_of(40), 20)).tokens;
  // One that did not come before.
  std::size_t stop = 1;
  while (stop + 1 < free.size() && std::find(free.begin(), free.begin() + static_cast<std::ptrdiff_t>(stop),
                                             free[stop]) != free.begin() + static_cast<std::ptrdiff_t>(stop))
    ++stop;
  Engine engine(*model, {.prefix_cache = true});
  Request request = greedy(prompt_of(40), 20);
  request.stop_tokens = {free[stop]};
  const auto chat = engine.start(std::move(request));
  engine.run();
  ASSERT_EQ(chat->result().reason, StopReason::stop_token);
  std::vector<std::int32_t> next(chat->tokens().begin(), chat->tokens().end());
  const auto read = std::ssize(next);
  next.insert(next.end(), {free[stop], 9, 10});
  const Generation answer = engine.generate(greedy(next, 5));
  EXPECT_EQ(answer.cached_tokens, read);
  EXPECT_EQ(answer.tokens, generate(*model, greedy(next, 5)).tokens);
}

TEST_P(RecurrentModel, RequestsThatGiveWayAreReadAgainAndNoTokenChanges) {
  const std::int64_t state = KvPool::state_tokens(model->config, DType::f32);
  EXPECT_GT(state, 0);
  // Two of the requests at a time.
  const std::size_t kv_memory = KvCache(model->config, 300 + 2 * state, DType::f32).nbytes();
  for (const bool prefix_cache : {false, true}) {
    Engine engine(*model,
                  {.kv_cache = DType::f32, .chunk = 8, .kv_memory = kv_memory, .prefix_cache = prefix_cache});
    std::vector<std::shared_ptr<Sequence>> all;
    for (std::int64_t i = 0; i < 6; ++i) all.push_back(engine.start(greedy(prompt_of(12 + i), 40)));
    engine.step();
    engine.cancel(*all.back());
    engine.run();
    for (std::int64_t i = 0; i < 5; ++i)
      EXPECT_EQ(all[static_cast<std::size_t>(i)]->result().tokens,
                generate(*model, greedy(prompt_of(12 + i), 40)).tokens);
  }
}

TEST_P(RecurrentModel, PromptLogprobsReadWhatIsCachedAgain) {
  Request request = greedy(prompt_of(30), 3);
  request.prompt_logprobs = 0;
  Engine engine(*model, {.prefix_cache = true});
  const Generation first = engine.generate(request), again = engine.generate(request);
  ASSERT_EQ(first.prompt_logprobs.size(), 29U);
  for (std::size_t i = 0; i < first.prompt_logprobs.size(); ++i)
    EXPECT_EQ(first.prompt_logprobs[i].drawn.logprob, again.prompt_logprobs[i].drawn.logprob);
}

INSTANTIATE_TEST_SUITE_P(Families, RecurrentModel,
                         ::testing::Values("lfm2", "granitehybrid", "qwen3_5", "falcon_h1"),
                         [](const auto& param_info) { return param_info.param; });

TEST(RecurrentState, OfAScanNothingIsDraftedAndTheTextIsTheSame) {
  const auto model = golden_model("bamba");
  std::vector<std::int32_t> repetitive;
  for (std::int32_t i = 0; i < 20; ++i) repetitive.push_back(3 + i % 5);
  Request request = greedy(repetitive, 12);
  const std::vector<std::int32_t> expected = generate(*model, request).tokens;
  request.speculate = 5;
  const Generation found = generate(*model, request);
  EXPECT_EQ(found.tokens, expected);
  EXPECT_EQ(found.drafted, 0);
  const auto other = golden_model("qwen3");
  EXPECT_THROW(Engine(*other, {.draft_model = model.get()}), InvalidConfig);
}

TEST(RecurrentState, APromptStoreIsRefusedByName) {
  const auto model = golden_model("lfm2");
  const test::TemporaryDirectory directory;
  try {
    Engine engine(*model, {.prefix_cache = true, .prompt_store = {.directory = directory.at("prompts")}});
    FAIL();
  } catch (const InvalidConfig& error) {
    EXPECT_EQ(error.key, "prompt_cache");
    EXPECT_NE(std::string(error.what()).find("lfm2"), std::string::npos);
  }
}

// Nemotron H has such layers, which mix no tokens.
TEST(LayersOfExpertsAlone, MayComeFirst) {
  LanguageConfig c = golden_model("nemotron_h_moe")->config;
  const auto first = std::ranges::find(c.layer_types, LayerKind::moe);
  std::rotate(c.layer_types.begin(), first, c.layer_types.end());
  ASSERT_EQ(c.layer_types.front(), LayerKind::moe);
  InitSource source(1, DType::f32);
  const LanguageModel model(c, source);
  std::vector<std::int32_t> text = prompt_of(9);
  const NoGrad no_grad;
  for (const std::int32_t token : generate(model, greedy(text, 4)).tokens) {
    const std::int64_t length = std::ssize(text);
    const Tensor logits = model.logits(model.hidden({.tokens = Tensor::from(text, {1, length})}));
    const auto last = select(select(logits, 0, 0), 0, length - 1).to_vector<float>();
    EXPECT_EQ(token, std::ranges::max_element(last) - last.begin());
    text.push_back(token);
  }
}

}  // namespace
}  // namespace ingot::infer
