// EmbeddingGemma: Gemma 3 whose tokens see what comes behind them (tools/goldens/encoder_models.py).
#include <map>
#include <string>
#include <vector>

#include "tests/models/goldens.h"
#include "tests/support/op_case.h"
#include "tests/support/temporary_directory.h"
#include <gtest/gtest.h>

#include "ingot/autograd/engine.h"
#include "ingot/autograd/grad_mode.h"
#include "ingot/base/error.h"
#include "ingot/models/language/classifier.h"
#include "ingot/models/language/gguf_export.h"
#include "ingot/models/language/model_directory.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/reduce.h"
#include "ingot/ops/view.h"
#include "ingot/weights/encode.h"
#include "ingot/weights/gguf_writer.h"
#include "ingot/weights/open.h"

namespace ingot {
namespace {

using testing::max_error;

// Two texts of different lengths, one behind the other.
struct PackedGolden {
  explicit PackedGolden(const WeightSource& expected) {
    const std::vector<std::int32_t> lengths = expected.load_tensor("lengths").to_vector<std::int32_t>();
    std::vector<Tensor> tokens, rows;
    std::vector<std::int64_t> positions;
    std::vector<std::int32_t> starts;
    for (const std::int64_t row : {0, 1}) {
      const std::int64_t count = lengths[row];
      tokens.push_back(narrow(select(expected.load_tensor("tokens"), 0, row), 0, 0, count));
      rows.push_back(narrow(select(expected.load_tensor("hidden"), 0, row), 0, 0, count));
      starts.insert(starts.end(), count, static_cast<std::int32_t>(positions.size()));
      for (std::int64_t i = 0; i < count; ++i) positions.push_back(i);
    }
    const auto total = static_cast<std::int64_t>(positions.size());
    input = {.tokens = reshape(concat(tokens), {1, total}),
             .positions = Tensor::from(positions, {1, total}),
             .doc_start = Tensor::from(starts, {1, total})};
    hidden = concat(rows);
  }

  DecoderInput input;
  Tensor hidden;
};

TEST(EmbeddingGemma, HiddenStatesAndEveryGradientEqualTransformers) {
  const std::string path = test::golden_path("embeddinggemma");
  const auto model = load_headless(open_checkpoint(path));
  const auto expected = open_weights(path + "/expected.safetensors");
  const PackedGolden golden(*expected);
  const Tensor hidden = model->hidden(golden.input);
  const double largest = max_error(golden.hidden, golden.hidden * 0.0);  // about 7
  EXPECT_LE(max_error(select(hidden, 0, 0), golden.hidden), 1e-5 * largest);

  const Tensor all = expected->load_tensor("hidden");
  const Tensor loss = sum(square(hidden)) / static_cast<double>(all.numel());  // padding is zeros there
  EXPECT_NEAR(loss.item(), expected->load_tensor("loss").item(), 1e-5);
  backward(loss);
  std::size_t compared = 0;
  for (const auto& [name, parameter] : named_parameters(*model)) {
    const std::string theirs = "grad." + name.substr(std::string_view("model.").size());
    EXPECT_LE(max_error(parameter->grad(), expected->load_tensor(theirs)), 1e-4) << name;
    ++compared;
  }
  std::size_t gradients = 0;
  for (const TensorInfo& info : expected->tensors()) gradients += info.name.starts_with("grad.") ? 1 : 0;
  EXPECT_EQ(compared, gradients);
}

TEST(EmbeddingGemma, IsNoLanguageModel) {
  const std::string path = test::golden_path("embeddinggemma");
  EXPECT_THROW(load_language_model(path), InvalidConfig);
  EXPECT_THROW(LanguageConfig::from_json(R"({"model_type": "gemma2", "use_bidirectional_attention": true})",
                                         "config.json"),
               NotImplemented);
}

TEST(EmbeddingGemma, WritesTheWindowOfBothSides) {
  const std::string path = test::golden_path("embeddinggemma");
  const ModelCheckpoint checkpoint = open_checkpoint(path);
  const LanguageConfig config = LanguageConfig::from_json(checkpoint.config_json, checkpoint.config_path);
  EXPECT_EQ(config.sliding_window, 4);  // 3 on each side, and itself
  const LanguageConfig again = LanguageConfig::from_json(config.to_json(), "config.json");
  EXPECT_TRUE(again.use_bidirectional_attention);
  EXPECT_EQ(again.sliding_window, 4);
}

TEST(EmbeddingGemma, AGgufFileIsLlamaCppsEmbeddingModelAndGivesTheSameStates) {
  const NoGrad no_grad;
  const test::TemporaryDirectory directory;
  const std::string path = test::golden_path("embeddinggemma"), file = directory.at("model.gguf");
  const GgufExport out = export_gguf(open_checkpoint(path));
  EXPECT_EQ(out.metadata.text("general.architecture"), "gemma-embedding");
  EXPECT_EQ(out.metadata.integer("gemma-embedding.attention.sliding_window"), 6);  // as llama.cpp halves it
  std::vector<GgufTensor> tensors = gguf_tensors(*out.weights);
  tensors.insert(tensors.end(), out.extra.begin(), out.extra.end());
  write_gguf(file, out.metadata, tensors);
  const auto directory_model = load_headless(open_checkpoint(path)),
             gguf = load_headless(open_checkpoint(file));
  const auto expected = open_weights(path + "/expected.safetensors");
  const PackedGolden golden(*expected);
  EXPECT_TRUE(gguf->config.use_bidirectional_attention);
  EXPECT_EQ(gguf->hidden(golden.input).to_vector<float>(),
            directory_model->hidden(golden.input).to_vector<float>());
}

}  // namespace
}  // namespace ingot
