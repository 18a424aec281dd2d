#include "ingot/models/tensorflow_names.h"

#include "tests/models/goldens.h"
#include "tests/support/op_case.h"
#include "tests/support/source_dir.h"
#include <gtest/gtest.h>

#include "ingot/autograd/grad_mode.h"
#include "ingot/models/encoder/bert.h"
#include "ingot/models/language/model_directory.h"
#include "ingot/models/registry.h"
#include "ingot/weights/open.h"

namespace ingot {
namespace {

using test::expected;
using test::golden_path;

using testing::max_error;

std::string torch_name(const std::string& name) {
  const auto torch = torch_name_of(name);
  if (!torch) return "none";
  return torch->name + (torch->transposed ? " transposed" : "") + (torch->squeezed ? " squeezed" : "");
}

TEST(TensorFlowNames, BecomePyTorchs) {
  EXPECT_EQ(torch_name("bert/tf_bert_model/bert/encoder/layer_._11/output/dense/kernel:0"),
            "bert.encoder.layer.11.output.dense.weight transposed");
  EXPECT_EQ(
      torch_name("mlm___cls/tf_bert_for_pre_training/mlm___cls/predictions/transform/LayerNorm/gamma:0"),
      "cls.predictions.transform.LayerNorm.weight");
  EXPECT_EQ(torch_name("transformer/tfgpt2lm_head_model/transformer/h_._0/attn/c_attn/bias:0"),
            "transformer.h.0.attn.c_attn.bias squeezed");
  EXPECT_EQ(torch_name("bert/embeddings/word_embeddings"), "bert.embeddings.word_embeddings.weight");
  EXPECT_EQ(torch_name("bert/encoder/layer_3/attention/self/query/kernel"),
            "bert.encoder.layer.3.attention.self.query.weight transposed");
  EXPECT_EQ(torch_name("cls/predictions/output_bias"), "cls.predictions.bias");
  EXPECT_EQ(torch_name("model/h10/mlp/c_fc/w"), "transformer.h.10.mlp.c_fc.weight squeezed");
  EXPECT_EQ(torch_name("model/wte"), "transformer.wte.weight");
  for (const char* other : {"", "/", "model", "model_weights/dense/dense/kernel", "global_step", ":0",
                            "a/b:0", "layers/dense/vars/0", "w"})
    EXPECT_EQ(torch_name(other), "none") << other;
}

class TensorFlowBert : public ::testing::TestWithParam<const char*> {};

TEST_P(TensorFlowBert, RunsWithTheLogitsOfTensorFlow) {
  const NoGrad no_grad;
  const auto model = load_bert(golden_path(GetParam()));
  const Tensor logits = model->logits(model->hidden({.tokens = expected("tf_bert", "tokens")}));
  EXPECT_LE(max_error(logits, expected("tf_bert", "logits")), 2e-5);
  EXPECT_TRUE(check_model(golden_path(GetParam()), open_weights(golden_path(GetParam())))->fits());
}

INSTANTIATE_TEST_SUITE_P(Files, TensorFlowBert, ::testing::Values("tf_bert", "tf_google_bert"),
                         [](const auto& info) { return std::string(info.param); });

class TensorFlowGpt2 : public ::testing::TestWithParam<const char*> {};

TEST_P(TensorFlowGpt2, RunsWithTheLogitsOfTensorFlow) {
  const NoGrad no_grad;
  const auto model = load_language_model(golden_path(GetParam()));
  const Tensor logits = model->logits(model->hidden({.tokens = expected("tf_gpt2", "tokens")}));
  EXPECT_LE(max_error(logits, expected("tf_gpt2", "logits")), 2e-5);
}

INSTANTIATE_TEST_SUITE_P(Files, TensorFlowGpt2, ::testing::Values("tf_gpt2", "tf_openai_gpt2"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace ingot
