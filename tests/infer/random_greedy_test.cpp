// tools/goldens/random_models.py: the text that transformers' generate() writes with its cache, and that of
// several prompts together. INGOT_RANDOM_MODELS names a directory of others than the project's.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tests/support/source_dir.h"
#include <gtest/gtest.h>

#include "ingot/autograd/grad_mode.h"
#include "ingot/base/error.h"
#include "ingot/core/tensor.h"
#include "ingot/infer/engine.h"
#include "ingot/models/language/model_directory.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/view.h"
#include "ingot/weights/open.h"

namespace ingot::infer {
namespace {

constexpr std::ptrdiff_t kPrompt = 7;

const char* other_models() { return std::getenv("INGOT_RANDOM_MODELS"); }

std::string random_models() {
  const char* other = other_models();
  return other != nullptr ? other : test::source_dir() + "/tests/models/goldens/random";
}

std::vector<std::int32_t> ids_of(const Tensor& tensor) {
  const std::vector<std::int64_t> wide = tensor.to_vector<std::int64_t>();
  return {wide.begin(), wide.end()};
}

class RandomModelText : public ::testing::TestWithParam<std::string> {};

TEST_P(RandomModelText, Of64GreedyTokensWithACacheEqualsTransformers) {
  const std::string directory = random_models() + "/" + GetParam();
  const auto model = load_language_model(directory);
  const auto expected = open_weights(directory + "/expected.safetensors");
  std::vector<std::int32_t> prompt = ids_of(expected->load_tensor("tokens"));
  prompt.resize(kPrompt);
  const std::vector<std::int32_t> text = ids_of(expected->load_tensor("greedy"));
  ASSERT_EQ(text.size(), 64U);
  for (const std::int64_t chunk : {512, 3}) {
    const Generation found = generate(
        *model, {.prompt = prompt, .max_tokens = 64, .sampling = {.temperature = 0}}, {.chunk = chunk});
    EXPECT_EQ(found.tokens, text) << "prompt in chunks of " << chunk;
  }
}

using Ids = std::vector<std::int32_t>;

Request greedy(const Ids& prompt) {
  return {.prompt = prompt, .max_tokens = 24, .sampling = {.temperature = 0}};
}

// Of a text as the model reads it alone.
std::vector<float> logits_behind(const LanguageModel& model, const Ids& text) {
  const NoGrad no_grad;
  const std::int64_t length = std::ssize(text);
  const Tensor hidden = model.hidden({.tokens = Tensor::from(text, {1, length})});
  return contiguous(narrow(model.logits(hidden), 1, length - 1, 1)).to_vector<float>();
}

// Batches round otherwise: where two texts part, the model has to rate both tokens alike.
void expect_same_text(const LanguageModel& model, const Ids& prompt, const Ids& actual, const Ids& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  const auto [other, wanted] = std::ranges::mismatch(actual, expected);
  if (other == actual.end()) return;
  Ids before = prompt;
  before.insert(before.end(), actual.begin(), other);
  const std::vector<float> logits = logits_behind(model, before);
  float largest = 1;
  for (const float logit : logits) largest = std::max(largest, std::abs(logit));
  EXPECT_NEAR(logits[static_cast<std::size_t>(*other)], logits[static_cast<std::size_t>(*wanted)],
              4e-5F * largest)
      << "token " << other - actual.begin() << " behind a prompt of " << prompt.size();
}

// One comes while the others write, and prompts are longer and shorter than the chunks that they are read in.
TEST_P(RandomModelText, OfABatchOfUnequalPromptsIsThatOfEachAlone) {
  const std::string directory = random_models() + "/" + GetParam();
  std::unique_ptr<LanguageModel> model;
  try {
    model = load_language_model(directory);
  } catch (const NotImplemented& refused) {
    if (other_models() == nullptr) throw;
    GTEST_SKIP() << refused.what();  // drawn from all that transformers allows
  }
  const Ids tokens = ids_of(open_weights(directory + "/expected.safetensors")->load_tensor("tokens"));
  std::vector<Ids> prompts;
  for (const auto& [first, count] : {std::pair{0, 7}, {3, 1}, {5, 18}, {2, 4}, {0, 11}})
    prompts.emplace_back(tokens.begin() + first, tokens.begin() + first + count);
  Engine engine(*model, {.context = 64, .chunk = 5, .max_running = std::ssize(prompts)});
  std::vector<std::shared_ptr<Sequence>> together;
  for (std::size_t i = 0; i + 1 < prompts.size(); ++i) together.push_back(engine.start(greedy(prompts[i])));
  for (int step = 0; step < 9; ++step) engine.step();
  together.push_back(engine.start(greedy(prompts.back())));
  engine.run();
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    const Ids alone = generate(*model, greedy(prompts[i]), {.context = 64}).tokens;
    expect_same_text(*model, prompts[i], together[i]->result().tokens, alone);
  }
}

std::vector<std::string> names() {
  std::vector<std::string> found;
  for (const auto& entry : std::filesystem::directory_iterator(random_models()))
    found.push_back(entry.path().filename().string());
  std::ranges::sort(found);
  return found;
}

INSTANTIATE_TEST_SUITE_P(Families, RandomModelText, ::testing::ValuesIn(names()),
                         [](const auto& param) { return param.param; });

}  // namespace
}  // namespace ingot::infer
