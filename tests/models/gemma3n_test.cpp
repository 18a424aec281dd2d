// What Gemma 3n has in other places than most families: streams, cutoffs of gates, tables of layers' inputs
// that lack tokens, a text part among towers.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tests/models/goldens.h"
#include "tests/models/json_models.h"
#include "tests/support/op_case.h"
#include "tests/support/temporary_directory.h"
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "ingot/autograd/engine.h"
#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/models/language/checkpoint.h"
#include "ingot/models/language/config.h"
#include "ingot/models/language/decoder.h"
#include "ingot/models/language/family.h"
#include "ingot/models/language/gguf_export.h"
#include "ingot/models/language/model_directory.h"
#include "ingot/models/language/sparse_gate.h"
#include "ingot/nn/param_source.h"
#include "ingot/ops/reduce.h"
#include "ingot/weights/encode.h"
#include "ingot/weights/gguf_metadata.h"
#include "ingot/weights/gguf_writer.h"
#include "ingot/weights/open.h"
#include "ingot/weights/safetensors_writer.h"

namespace ingot {
namespace {

using test::config_of;
using test::golden_json;
using test::golden_path;
using test::Json;
using test::logits_of;
using test::TemporaryDirectory;
using test::write_new_model;

// scipy.stats.norm.ppf.
TEST(Gemma3n, CutoffsAreQuantilesOfANormalDistribution) {
  EXPECT_NEAR(normal_quantile(0.95), 1.6448536269514722, 1e-13);
  EXPECT_NEAR(normal_quantile(0.3), -0.5244005127080407, 1e-13);
  EXPECT_NEAR(normal_quantile(1e-7), -5.199337582187471, 1e-11);
  EXPECT_EQ(normal_quantile(0.5), 0);
  EXPECT_NEAR(normal_probability(normal_quantile(0.123)), 0.123, 1e-14);
}

TEST(Gemma3n, ARowOfGatesThatAreTheSameHasAGradient) {
  Tensor gates = Tensor::from(std::vector<float>{0, 0, 0, 0, 3, -1, 2, 0}, {2, 4});
  gates.set_requires_grad(true);
  const Tensor kept = above_cutoff(gates, 0.5);
  const std::vector<float> values = kept.to_vector<float>();
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(values[i], 0) << i;
  EXPECT_NEAR(values[4], 2 - 0.5 * std::sqrt(2.5), 1e-6);  // mean 1, variance 2.5
  backward(sum(kept));
  for (const float value : gates.grad().to_vector<float>()) EXPECT_TRUE(std::isfinite(value)) << value;
}

TEST(Gemma3n, WhatConfigurationsLeaveOutIsThatOfTheReleasedModels) {
  Json json = golden_json("gemma3n");
  for (const char* key : {"activation_sparsity_pattern", "layer_types", "altup_num_inputs", "laurel_rank",
                          "rope_parameters", "num_kv_shared_layers", "altup_active_idx"})
    json.erase(key);
  json["num_hidden_layers"] = 20;
  json["intermediate_size"] = 20;
  const LanguageConfig c = config_of(json);
  EXPECT_EQ(c.altup_num_inputs, 4);
  EXPECT_EQ(c.laurel_rank, 64);
  EXPECT_EQ(c.num_kv_shared_layers, 15);
  EXPECT_EQ(c.rope_theta, 1e6);
  EXPECT_EQ(c.rope_local_theta, 1e4);
  EXPECT_EQ(c.attention_multiplier, 1);
  for (std::int64_t i = 0; i < 20; ++i) {
    EXPECT_EQ(c.sparsity(i), i < 10 ? 0.95 : 0) << i;
    EXPECT_EQ(c.slides(i), i % 5 != 4) << i;
  }
}

TEST(Gemma3n, WhatItCannotRunIsRefusedByName) {
  const auto with = [](const char* key, const Json& value) -> std::string {
    Json json = golden_json("gemma3n");
    json[key] = value;
    try {
      config_of(json);
    } catch (const Error& error) {
      return error.what();
    }
    return "none";
  };
  EXPECT_EQ(with("altup_coef_clip", nullptr), "none");
  EXPECT_NE(with("altup_num_inputs", 0).find("altup_num_inputs"), std::string::npos);
  EXPECT_NE(with("altup_num_inputs", 1).find("altup_num_inputs"), std::string::npos);
  EXPECT_NE(with("altup_active_idx", 4).find("altup_active_idx"), std::string::npos);
  EXPECT_NE(with("laurel_rank", 0).find("laurel_rank"), std::string::npos);
  EXPECT_NE(with("activation_sparsity_pattern", Json::array({0.5})).find("names 1 layers"),
            std::string::npos);
  EXPECT_NE(with("activation_sparsity_pattern", Json::array({0.5, 0, 0, 1.0})).find("less than 1"),
            std::string::npos);
  EXPECT_NE(with("intermediate_size", Json::array({20, 20, 20, 24})).find("intermediate_size"),
            std::string::npos);
  EXPECT_NE(with("hidden_size_per_layer_input", 0).find("hidden_size_per_layer_input"), std::string::npos);
  EXPECT_NE(with("num_kv_shared_layers", 4).find("num_kv_shared_layers"), std::string::npos);
}

// Its own configuration gives the same model again.
TEST(Gemma3n, WritesTheConfigurationThatItReads) {
  for (const char* name : {"gemma3n", "gemma3n_bias", "random/gemma3n"}) {
    const LanguageConfig once = config_of(golden_json(name));
    EXPECT_EQ(LanguageConfig::from_json(once.to_json(), "config.json").to_json(), once.to_json()) << name;
  }
}

// As multimodal checkpoints hold it; layers that read others' keys have projections of keys there, unused.
TEST(Gemma3n, TheTextPartOfAModelThatSeesAndHearsIsTheModel) {
  TemporaryDirectory directory;
  std::map<std::string, Tensor> tensors;
  const auto golden = open_weights(golden_path("gemma3n") + "/model.safetensors");
  for (const TensorInfo& info : golden->tensors())
    tensors["model.language_model." + info.name.substr(std::string("model.").size())] =
        golden->load_tensor(info.name);
  for (const char* other :
       {"model.vision_tower.x.weight", "model.audio_tower.x.weight", "model.embed_vision.x.weight",
        "model.embed_audio.x.weight", "model.language_model.layers.3.self_attn.k_proj.weight"})
    tensors[other] = Tensor::zeros({2, 2});
  write_file_atomically(directory.at("config.json"),
                        Json{{"model_type", "gemma3n"}, {"text_config", golden_json("gemma3n")}}.dump());
  write_safetensors(directory.at("model.safetensors"), tensors);
  const Tensor tokens = open_weights(golden_path("gemma3n") + "/expected.safetensors")->load_tensor("tokens");
  EXPECT_EQ(logits_of(directory.path(), tokens).to_vector<float>(),
            logits_of(golden_path("gemma3n"), tokens).to_vector<float>());
}

// llama.cpp takes these for granted: four streams, 256 numbers of a layer's input, a rank of 64, ten sparse
// layers, and no shared keys before layer 20.
Json llama_cpp_json() {
  Json json = golden_json("gemma3n");
  json["altup_num_inputs"] = 4;
  json["laurel_rank"] = 64;
  json["hidden_size_per_layer_input"] = 256;
  json["num_kv_shared_layers"] = 0;
  json["final_logit_softcapping"] = 30.0;
  json["activation_sparsity_pattern"] = Json::array({0.95, 0.95, 0.95, 0.95});
  json["rope_parameters"]["full_attention"] = {{"rope_type", "default"}, {"rope_theta", 300.0}};
  return json;
}

void write_export(const std::string& path, const GgufExport& file) {
  std::vector<GgufTensor> tensors = gguf_tensors(*file.weights);
  tensors.insert(tensors.end(), file.extra.begin(), file.extra.end());
  write_gguf(path, file.metadata, tensors);
}

TEST(Gemma3n, AGgufFileIsTheSameModel) {
  TemporaryDirectory directory;
  const Json json = llama_cpp_json();
  ASSERT_LT(json["vocab_size_per_layer_input"], json["vocab_size"]);  // the table lacks tokens, as released
  write_new_model(directory.at("model"), json);
  const GgufExport file = export_gguf(open_checkpoint(directory.at("model")));
  EXPECT_EQ(file.metadata.integer("gemma3n.altup.num_inputs"), 4);
  EXPECT_EQ(file.metadata.integer("gemma3n.embedding_length_per_layer_input"), 256);
  EXPECT_NEAR(file.metadata.numbers("gemma3n.activation_sparsity_scale")->front(), 1.6448536, 1e-6);
  EXPECT_TRUE(file.metadata.find("gemma3n.attention.sliding_window_pattern")->is_array);
  write_export(directory.at("model.gguf"), file);
  const auto gguf = open_weights(directory.at("model.gguf"));
  EXPECT_EQ(gguf->get_metadata("altup_proj.weight").shape, (std::vector<std::int64_t>{3, 24, 24}));
  EXPECT_EQ(gguf->get_metadata("per_layer_token_embd.weight").shape[0], 61);
  const Tensor tokens = open_weights(golden_path("gemma3n") + "/expected.safetensors")->load_tensor("tokens");
  const std::vector<std::int64_t> ids = tokens.to_vector<std::int64_t>();
  ASSERT_GE(std::ranges::max(ids), json["vocab_size_per_layer_input"].get<std::int64_t>());  // one has no row
  EXPECT_EQ(logits_of(directory.at("model.gguf"), tokens).to_vector<float>(),
            logits_of(directory.at("model"), tokens).to_vector<float>());
}

// llama.cpp asks for them, and does not read them.
TEST(Gemma3n, LayersThatReadOthersKeysHaveThoseInAGgufFile) {
  const TemporaryDirectory directory;
  Json json = llama_cpp_json();
  json["num_hidden_layers"] = 22;
  json["num_kv_shared_layers"] = 2;
  json["intermediate_size"] = 44;
  json["layer_types"] = Json::array();
  json["activation_sparsity_pattern"] = Json::array();
  for (int i = 0; i < 22; ++i) {
    json["layer_types"].push_back(i % 5 == 4 || i == 21 ? "full_attention" : "sliding_attention");
    json["activation_sparsity_pattern"].push_back(i < 10 ? 0.95 : 0);
  }
  write_new_model(directory.at("model"), json);
  ASSERT_FALSE(open_checkpoint(directory.at("model"))
                   .weights->is_available("model.layers.20.self_attn.k_proj.weight"));
  write_export(directory.at("model.gguf"), export_gguf(open_checkpoint(directory.at("model"))));
  const auto gguf = open_weights(directory.at("model.gguf"));
  for (const auto& [layer, read] : {std::pair{"20", "18"}, {"21", "19"}})
    for (const std::string part : {".attn_k.weight", ".attn_v.weight", ".attn_k_norm.weight"})
      EXPECT_EQ(gguf->load_tensor("blk." + (layer + part)).to_vector<float>(),
                gguf->load_tensor("blk." + (read + part)).to_vector<float>());
  const Tensor tokens = open_weights(golden_path("gemma3n") + "/expected.safetensors")->load_tensor("tokens");
  EXPECT_EQ(logits_of(directory.at("model.gguf"), tokens).to_vector<float>(),
            logits_of(directory.at("model"), tokens).to_vector<float>());
}

// As llama.cpp has it, whatever the file says: those behind layer 20.
TEST(Gemma3n, AGgufFileThatNamesNoSharedLayersHasThoseOfLlamaCpp) {
  const TemporaryDirectory directory;
  write_new_model(directory.at("model"), llama_cpp_json());
  GgufExport file = export_gguf(open_checkpoint(directory.at("model")));
  ASSERT_TRUE(file.metadata.integer("gemma3n.attention.shared_kv_layers").has_value());
  file.metadata.erase("gemma3n.attention.shared_kv_layers");
  write_export(directory.at("model.gguf"), file);
  const ModelCheckpoint found = open_checkpoint(directory.at("model.gguf"));
  EXPECT_EQ(LanguageConfig::from_json(found.config_json, found.config_path).num_kv_shared_layers, 0);
}

TEST(Gemma3n, SizesThatLlamaCppDoesNotReadAreNoGguf) {
  const auto with = [](const char* key, const Json& value) -> std::string {
    TemporaryDirectory directory;
    Json json = llama_cpp_json();
    json[key] = value;
    write_new_model(directory.path(), json);
    try {
      export_gguf(open_checkpoint(directory.path()));
    } catch (const NotImplemented& refused) {
      return refused.what();
    }
    return "none";
  };
  EXPECT_EQ(with("tie_word_embeddings", false), "none");
  EXPECT_NE(with("laurel_rank", 32).find("laurel_rank 32: it must be 64"), std::string::npos);
  EXPECT_NE(with("altup_num_inputs", 3).find("altup_num_inputs 3"), std::string::npos);
  EXPECT_NE(with("altup_correct_scale", false).find("altup_correct_scale 0"), std::string::npos);
  EXPECT_NE(with("num_kv_shared_layers", 2).find("num_kv_shared_layers 2"), std::string::npos);
  EXPECT_NE(with("activation_sparsity_pattern", Json::array({0.95, 0.95, 0.5, 0.95}))
                .find("activation_sparsity_pattern 0.5"),
            std::string::npos);
}

LanguageConfig from_scratch(std::int64_t layers) {
  LanguageConfig c;
  c.model_type = "gemma3n_text";
  apply_family(c);
  c.vocab_size = 40;
  c.hidden_size = 64;
  c.intermediate_size = 32;
  c.num_hidden_layers = layers;
  c.num_attention_heads = 4;
  c.validate();
  return c;
}

// What it has none of is not what a configuration leaves out: sparse layers, windows, shared keys.
TEST(Gemma3n, AModelFromScratchIsTheSameWhenItIsReadAgain) {
  const LanguageConfig c = from_scratch(12);
  const Json json = Json::parse(c.to_json());
  EXPECT_EQ(json["final_logit_softcapping"], 30);  // transformers takes a number alone
  EXPECT_EQ(json["sliding_window"], 512);
  EXPECT_EQ(json["altup_coef_clip"], 120);
  const LanguageConfig again = config_of(json);
  EXPECT_EQ(again.to_json(), c.to_json());
  EXPECT_EQ(again.num_kv_shared_layers, 0);
  for (std::int64_t i = 0; i < 12; ++i) {
    EXPECT_EQ(again.sparsity(i), 0) << i;
    EXPECT_EQ(again.window(i), 0) << i;
  }
}

// Sizes that follow from the model's, where a run from scratch gives none.
TEST(Gemma3n, AModelFromScratchHasItsStreams) {
  const LanguageConfig c = from_scratch(2);
  EXPECT_EQ(c.altup_num_inputs, 4);
  EXPECT_EQ(c.laurel_rank, 2);
  EXPECT_EQ(c.hidden_size_per_layer_input, 8);
  EXPECT_EQ(c.vocab_size_per_layer_input, 40);
  InitSource init(1);
  LanguageModel model(c, init);
  std::int64_t count = 0;
  for (const Parameter* parameter : parameters(model)) count += parameter->value.numel();
  EXPECT_EQ(c.parameter_count(), count);
}

}  // namespace
}  // namespace ingot
