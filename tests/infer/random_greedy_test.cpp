// tools/goldens/random_models.py: the text that transformers' generate() writes with its cache.
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/support/source_dir.h"
#include <gtest/gtest.h>

#include "ingot/core/tensor.h"
#include "ingot/infer/engine.h"
#include "ingot/models/language/model_directory.h"
#include "ingot/weights/open.h"

namespace ingot::infer {
namespace {

constexpr std::ptrdiff_t kPrompt = 7;

std::string random_models() { return test::source_dir() + "/tests/models/goldens/random"; }

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
