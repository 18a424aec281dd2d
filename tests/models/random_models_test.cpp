// tools/goldens/random_models.py: one configuration of each family, drawn from all that its options allow.
#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/models/goldens.h"
#include "tests/support/op_case.h"
#include <gtest/gtest.h>

#include "ingot/autograd/grad_mode.h"
#include "ingot/models/language/decoder.h"
#include "ingot/models/language/model_directory.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/view.h"
#include "ingot/weights/open.h"

namespace ingot {
namespace {

class RandomModel : public ::testing::TestWithParam<std::string> {};

TEST_P(RandomModel, LogitsEqualTransformersWholeAndInPiecesWithACache) {
  const NoGrad no_grad;
  const std::string directory = test::golden_path("random/" + GetParam());
  const auto model = load_language_model(directory);
  const auto expected = open_weights(directory + "/expected.safetensors");
  const Tensor tokens = expected->load_tensor("tokens"), logits = expected->load_tensor("logits");
  const double bound = 2e-5 * std::max(1.0, testing::max_error(logits, logits * 0.0));
  EXPECT_LE(testing::max_error(select(model->logits(model->hidden({.tokens = tokens})), 0, 0), logits),
            bound);

  KvCache cache(model->config, 4, DType::f32);  // grows
  std::int64_t at = 0;
  for (const std::int64_t count : {7, 1, 1, 5, 1}) {
    cache.reserve(at + count);
    const CacheSegment segment{.cache = &cache, .tokens = count, .sequence_length = tokens.dim(1)};
    const Tensor hidden = model->hidden(narrow(tokens, 1, at, count), std::span(&segment, 1));
    EXPECT_LE(testing::max_error(select(model->logits(hidden), 0, 0), narrow(logits, 0, at, count)), bound)
        << count << " tokens behind " << at;
    at += count;
  }
}

std::vector<std::string> names() {
  std::vector<std::string> found;
  for (const auto& entry : std::filesystem::directory_iterator(test::golden_path("random")))
    found.push_back(entry.path().filename().string());
  std::ranges::sort(found);
  return found;
}

INSTANTIATE_TEST_SUITE_P(Families, RandomModel, ::testing::ValuesIn(names()),
                         [](const auto& param) { return param.param; });

}  // namespace
}  // namespace ingot
