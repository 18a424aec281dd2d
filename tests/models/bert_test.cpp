#include "ingot/models/encoder/bert.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <map>

#include "tests/models/goldens.h"
#include "tests/models/half_precision.h"
#include "tests/support/op_case.h"
#include "tests/support/source_dir.h"
#include <gtest/gtest.h>

#include "ingot/autograd/engine.h"
#include "ingot/autograd/grad_mode.h"
#include "ingot/base/error.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/loss.h"
#include "ingot/ops/reduce.h"
#include "ingot/ops/view.h"
#include "ingot/weights/open.h"
#include "ingot/weights/safetensors.h"

namespace ingot {
namespace {

using test::golden_path;

using testing::max_error;

// Where random configurations are: the committed sample, or many more (tools/goldens/encoder_models.py).
std::string random_encoders() {
  const char* more = std::getenv("INGOT_RANDOM_ENCODERS");
  return more != nullptr ? more : golden_path("random_encoders");
}

// "random/NAME" is one of those.
std::string encoder_path(const std::string& name) {
  constexpr std::string_view kRandom = "random/";
  return name.starts_with(kRandom) ? random_encoders() + "/" + name.substr(kRandom.size())
                                   : golden_path(name);
}

// What transformers computed (tools/goldens/encoder_models.py).
class GoldenBert : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    const auto source = open_safetensors(encoder_path(GetParam()) + "/expected.safetensors");
    for (const TensorInfo& info : source->tensors()) golden_[info.name] = source->load_tensor(info.name);
    input_ = {
        .tokens = golden_["tokens"], .token_types = golden_["token_types"], .lengths = golden_["lengths"]};
  }
  Tensor loss(const BertModel& model) const {
    const Tensor hidden = model.hidden(input_);
    if (model.config.labels.names.size() == 1) return mean(logits(model, hidden));
    if (has_logits(model.config)) return cross_entropy(logits(model, hidden), golden_.at("targets"));
    if (golden_.contains("pooled")) return mean(square(model.pooled(hidden)));
    const auto elements = static_cast<double>(hidden.numel());  // padding is zeros in the golden
    return (sum(square(valid(hidden, 0))) + sum(square(valid(hidden, 1)))) / elements;
  }
  static bool has_logits(const EncoderConfig& config) {
    return config.masked_lm_head || config.labels.of != LabelsOf::nothing;
  }
  // Of the vocabulary, or of labels.
  Tensor logits(const BertModel& model, const Tensor& hidden) const {
    if (model.config.masked_lm_head) return model.logits(hidden);
    return model.label_logits(model.config.labels.of == LabelsOf::texts ? model.text_states(hidden, input_)
                                                                        : hidden);
  }
  // The rows of a text, without its padding.
  Tensor valid(const Tensor& x, std::int64_t row) const {
    return narrow(select(x, 0, row), 0, 0, golden_.at("lengths").to_vector<std::int32_t>()[row]);
  }

  std::unique_ptr<BertModel> model_ = load_bert(encoder_path(GetParam()));
  std::map<std::string, Tensor> golden_;
  EncoderInput input_;
};

TEST_P(GoldenBert, HiddenStatesAndHeadsEqualTransformers) {
  const NoGrad no_grad;
  const Tensor hidden = model_->hidden(input_);
  for (const std::int64_t row : {0, 1}) {
    EXPECT_LE(max_error(valid(hidden, row), valid(golden_["hidden"], row)), 1e-5);
    if (!has_logits(model_->config)) continue;
    const Tensor mine = logits(*model_, hidden), theirs = golden_["logits"];
    if (mine.rank() == 2) {
      EXPECT_LE(max_error(select(mine, 0, row), select(theirs, 0, row)), 2e-5);
    } else {
      EXPECT_LE(max_error(valid(mine, row), valid(theirs, row)), 2e-5);
    }
  }
  if (golden_.contains("pooled")) {
    EXPECT_LE(max_error(model_->pooled(hidden), golden_["pooled"]), 1e-5);
  }
}

TEST_P(GoldenBert, LossAndEveryGradientEqualTransformers) {
  const Tensor value = loss(*model_);
  EXPECT_NEAR(value.item(), golden_["loss"].item(), 1e-5);
  backward(value);
  const WeightMap map = BertModel::weight_map(model_->config);
  std::map<std::string, Tensor> gradients, expected;
  for (const auto& [name, parameter] : named_parameters(*model_))
    if (parameter->grad().defined()) gradients[name] = parameter->grad();  // else it takes no part
  for (const auto& [name, tensor] : golden_)
    if (name.starts_with("grad.")) expected[map.canonical(name.substr(5))] = tensor;
  std::size_t compared = 0;
  for (const auto& [name, gradient] : export_tensors(map, gradients)) {
    const auto theirs = expected.find(name);
    ASSERT_NE(theirs, expected.end()) << name;
    EXPECT_LE(max_error(gradient, theirs->second), 1e-4) << name;
    ++compared;
  }
  EXPECT_EQ(compared, expected.size());
}

TEST_P(GoldenBert, Bf16AndItsGradientsAreNearF32OnTheSameWeights) {
  const auto half = load_bert(encoder_path(GetParam()), {.dtype = DType::bf16});
  test::round_to_bf16(*model_);
  {
    const NoGrad no_grad;
    EXPECT_LE(test::relative_error(valid(half->hidden(input_), 1), valid(model_->hidden(input_), 1)),
              test::kBf16Outputs);
  }
  if (model_->config.hidden_act == Activation::relu) return;  // gradients jump where rounding flips a sign
  backward(loss(*half));
  backward(loss(*model_));
  EXPECT_LE(test::relative_error(test::gradients_of(*half), test::gradients_of(*model_)),
            test::kBf16Gradients);
}

TEST_P(GoldenBert, PackedTextsEqualPaddedOnes) {
  const NoGrad no_grad;
  const std::vector<std::int32_t> lengths = golden_["lengths"].to_vector<std::int32_t>();
  std::vector<Tensor> tokens, types, expected;
  std::vector<std::int64_t> positions;
  std::vector<std::int32_t> starts;
  const Tensor hidden = model_->hidden(input_);
  for (const std::int64_t row : {0, 1}) {
    tokens.push_back(valid(golden_["tokens"], row));
    types.push_back(valid(golden_["token_types"], row));
    expected.push_back(valid(hidden, row));
    const auto start = static_cast<std::int32_t>(positions.size());
    for (std::int64_t i = 0; i < lengths[row]; ++i) {
      positions.push_back(i);
      starts.push_back(start);
    }
  }
  const auto total = static_cast<std::int64_t>(positions.size());
  const Tensor packed = model_->hidden({.tokens = reshape(concat(tokens), {1, total}),
                                        .token_types = reshape(concat(types), {1, total}),
                                        .positions = Tensor::from(positions, {1, total}),
                                        .doc_start = Tensor::from(starts, {1, total})});
  EXPECT_LE(max_error(select(packed, 0, 0), concat(expected)), 1e-5);
}

TEST_P(GoldenBert, WhatIsWrittenOpensAgainWithTheSameTensors) {
  // tools/compare/transformers_reimport.py keeps what is written, and opens it with transformers.
  const char* kept = std::getenv("INGOT_KEEP_MODELS");
  const std::string directory =
      (kept != nullptr ? std::string(kept) + "/" : ::testing::TempDir() + "ingot-bert-") +
      std::filesystem::path(GetParam()).filename().string();
  write_bert(directory, *model_);
  const auto again = load_bert(directory);
  const auto parameters = named_parameters(*model_), restored = named_parameters(*again);
  ASSERT_EQ(parameters.size(), restored.size());
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    EXPECT_EQ(parameters[i].first, restored[i].first);
    EXPECT_EQ(max_error(parameters[i].second->value, restored[i].second->value), 0) << parameters[i].first;
  }
  const NoGrad no_grad;
  EXPECT_EQ(max_error(again->hidden(input_), model_->hidden(input_)), 0);
  if (kept == nullptr) std::filesystem::remove_all(directory);
}

INSTANTIATE_TEST_SUITE_P(Variants, GoldenBert,
                         ::testing::Values("bert_masked_lm", "bert_legacy", "roberta_masked_lm",
                                           "xlm_roberta", "camembert_masked_lm", "distilbert_masked_lm",
                                           "bert_classifier", "bert_names", "xlm_roberta_reranker",
                                           "distilbert_classifier", "electra_masked_lm", "electra_classifier",
                                           "albert_masked_lm", "albert_classifier", "mpnet_masked_lm",
                                           "mpnet", "mpnet_classifier", "modernbert_masked_lm",
                                           "modernbert_classifier", "nomic_bert_masked_lm",
                                           "nomic_bert_release", "deberta_v2_classifier",
                                           "deberta_v2_masked_lm"),
                         [](const auto& param_info) { return param_info.param; });

std::vector<std::string> random_names() {
  std::vector<std::string> found;
  for (const auto& entry : std::filesystem::directory_iterator(random_encoders()))
    found.push_back("random/" + entry.path().filename().string());
  std::ranges::sort(found);
  return found;
}

INSTANTIATE_TEST_SUITE_P(Random, GoldenBert, ::testing::ValuesIn(random_names()), [](const auto& param_info) {
  return std::filesystem::path(param_info.param).filename().string();
});

TEST(Bert, ReportsTheVariantOfACheckpoint) {
  const auto variants = [](const std::string& name) {
    const auto model = load_bert(golden_path(name));
    return BertModel::architecture_check(model->config, *open_weights(golden_path(name))).variants;
  };
  EXPECT_EQ(variants("bert_masked_lm"), (std::vector<std::string>{"masked-LM head"}));
  EXPECT_EQ(variants("bert_legacy"), (std::vector<std::string>{"legacy names gamma and beta", "pooler"}));
}

TEST(Bert, ReadsTheEncoderOfACheckpointWithAHead) {
  auto config = load_bert(golden_path("bert_masked_lm"))->config;
  config.masked_lm_head = false;
  EXPECT_NO_THROW(BertModel::from_weights(config, *open_weights(golden_path("bert_masked_lm"))));
}

TEST(Bert, AHeadThatIsNotThereAndASequenceTooLongAreErrors) {
  const auto model = load_bert(golden_path("bert_masked_lm"));
  const NoGrad no_grad;
  EXPECT_THROW(model->pooled(Tensor::zeros({1, 2, 24})), Error);
  EXPECT_THROW(model->hidden({.tokens = Tensor::zeros({1, 33}, DType::i64)}), DimensionMismatch);
  EXPECT_THROW(EncoderConfig::from_json(R"({"model_type": "robertina"})", "config.json"), InvalidConfig);
  EXPECT_THROW(EncoderConfig::from_json(R"({"model_type": "bert", "num_attention_heads": 5})", "config.json"),
               InvalidConfig);
}

// What an error says of a config.json with this key.
std::string refusal(const std::string& model_type, const std::string& key_and_value) {
  try {
    EncoderConfig::from_json(R"({"model_type": ")" + model_type + R"(", )" + key_and_value + "}",
                             "config.json");
  } catch (const Error& error) {
    return error.what();
  }
  return "none";
}

TEST(Bert, QuantizedLayersGiveNearlyTheSameHiddenStates) {
  const NoGrad no_grad;
  for (const std::string name : {"modernbert_masked_lm", "nomic_bert_masked_lm", "deberta_v2_masked_lm"}) {
    const EncoderInput input{.tokens = test::expected(name, "tokens")};
    const Tensor exact = load_bert(golden_path(name))->hidden(input);
    for (const std::string format : {"q8_0", "int8"}) {
      const auto model =
          load_bert(golden_path(name),
                    {.dtype = DType::f32, .trainable = false, .format = format, .keep_quantized = true});
      EXPECT_LE(test::relative_error(model->hidden(input), exact), 3e-2) << name << ", " << format;
    }
  }
}

TEST(Bert, FlagsThatAreNotComputedAreRefusedByName) {
  const std::string release = R"("n_embd": 24, "n_head": 3, "n_layer": 1, "n_inner": 8, )";
  for (const auto& [model_type, key, value] :
       std::vector<std::array<std::string, 3>>{{"modernbert", "classifier_pooling", R"("max")"},
                                               {"modernbert", "layer_types", R"(["linear_attention"])"},
                                               {"modernbert", "local_attention", "0"},
                                               {"modernbert", "tie_word_embeddings", "false"},
                                               {"nomic_bert", "prenorm", "true"},
                                               {"nomic_bert", "num_experts", "8"},
                                               {"nomic_bert", "rotary_emb_fraction", "0.5"},
                                               {"nomic_bert", "rotary_scaling_factor", "2"},
                                               {"nomic_bert", "activation_function", R"("relu")"},
                                               {"deberta-v2", "pos_att_type", R"("c2p|p2p")"},
                                               {"deberta-v2", "norm_rel_ebd", R"("batch_norm")"},
                                               {"deberta-v2", "conv_kernel_size", "4"},
                                               {"deberta-v2", "embedding_size", "128"}}) {
    const std::string more = model_type == "nomic_bert" ? release : "";
    EXPECT_NE(refusal(model_type, more + "\"" + key + "\": " + value).find(key), std::string::npos)
        << model_type << ": " << refusal(model_type, more + "\"" + key + "\": " + value);
  }
  EXPECT_EQ(refusal("nomic_bert", release + R"("num_experts": 0, "rotary_scaling_factor": null)"), "none");
}

TEST(DisentangledAttention, FarDistancesShareClasses) {
  EXPECT_EQ(log_bucket(3, 8, 16), 3);
  EXPECT_EQ(log_bucket(-4, 8, 16), -4);
  EXPECT_EQ(log_bucket(15, 8, 16), 7);  // the farthest
  EXPECT_EQ(log_bucket(-5, 8, 16), -5);
  EXPECT_EQ(log_bucket(40, 0, 16), 40);
}

}  // namespace
}  // namespace ingot
