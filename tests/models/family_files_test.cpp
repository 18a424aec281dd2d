// What single families keep in other places than most: numbers among a GGUF file's metadata, text parts that
// name no model_type, stacks of experts one behind the other.
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "tests/models/goldens.h"
#include "tests/support/op_case.h"
#include "tests/support/temporary_directory.h"
#include <gtest/gtest.h>

#include "ingot/autograd/grad_mode.h"
#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/models/language/checkpoint.h"
#include "ingot/models/language/config.h"
#include "ingot/models/language/config_difference.h"
#include "ingot/models/language/decoder.h"
#include "ingot/models/language/gguf_export.h"
#include "ingot/models/language/model_directory.h"
#include "ingot/nn/param_source.h"
#include "ingot/nn/visit.h"
#include "ingot/ops/view.h"
#include "ingot/quant/packed_matrix.h"
#include "ingot/weights/encode.h"
#include "ingot/weights/gguf_writer.h"

namespace ingot {
namespace {

using test::golden_path;
using test::TemporaryDirectory;

void write(const GgufExport& model, const std::string& path, const WeightEncoding& encoding = {}) {
  const auto weights = encode_weights(model.weights, encoding, true);
  std::vector<GgufTensor> tensors = model.extra;
  for (GgufTensor& tensor : gguf_tensors(*weights)) tensors.push_back(std::move(tensor));
  write_gguf(path, model.metadata, tensors);
}

LanguageConfig config_of(const std::string& path) {
  const ModelCheckpoint checkpoint = open_checkpoint(path);
  return LanguageConfig::from_json(checkpoint.config_json, path);
}

TEST(FamilyFiles, ADeepseekModelWithoutExpertsHasDenseLayersAlone) {
  LanguageConfig c;
  c.model_type = "deepseek_v2";
  apply_family(c);
  c.vocab_size = 32;
  c.hidden_size = c.intermediate_size = 64;
  c.num_hidden_layers = 2;
  c.num_attention_heads = c.num_key_value_heads = 2;
  InitSource init(5);
  LanguageModel model(c, init);
  const TemporaryDirectory folder;
  write_language_model(folder.path(), model.config, parameter_map(model));
  EXPECT_NE(read_file(folder.at("config.json")).find("\"first_k_dense_replace\": 2"), std::string::npos);
  const LanguageConfig read = config_of(folder.path());
  EXPECT_EQ(read.num_experts, 0);
  EXPECT_EQ(read.shared_expert_intermediate_size, 0);
  EXPECT_EQ(parameter_map(*load_language_model(folder.path(), {})).size(), parameter_map(model).size());
}

TEST(FamilyFiles, XieluHasItsNumbersAmongTheMetadata) {
  const auto given = open_checkpoint(golden_path("apertus")).weights;
  const GgufExport model = export_gguf(open_checkpoint(golden_path("apertus")));
  for (const char* name : {"alpha_p", "alpha_n", "beta", "eps"}) {
    const auto numbers = model.metadata.numbers(std::string("xielu.") + name);
    ASSERT_TRUE(numbers.has_value()) << name;
    ASSERT_EQ(numbers->size(), 2U) << name;
    for (std::size_t layer = 0; layer < numbers->size(); ++layer) {
      const std::string tensor = "model.layers." + std::to_string(layer) + ".mlp.act_fn." + name;
      EXPECT_EQ(static_cast<float>((*numbers)[layer]), given->load_tensor(tensor).to_vector<float>().front())
          << tensor;
    }
  }
}

TEST(FamilyFiles, OneNumberOfXieluIsThatOfAllLayers) {
  TemporaryDirectory directory;
  GgufExport model = export_gguf(open_checkpoint(golden_path("apertus")));
  model.metadata.set("xielu.alpha_p", GgufValue::of_f32(0.25F));
  write(model, directory.at("one.gguf"));
  const auto weights = open_checkpoint(directory.at("one.gguf")).weights;
  for (const char* layer : {"0", "1"})
    EXPECT_EQ(
        weights->load_tensor(std::string("model.layers.") + layer + ".mlp.act_fn.alpha_p").to_vector<float>(),
        std::vector<float>{0.25F});
}

TEST(FamilyFiles, XieluWithoutNumbersOfEveryLayerIsRefused) {
  TemporaryDirectory directory;
  GgufExport model = export_gguf(open_checkpoint(golden_path("apertus")));
  model.metadata.set("xielu.beta", GgufValue::of_f32s({0.5F}));
  write(model, directory.at("short.gguf"));
  EXPECT_THROW(open_checkpoint(directory.at("short.gguf")), FormatError);
  model.metadata.erase("xielu.beta");
  write(model, directory.at("none.gguf"));
  EXPECT_THROW(open_checkpoint(directory.at("none.gguf")), FormatError);
}

TEST(FamilyFiles, ATextPartThatNamesNoModelTypeIsMistralInMistral3) {
  const char* json = R"({"model_type": "mistral3", "text_config": {"hidden_size": 32, "vocab_size": 50,
                         "intermediate_size": 40, "num_hidden_layers": 1, "num_attention_heads": 4,
                         "num_key_value_heads": 2}})";
  EXPECT_EQ(LanguageConfig::from_json(json, "config.json").model_type, "mistral");
}

// llama.cpp's converter writes mscale_all_dim where our files have what follows from it.
TEST(FamilyFiles, Ministral3AsLlamaCppsConverterWritesItIsTheSameModel) {
  TemporaryDirectory directory;
  GgufExport model = export_gguf(open_checkpoint(golden_path("ministral3")));
  EXPECT_NEAR(model.metadata.number("mistral3.attention.temperature_scale").value_or(0), 0.3, 1e-7);
  model.metadata.erase("mistral3.rope.scaling.attn_factor");
  model.metadata.set("mistral3.rope.scaling.yarn_log_multiplier", GgufValue::of_f32(1));
  write(model, directory.at("theirs.gguf"));
  EXPECT_EQ(difference_of(config_of(golden_path("ministral3")), config_of(directory.at("theirs.gguf"))),
            std::nullopt);
}

// Its queries grow whatever its RoPE does.
TEST(FamilyFiles, Ministral3WithoutYarnKeepsItsScaleOfQueriesInGguf) {
  TemporaryDirectory directory;
  LanguageConfig config = config_of(golden_path("ministral3"));
  config.rope_scaling = {};
  config.rope_scaling.original_max_position_embeddings = 16;
  config.validate();
  InitSource init(1);
  LanguageModel model(config, init);
  write_language_model(directory.path(), config, parameter_map(model));
  write(export_gguf(open_checkpoint(directory.path())), directory.at("plain.gguf"));
  const LanguageConfig read = config_of(directory.at("plain.gguf"));
  EXPECT_NEAR(read.query_position_scale, 0.3, 1e-7);
  EXPECT_EQ(read.rope_scaling.type, "default");
  EXPECT_EQ(read.rope_scaling.original_max_position_embeddings, 16);
}

// An older file's scaling of RoPE stands instead of Apertus' default, which today's key has.
TEST(FamilyFiles, RopeScalingOfOlderFilesStandsInsteadOfADefault) {
  const std::string start =
      R"({"model_type": "apertus", "hidden_size": 32, "vocab_size": 50, "intermediate_size": 40,
          "num_hidden_layers": 1, "num_attention_heads": 4)";
  EXPECT_EQ(LanguageConfig::from_json(start + "}", "config.json").rope_scaling.type, "llama3");
  const std::string older = R"(, "rope_theta": 100.0, "rope_scaling": {"type": "linear", "factor": 2.0}})";
  const LanguageConfig config = LanguageConfig::from_json(start + older, "config.json");
  EXPECT_EQ(config.rope_scaling.type, "linear");
  EXPECT_EQ(config.rope_theta, 100.0);
}

TEST(FamilyFiles, ANullInsteadOfRopeParametersLeavesTheDefault) {
  const std::string start =
      R"({"model_type": "apertus", "hidden_size": 32, "vocab_size": 50, "intermediate_size": 40,
          "num_hidden_layers": 1, "num_attention_heads": 4, "rope_parameters": null)";
  const LanguageConfig config = LanguageConfig::from_json(start + "}", "config.json");
  EXPECT_EQ(config.rope_scaling.type, "llama3");
  EXPECT_EQ(config.rope_theta, 12000000.0);
  const std::string older = R"(, "rope_scaling": {"type": "linear", "factor": 2.0}})";
  EXPECT_EQ(LanguageConfig::from_json(start + older, "config.json").rope_scaling.type, "linear");
}

std::string llama4_with(const std::string& keys) {
  return R"({"model_type": "llama4_text", "hidden_size": 32, "vocab_size": 50, "intermediate_size": 48,
             "intermediate_size_mlp": 64, "num_hidden_layers": 4, "num_attention_heads": 2, "head_dim": 16,
             "num_key_value_heads": 2, "num_local_experts": 4)" +
         keys + "}";
}

TEST(FamilyFiles, TemperatureTuningOfLlama4IsABoolOrANumber) {
  for (const auto& [value, tuned] :
       {std::pair{"4", true}, {"0", false}, {"true", true}, {"false", false}, {"null", true}}) {
    const std::string json = llama4_with(std::string(R"(, "attn_temperature_tuning": )") + value);
    EXPECT_EQ(LanguageConfig::from_json(json, "config.json").floor_scale, tuned ? 8192 : 0) << value;
  }
  EXPECT_THROW(LanguageConfig::from_json(llama4_with(R"(, "attn_temperature_tuning": "4")"), "config.json"),
               FormatError);
}

// Whatever Llama 4's files say of it: no program adds the loss.
TEST(FamilyFiles, FamiliesWithoutABalancingLossHaveNoCoefficient) {
  EXPECT_EQ(LanguageConfig::from_json(llama4_with(R"(, "router_aux_loss_coef": 0.001)"), "config.json")
                .router_aux_loss_coef,
            0);
  for (const char* golden : {"glm4_moe_lite", "deepseek_v3_moe", "deepseek_v2_moe", "glm4_moe", "dots1_moe",
                             "hunyuan_v1_moe", "lfm2_moe", "nemotron_h_moe"})
    EXPECT_EQ(config_of(golden_path(golden)).router_aux_loss_coef, 0) << golden;
  EXPECT_GT(config_of(golden_path("phimoe")).router_aux_loss_coef, 0);
}

// Not as transformers 5, which forgets the long factors (the golden has none of its own).
TEST(FamilyFiles, TextsOfPhimoeBeyondTheOriginalLengthHaveTheLongFactors) {
  const NoGrad no_grad;
  LanguageConfig config = config_of(golden_path("phimoe"));
  ASSERT_EQ(config.rope_scaling.original_max_position_embeddings, 16);
  const auto hidden = [&](std::int64_t length) {
    InitSource init(1);
    const LanguageModel model(config, init);
    std::vector<std::int32_t> tokens(static_cast<std::size_t>(length));
    std::iota(tokens.begin(), tokens.end(), 0);
    return model.hidden({.tokens = Tensor::from(tokens, {1, length}), .positions = {}, .doc_start = {}})
        .to_vector<float>();
  };
  const std::vector<float> at_original = hidden(16), beyond = hidden(17);
  for (double& factor : config.rope_scaling.long_factor) factor *= 8;
  EXPECT_EQ(hidden(16), at_original);
  EXPECT_NE(hidden(17), beyond);
}

// As a rank of tensor parallelism has it.
TEST(FamilyFiles, APartOfTheSharedExpertOfLlama4StaysAPart) {
  LanguageConfig config = LanguageConfig::from_json(llama4_with(""), "config.json");
  EXPECT_EQ(config.shared_expert_intermediate_size, 48);
  config.shared_expert_intermediate_size = 24;
  config.validate();
  EXPECT_EQ(config.shared_expert_intermediate_size, 24);
  EXPECT_EQ(config.moe_intermediate_size, 48);
}

// Experts of Llama 4 are one tensor in checkpoints; a quantized GGUF file's stay quantized.
TEST(FamilyFiles, QuantizedExpertsOfLlama4ArePackedOneByOne) {
  const NoGrad no_grad;
  TemporaryDirectory directory;
  const LanguageConfig config = LanguageConfig::from_json(
      R"({"model_type": "llama4_text", "hidden_size": 32, "vocab_size": 50, "intermediate_size": 32,
          "intermediate_size_mlp": 64, "num_hidden_layers": 1, "num_attention_heads": 2, "head_dim": 16,
          "num_key_value_heads": 2, "num_local_experts": 3})",
      "config.json");
  InitSource init(1);
  LanguageModel model(config, init);
  write_language_model(directory.path(), config, parameter_map(model));
  write(export_gguf(open_checkpoint(directory.path())), directory.at("q8_0.gguf"),
        parse_weight_encoding("q8_0"));
  const auto weights = open_checkpoint(directory.at("q8_0.gguf")).weights;
  const std::string name = "model.layers.0.feed_forward.experts.gate_up_proj";
  const Tensor whole = transpose(select(weights->load_tensor(name), 0, 1), 0, 1);
  for (const std::int64_t first : {0, 32}) {
    const auto packed =
        weights->load_packed(name, {.transposed = true, .first = first, .rows = 32, .matrix = 1});
    ASSERT_NE(packed, nullptr) << first;
    std::vector<std::int64_t> ids(32);
    std::iota(ids.begin(), ids.end(), 0);
    EXPECT_LE(testing::max_error(quant::rows(*packed, Tensor::from(ids, {32})), narrow(whole, 0, first, 32)),
              1e-6)
        << first;
  }
}

}  // namespace
}  // namespace ingot
