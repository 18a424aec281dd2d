#include "ingot/models/keras_hub.h"

#include "tests/models/goldens.h"
#include "tests/support/op_case.h"
#include "tests/support/source_dir.h"
#include "tests/support/temporary_directory.h"
#include <gtest/gtest.h>

#include "ingot/autograd/grad_mode.h"
#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/models/config_file.h"
#include "ingot/models/encoder/bert.h"
#include "ingot/models/language/model_directory.h"
#include "ingot/models/registry.h"
#include "ingot/weights/open.h"

namespace ingot {
namespace {

using test::expected;
using test::golden_path;

using test::message_of;
using testing::max_error;

TEST(KerasHub, ABertPresetGivesItsHiddenStatesAndItsPooledOutput) {
  const NoGrad no_grad;
  const std::string path = golden_path("keras_hub_bert");
  const auto model = load_bert(path);
  const Tensor tokens = expected("keras_hub_bert", "tokens");
  std::vector<std::int64_t> second(22);
  for (std::size_t i = 0; i < second.size(); ++i) second[i] = i % 11 >= 6 ? 1 : 0;
  const Tensor hidden = model->hidden({.tokens = tokens, .token_types = Tensor::from(second, {2, 11})});
  EXPECT_LE(max_error(hidden, expected("keras_hub_bert", "hidden")), 2e-5);
  EXPECT_LE(max_error(model->pooled(hidden), expected("keras_hub_bert", "pooled")), 2e-5);
  EXPECT_TRUE(check_model(path, open_weights(path))->fits());
  EXPECT_EQ(describe_model(path), "bert, 2 layers, width 12, 3 heads, vocabulary 53, context 16");
}

TEST(KerasHub, AGpt2PresetGivesItsLogits) {
  const NoGrad no_grad;
  const std::string path = golden_path("keras_hub_gpt2");
  const auto model = load_language_model(path);
  const Tensor logits = model->logits(model->hidden({.tokens = expected("keras_hub_gpt2", "tokens")}));
  EXPECT_LE(max_error(logits, expected("keras_hub_gpt2", "logits")), 2e-5);
  EXPECT_TRUE(check_model(path, open_weights(path))->fits());
}

TEST(KerasHub, OtherPresetsAndDamagedOnesAreNamed) {
  EXPECT_FALSE(keras_hub_config(R"({"model_type": "bert"})", "config.json").has_value());
  const std::string opt =
      R"({"module": "keras_hub.src.models.opt.opt_backbone", "class_name": "OPTBackbone", "config": {}})";
  const std::string said = message_of<NotImplemented>([&] { keras_hub_config(opt, "config.json"); });
  EXPECT_NE(said.find("OPTBackbone"), std::string::npos) << said;
  const std::string empty = R"({"module": "keras_nlp.models", "class_name": "GPT2Backbone", "config": {}})";
  const std::string missing = message_of<FormatError>([&] { keras_hub_config(empty, "config.json"); });
  EXPECT_NE(missing.find("config.vocabulary_size"), std::string::npos) << missing;
}

// A file that lacks a layer, or has one too many, is refused by name like any checkpoint.
TEST(KerasHub, WeightsOfAnotherSizeAreListed) {
  const test::TemporaryDirectory directory;
  const std::string config = read_file(golden_path("keras_hub_gpt2/config.json"));
  std::string deeper = config;
  deeper.replace(deeper.find("\"num_layers\": 2"), 15, "\"num_layers\": 3");
  write_file_atomically(directory.at("config.json"), deeper);
  write_file_atomically(directory.at("model.weights.h5"),
                        read_file(golden_path("keras_hub_gpt2/model.weights.h5")));
  const std::string said = message_of<Error>([&] { load_language_model(directory.path()); });
  EXPECT_NE(said.find("transformer.h.2.attn.c_attn.weight"), std::string::npos) << said;
}

}  // namespace
}  // namespace ingot
