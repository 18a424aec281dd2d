// What Gemma 4 has in other places than most families: two sizes of heads, layers that read others' keys,
// tables of layers' inputs, a text part among towers.
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tests/models/goldens.h"
#include "tests/models/json_models.h"
#include "tests/support/op_case.h"
#include "tests/support/temporary_directory.h"
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "ingot/autograd/grad_mode.h"
#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/models/language/checkpoint.h"
#include "ingot/models/language/config.h"
#include "ingot/models/language/config_difference.h"
#include "ingot/models/language/decoder.h"
#include "ingot/models/language/family.h"
#include "ingot/models/language/gguf_export.h"
#include "ingot/models/language/kv_cache.h"
#include "ingot/models/language/model_directory.h"
#include "ingot/nn/param_source.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/view.h"
#include "ingot/quant/matrix_format.h"
#include "ingot/quant/packed_matrix.h"
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

std::string refusal_of(const Json& json) {
  try {
    config_of(json);
  } catch (const Error& error) {
    return error.what();
  }
  return "none";
}

TEST(Gemma4, ReleasedFilesNameTheHeadsOfGlobalLayersByKeysOfTheirOwn) {
  Json json = golden_json("gemma4_moe");
  ASSERT_TRUE(json.contains("per_layer_config"));  // as transformers writes it today
  const LanguageConfig newer = config_of(json);
  json.erase("per_layer_config");
  json["global_head_dim"] = 10;
  json["num_global_key_value_heads"] = 1;
  const LanguageConfig released = config_of(json);
  for (const LanguageConfig* c : {&newer, &released}) {
    EXPECT_EQ(c->head_size(0), 8);
    EXPECT_EQ(c->kv_heads(0), 2);
    EXPECT_EQ(c->head_size(2), 10);
    EXPECT_EQ(c->kv_heads(2), 1);
  }
  json["attention_k_eq_v"] = false;  // beside which alone that key counts
  EXPECT_EQ(config_of(json).kv_heads(2), 2);
  json.erase("global_head_dim");
  EXPECT_EQ(config_of(json).head_size(2), 512);
}

TEST(Gemma4, WhatItCannotRunIsRefusedByName) {
  const Json golden = golden_json("gemma4");
  const auto with = [&](const char* pointer, const Json& value) {
    Json json = golden;
    json[Json::json_pointer(pointer)] = value;
    return refusal_of(json);
  };
  EXPECT_NE(with("/use_bidirectional_attention", "all").find("use_bidirectional_attention"),
            std::string::npos);
  EXPECT_EQ(with("/use_bidirectional_attention", "vision"), "none");
  EXPECT_NE(with("/rope_parameters/full_attention/rope_type", "yarn").find("rope_type 'yarn'"),
            std::string::npos);
  EXPECT_NE(with("/rope_parameters/sliding_attention/rope_type", "linear").find("rope_type 'linear'"),
            std::string::npos);
  EXPECT_NE(with("/per_layer_config/1/intermediate_size", 8).find("'intermediate_size'"), std::string::npos);
  EXPECT_NE(with("/per_layer_config/0", Json{{"head_dim", 4}}).find("layer 0"), std::string::npos);
  EXPECT_NE(with("/per_layer_config/17", Json{{"head_dim", 4}}).find("layer 17"), std::string::npos);
  EXPECT_NE(with("/per_layer_config/1/head_dim", 0).find("per_layer_config.1.head_dim"), std::string::npos);
  EXPECT_NE(with("/per_layer_config/3/num_key_value_heads", 0).find("per_layer_config.3.num_key_value_heads"),
            std::string::npos);
  EXPECT_NE(with("/num_kv_shared_layers", 3).find("num_kv_shared_layers"), std::string::npos);
  EXPECT_NE(with("/num_kv_shared_layers", 4).find("num_kv_shared_layers"), std::string::npos);
  EXPECT_NE(with("/vocab_size_per_layer_input", 0).find("vocab_size_per_layer_input"), std::string::npos);
  EXPECT_NE(with("/vocab_size_per_layer_input", 60).find("is 60, less than vocab_size 61"),
            std::string::npos);
  EXPECT_NE(with("/hidden_activation", "relu").find("activation 'relu'"), std::string::npos);
}

// per_layer_config is read beside layer_types: neither may be walked further than it goes.
TEST(Gemma4, ListsOfOtherLengthsThanTheLayersAreRefused) {
  Json json = golden_json("gemma4");
  json["num_hidden_layers"] = 5;
  EXPECT_NE(refusal_of(json).find("names 4 layers of num_hidden_layers 5"), std::string::npos);
  json["layer_types"] = {"sliding_attention", "full_attention", "full_attention"};
  EXPECT_NE(refusal_of(json).find("names 3 layers of num_hidden_layers 5"), std::string::npos);
  json.erase("layer_types");
  for (const std::int64_t layers : {std::int64_t{0}, std::int64_t{-1}, std::int64_t{1} << 60}) {
    json["num_hidden_layers"] = layers;
    EXPECT_NE(refusal_of(json).find("num_hidden_layers"), std::string::npos) << layers;
    json["sliding_window"] = nullptr;  // then no list is made before
    EXPECT_NE(refusal_of(json).find("num_hidden_layers"), std::string::npos) << layers;
  }
}

TEST(Gemma4, LayersThatReadOthersKeysTakeNoMemoryOfACache) {
  const LanguageConfig c = config_of(golden_json("gemma4"));
  const KvCache cache(c, 1, DType::f32);
  // A layer that slides, of 2 heads of 6, and a global one, of 2 of 12: keys and values.
  EXPECT_EQ(cache.token_bytes(), sizeof(float) * 2 * (2 * 6 + 2 * 12));
  LanguageConfig all = c;
  all.num_kv_shared_layers = 0;
  EXPECT_EQ(KvCache(all, 1, DType::f32).token_bytes(), sizeof(float) * 2 * (2 * 2 * 6 + 2 * 2 * 12));
}

// Blocks that sequences share are whole pages of both sizes of heads.
TEST(Gemma4, APagedCacheOfTwoSizesOfHeadsGivesTheNumbersOfAPlainOne) {
  const NoGrad no_grad;
  const auto model = load_language_model(golden_path("gemma4"));
  const Tensor tokens = open_weights(golden_path("gemma4") + "/expected.safetensors")->load_tensor("tokens");
  const std::int64_t length = tokens.dim(1);
  const auto text = [&](KvCache& cache, std::int64_t at, std::int64_t count) {
    const CacheSegment segment{.cache = &cache, .tokens = count};
    return model->hidden(contiguous(narrow(narrow(tokens, 0, 0, 1), 1, at, count)), std::span(&segment, 1));
  };
  for (const DType dtype : {DType::f32, DType::f16, DType::i8}) {
    KvCache plain(model->config, length, dtype), paged(model->config, 1, dtype, kCpu, 4096),
        other(model->config, 1, dtype, kCpu, 4096);
    paged.reserve(length);
    other.reserve(length);
    text(plain, 0, 9);
    text(paged, 0, 9);
    other.copy_beginning(paged, 7);
    const Tensor expected = text(plain, 9, 5);
    EXPECT_EQ(text(paged, 9, 5).to_vector<float>(), expected.to_vector<float>()) << name(dtype);
    text(other, 7, 2);
    EXPECT_LE(testing::max_error(text(other, 9, 5), expected), 1e-5) << name(dtype);
  }
}

// The keys that others read are among those that may go, and they are as long for both.
TEST(Gemma4, LayersThatReadOthersKeysGoOnBehindBlocksThatWereGivenBack) {
  const NoGrad no_grad;
  LanguageConfig config = config_of(golden_json("gemma4"));
  config.max_position_embeddings = 1024;
  config.head_dim = 8;
  config.global_head_dim = 16;
  InitSource init(1);
  const LanguageModel model(config, init);
  constexpr std::int64_t kTokens = 700, kChunk = 100;
  std::vector<std::int64_t> ids;
  for (std::int64_t i = 0; i < kTokens; ++i) ids.push_back(i * 7 % 61);
  const Tensor tokens = Tensor::from(ids, {1, kTokens});
  KvCache plain(config, kTokens, DType::f32), paged(config, kTokens, DType::f32, kCpu, 4096);
  ASSERT_TRUE(paged.is_paged());
  int times = 0;
  for (std::int64_t at = 0; at < kTokens; at += kChunk) {
    const auto text = [&](KvCache& cache) {
      const CacheSegment segment{.cache = &cache, .tokens = kChunk};
      return model.hidden(contiguous(narrow(tokens, 1, at, kChunk)), std::span(&segment, 1));
    };
    EXPECT_EQ(text(paged).to_vector<float>(), text(plain).to_vector<float>()) << at;
    if (paged.drop_left_behind()) ++times;
  }
  EXPECT_GE(times, 2);
  EXPECT_LT(paged.nbytes(), plain.nbytes());
}

std::map<std::string, Tensor> golden_tensors(const std::string& name) {
  const auto source = open_weights(golden_path(name) + "/model.safetensors");
  std::map<std::string, Tensor> tensors;
  for (const TensorInfo& info : source->tensors()) tensors[info.name] = source->load_tensor(info.name);
  return tensors;
}

void write_model(const std::string& directory, const Json& config,
                 const std::map<std::string, Tensor>& tensors) {
  write_file_atomically(directory + "/config.json", config.dump());
  write_safetensors(directory + "/model.safetensors", tensors);
}

// As multimodal checkpoints hold it; layers that read others' keys have projections of keys there, unused.
TEST(Gemma4, TheTextPartOfAModelThatSeesAndHearsIsTheModel) {
  const NoGrad no_grad;
  TemporaryDirectory directory;
  std::map<std::string, Tensor> tensors;
  for (const auto& [name, tensor] : golden_tensors("gemma4"))
    tensors["model.language_model." + name.substr(std::string("model.").size())] = tensor;
  for (const char* other :
       {"model.vision_tower.x.weight", "model.audio_tower.x.weight", "model.embed_vision.x.weight",
        "model.embed_audio.x.weight", "model.language_model.layers.3.self_attn.k_proj.weight",
        "model.language_model.layers.3.self_attn.k_norm.weight"})
    tensors[other] = Tensor::zeros({2, 2});
  write_model(directory.path(), {{"model_type", "gemma4"}, {"text_config", golden_json("gemma4")}}, tensors);
  const Tensor tokens = open_weights(golden_path("gemma4") + "/expected.safetensors")->load_tensor("tokens");
  EXPECT_EQ(logits_of(directory.path(), tokens).to_vector<float>(),
            logits_of(golden_path("gemma4"), tokens).to_vector<float>());
}

TEST(Gemma4, GgufFilesSayWhatDiffersBetweenLayers) {
  using Numbers = std::vector<std::int64_t>;
  const GgufMetadata m = export_gguf(open_checkpoint(golden_path("gemma4"))).metadata;
  EXPECT_EQ(m.integer("gemma4.attention.key_length"), 12);
  EXPECT_EQ(m.integer("gemma4.attention.value_length_swa"), 6);
  EXPECT_EQ(m.integer("gemma4.rope.dimension_count"), 12);
  EXPECT_EQ(m.integer("gemma4.attention.head_count_kv"), 2);
  EXPECT_EQ(m.integer("gemma4.attention.shared_kv_layers"), 2);
  EXPECT_EQ(m.integer("gemma4.embedding_length_per_layer_input"), 8);
  EXPECT_EQ(m.integers("gemma4.feed_forward_length"), (Numbers{20, 20, 40, 40}));
  EXPECT_EQ(m.number("gemma4.rope.freq_base"), 200);
  EXPECT_EQ(m.number("gemma4.rope.freq_base_swa"), 50);
  const GgufMetadata experts = export_gguf(open_checkpoint(golden_path("gemma4_moe"))).metadata;
  EXPECT_EQ(experts.integers("gemma4.attention.head_count_kv"), (Numbers{2, 1, 1}));
  EXPECT_EQ(experts.integer("gemma4.expert_used_count"), 2);
  EXPECT_EQ(experts.number("gemma4.final_logit_softcapping"), 0);  // none, where llama.cpp has 30 by itself
}

TEST(Gemma4, ARandomConfigurationIsTheSameModelInGguf) {
  const NoGrad no_grad;
  TemporaryDirectory directory;
  const std::string random = golden_path("random/gemma4");
  const GgufExport file = export_gguf(open_checkpoint(random));
  std::vector<GgufTensor> tensors = gguf_tensors(*file.weights);
  tensors.insert(tensors.end(), file.extra.begin(), file.extra.end());
  write_gguf(directory.at("model.gguf"), file.metadata, tensors);
  const Tensor tokens = open_weights(random + "/expected.safetensors")->load_tensor("tokens");
  EXPECT_EQ(logits_of(directory.at("model.gguf"), tokens).to_vector<float>(),
            logits_of(random, tokens).to_vector<float>());
}

std::string refusal_of_gguf(const Json& json) {
  TemporaryDirectory directory;
  write_new_model(directory.path(), json);
  try {
    export_gguf(open_checkpoint(directory.path()));
  } catch (const NotImplemented& refused) {
    return refused.what();
  }
  return "none";
}

TEST(Gemma4, ATableOfInputsOfMoreThanTheTokensIsNoGguf) {
  Json json = golden_json("gemma4");
  json["vocab_size_per_layer_input"] = 70;
  EXPECT_NE(refusal_of_gguf(json).find("vocab_size_per_layer_input 70"), std::string::npos);
}

// llama.cpp counts back from the first layer without keys: two layers for one that slides, one for others.
TEST(Gemma4, LayersThatReadOtherKeysThanLlamaCppWouldGiveThemAreNoGguf) {
  Json json = golden_json("gemma4");
  json.erase("per_layer_config");
  json["global_head_dim"] = 12;
  const auto with = [&](const std::string& kinds) {
    json["layer_types"] = Json::array();
    for (const char kind : kinds)
      json["layer_types"].push_back(kind == 'S' ? "sliding_attention" : "full_attention");
    json["num_hidden_layers"] = kinds.size();
    return refusal_of_gguf(json);
  };
  EXPECT_EQ(with("SFSF"), "none");
  EXPECT_EQ(with("SSFSF"), "none");
  EXPECT_NE(with("FSSF").find("layer 2 reads the keys of layer 1, and of 0 there"), std::string::npos);
  EXPECT_NE(with("FSFF").find("layer 2 reads the keys of layer 0, and of 1 there"), std::string::npos);
  EXPECT_NE(with("FFFF").find("layer_types without sliding_attention"), std::string::npos);
}

// A width of layers that are not there changes nothing.
TEST(Gemma4, AWiderMlpOfNoLayerIsTheSameModelInGguf) {
  Json json = golden_json("gemma4");
  json["num_kv_shared_layers"] = 0;
  ASSERT_EQ(json["use_double_wide_mlp"], true);
  EXPECT_EQ(refusal_of_gguf(json), "none");
}

std::string refusal_to_read(const GgufExport& file, const std::vector<GgufTensor>& more) {
  TemporaryDirectory directory;
  std::vector<GgufTensor> tensors = gguf_tensors(*file.weights);
  tensors.insert(tensors.end(), file.extra.begin(), file.extra.end());
  tensors.insert(tensors.end(), more.begin(), more.end());
  write_gguf(directory.at("model.gguf"), file.metadata, tensors);
  try {
    open_checkpoint(directory.at("model.gguf"));
  } catch (const NotImplemented& refused) {
    return refused.what();
  }
  return "none";
}

TEST(Gemma4, GgufFilesOfHeadsThatRotateInPartOrOfExpertsInTwoStacksAreRefusedByName) {
  const auto exported = [](const char* name) { return export_gguf(open_checkpoint(golden_path(name))); };
  EXPECT_EQ(refusal_to_read(exported("gemma4"), {}), "none");
  for (const char* key : {"gemma4.rope.dimension_count", "gemma4.rope.dimension_count_swa"}) {
    GgufExport file = exported("gemma4");
    file.metadata.set(key, GgufValue::of_u32(4));
    EXPECT_NE(refusal_to_read(file, {}).find(key), std::string::npos);
  }
  const GgufTensor stack =
      GgufTensor::of(StoredTensor::of("blk.0.ffn_gate_exps.weight", Tensor::zeros({4, 2, 2})));
  EXPECT_NE(refusal_to_read(exported("gemma4_moe"), {stack}).find("ffn_gate_exps"), std::string::npos);
}

// transformers lets the last layer see everything, and says so in a warning.
TEST(Gemma4, TheLastLayerSeesEverythingWhateverTheFileSays) {
  Json json = golden_json("gemma4");
  json["layer_types"][3] = "sliding_attention";
  EXPECT_EQ(config_of(json).to_json(), config_of(golden_json("gemma4")).to_json());
  json["layer_types"][1] = "linear_attention";
  EXPECT_NE(refusal_of(json).find("'linear_attention'"), std::string::npos);
  json = golden_json("gemma4");
  json["layer_types"] = {"sliding_attention", "full_attention", "sliding_attention"};
  EXPECT_NE(refusal_of(json).find("layer_types"), std::string::npos);
}

// As training makes them from a few keys.
TEST(Gemma4, AModelFromScratchIsReadAsItWas) {
  for (const char* family : {"gemma4_text", "gemma3_text", "gemma2"}) {
    for (const std::int64_t window : {0, 8}) {
      LanguageConfig c;
      c.model_type = family;
      apply_family(c);
      c.vocab_size = 50;
      c.hidden_size = c.intermediate_size = 32;
      c.num_hidden_layers = 7;
      c.num_attention_heads = 2;
      c.sliding_window = window;
      apply_sliding_pattern(c);
      c.validate();
      const LanguageConfig again = LanguageConfig::from_json(c.to_json(), "config.json");
      EXPECT_EQ(difference_of(c, again), std::nullopt) << family << " " << window;
      EXPECT_EQ(again.window(0), window);
      EXPECT_EQ(again.window(6), family == std::string("gemma4_text") ? 0 : window);
    }
  }
}

// As the tokens' own: both are looked up in, and in few bits they are as precise as heads.
TEST(Gemma4, TheTableOfLayersInputsIsQuantizedAsEmbeddingsAre) {
  for (const char* table : {"model.embed_tokens_per_layer.weight", "per_layer_token_embd.weight"}) {
    EXPECT_EQ(quant::matrix_role(table), quant::MatrixRole::head) << table;
    EXPECT_EQ(quant::matrix_format("q4_k", 256, quant::matrix_role(table)).used,
              quant::matrix_format("q4_k", 256, quant::matrix_role("token_embd.weight")).used);
  }
}

// As llama.cpp has it, so that files of both are alike.
TEST(Gemma4, TheProjectionToLayersInputsIsNotQuantized) {
  for (const char* name : {"model.per_layer_model_projection.weight", "per_layer_model_proj.weight"})
    EXPECT_EQ(quant::matrix_role(name), quant::MatrixRole::exempt) << name;
}

TEST(Gemma4, QuantizedExpertsOfAGgufFileArePackedOneByOne) {
  const NoGrad no_grad;
  TemporaryDirectory directory;
  const LanguageConfig config = config_of(Json::parse(
      R"({"model_type": "gemma4_text", "hidden_size": 32, "vocab_size": 50, "intermediate_size": 32,
          "num_hidden_layers": 2, "num_attention_heads": 2, "head_dim": 16, "global_head_dim": 32,
          "num_key_value_heads": 2, "hidden_size_per_layer_input": 32, "vocab_size_per_layer_input": 50,
          "enable_moe_block": true, "num_experts": 3, "top_k_experts": 2, "moe_intermediate_size": 32})"));
  InitSource init(1);
  LanguageModel model(config, init);
  write_language_model(directory.path(), config, parameter_map(model));
  const GgufExport whole = export_gguf(open_checkpoint(directory.path()));
  std::vector<GgufTensor> tensors = whole.extra;
  const auto encoded = encode_weights(whole.weights, parse_weight_encoding("q8_0"), true);
  for (GgufTensor& tensor : gguf_tensors(*encoded)) tensors.push_back(std::move(tensor));
  write_gguf(directory.at("q8_0.gguf"), whole.metadata, tensors);
  const auto read =
      load_language_model(directory.at("q8_0.gguf"), {.trainable = false, .keep_quantized = true});
  for (const auto& layer : read->layers) {
    ASSERT_EQ(layer->experts->up_proj.packed.size(), 3U);
    ASSERT_EQ(layer->experts->gate_proj->packed.size(), 3U);
    EXPECT_TRUE(layer->layer_input_gate->per_layer_input_gate.weight.is_quantized());
  }
  EXPECT_TRUE(read->per_layer_inputs->embed_tokens_per_layer.weight.is_quantized());
  const Tensor tokens = Tensor::from(std::vector<std::int64_t>{3, 1, 4, 1, 5}, {1, 5});
  const auto logits = [&](const LanguageModel& of) { return of.logits(of.hidden({.tokens = tokens})); };
  EXPECT_LE(testing::max_error(logits(*read), logits(model)), 0.1);
}

}  // namespace
}  // namespace ingot
