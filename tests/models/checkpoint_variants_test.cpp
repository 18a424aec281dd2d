// Checkpoints and configurations as people have them: with a tensor more, wrapped names, a tied head that is
// none.
#include <filesystem>
#include <iterator>
#include <string>

#include "tests/models/goldens.h"
#include "tests/support/temporary_directory.h"
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/models/language/context.h"
#include "ingot/models/language/model_directory.h"
#include "ingot/nn/param_source.h"
#include "ingot/ops/view.h"
#include "ingot/weights/open.h"
#include "ingot/weights/safetensors_writer.h"

namespace ingot {
namespace {

using Weights = std::map<std::string, Tensor>;

class CheckpointVariants : public ::testing::Test {
 protected:
  CheckpointVariants() {
    config_.model_type = "llama";
    apply_family(config_);
    config_.vocab_size = 24;
    config_.hidden_size = 16;
    config_.intermediate_size = 24;
    config_.num_hidden_layers = 1;
    config_.num_attention_heads = config_.num_key_value_heads = 2;
    config_.max_position_embeddings = 32;
    config_.tie_word_embeddings = false;
  }
  // A directory with these weights; `spell` renames or adds.
  void write(const std::function<Weights(const Weights&)>& spell) {
    InitSource init(3);
    LanguageModel model(config_, init);
    weights_ = parameter_map(model);
    write_language_model(folder_.path(), config_, weights_);
    std::filesystem::remove(folder_.path() + "/model.safetensors");
    std::vector<StoredTensor> stored;
    for (const auto& [name, tensor] : spell(weights_)) stored.push_back(StoredTensor::of(name, tensor));
    write_safetensors_directory(folder_.path(), stored);
  }
  void expect_same(const std::string& name, const Tensor& expected) const {
    const auto model = load_language_model(folder_.path());
    EXPECT_EQ(parameter_map(*model).at(name).to_vector<float>(), expected.to_vector<float>()) << name;
  }

  LanguageConfig config_;
  Weights weights_;
  const test::TemporaryDirectory folder_;
};

TEST_F(CheckpointVariants, ATensorMoreIsPassedOver) {
  write([](Weights weights) {
    weights["v_head.summary.weight"] = Tensor::zeros({1, 16});
    return weights;
  });
  expect_same("model.layers.0.mlp.up_proj.weight", weights_.at("model.layers.0.mlp.up_proj.weight"));
}

TEST_F(CheckpointVariants, WrappersOfNamesAreStripped) {
  for (const char* wrapper : {"_orig_mod.", "module.", "module._orig_mod.", "_fsdp_wrapped_module."}) {
    write([wrapper](const Weights& weights) {
      Weights wrapped;
      for (const auto& [name, tensor] : weights) wrapped[wrapper + name] = tensor;
      return wrapped;
    });
    expect_same("model.embed_tokens.weight", weights_.at("model.embed_tokens.weight"));
  }
  write([](const Weights& weights) {  // each layer compiled by itself
    Weights wrapped;
    for (const auto& [name, tensor] : weights) {
      const std::size_t at = name.find(".self_attn");
      wrapped[at == std::string::npos ? name : std::string(name).insert(at, "._orig_mod")] = tensor;
    }
    return wrapped;
  });
  expect_same("model.layers.0.self_attn.q_proj.weight",
              weights_.at("model.layers.0.self_attn.q_proj.weight"));
}

TEST_F(CheckpointVariants, AHeadThatDiffersFromTheEmbeddingCountsThoughTheConfigurationTiesThem) {
  config_.tie_word_embeddings = true;
  const Tensor head = Tensor::from(std::vector<float>(24 * 16, 0.5F), {24, 16});
  write([&](Weights weights) {
    weights["lm_head.weight"] = head;
    return weights;
  });
  EXPECT_FALSE(load_language_model(folder_.path())->config.tie_word_embeddings);
  expect_same("lm_head.weight", head);
  write([](Weights weights) {
    weights["lm_head.weight"] = weights.at("model.embed_tokens.weight");
    return weights;
  });
  EXPECT_TRUE(load_language_model(folder_.path())->config.tie_word_embeddings);
}

LanguageConfig parse(const std::string& model_type, const std::string& more) {
  return LanguageConfig::from_json(R"({"model_type": ")" + model_type +
                                       R"(", "vocab_size": 64, "hidden_size": 64, "intermediate_size": 64,
                                          "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
                                          "num_hidden_layers": 4, "max_position_embeddings": 64)" +
                                       more + "}",
                                   "config.json");
}

TEST(LanguageConfigVariants, DefaultsAreThoseOfTheFamily) {
  EXPECT_EQ(parse("mixtral", "").rope_theta, 1e6);
  EXPECT_EQ(parse("mixtral", R"(, "rope_theta": 5e5)").rope_theta, 5e5);
  const char* window = R"(, "use_sliding_window": true, "sliding_window": 8, "max_window_layers": 2)";
  EXPECT_TRUE(parse("qwen3_moe", window).layer_types.empty());  // all of them slide
  EXPECT_EQ(parse("qwen3_moe", window).sliding_window, 8);
  EXPECT_EQ(parse("qwen3", window).layer_types.size(), 4U);
}

// "s" for a layer that slides, "f" for one that sees everything.
std::string sliding_layers(const LanguageConfig& c) {
  std::string found;
  for (std::int64_t i = 0; i < c.num_hidden_layers; ++i) found += c.window(i) > 0 ? 's' : 'f';
  return found;
}

// transformers 5.23's layer_types of four layers; Qwen 3 MoE has none, and slides in all.
TEST(LanguageConfigVariants, QwensLayersSlideAsInTransformers) {
  const char* cases[][5] = {
      {"", "ffff", "ffff", "ffff", "ffff"},
      {R"(, "use_sliding_window": true)", "ffff", "ffff", "sfsf", "ssss"},
      {R"(, "use_sliding_window": true, "sliding_window": 8, "max_window_layers": 2)", "ffss", "ffss", "sfff",
       "ssss"},
      {R"(, "use_sliding_window": true, "sliding_window": 8, "max_window_layers": 0)", "ssss", "ssss", "ffff",
       "ssss"},
      {R"(, "use_sliding_window": true, "sliding_window": 8, "max_window_layers": 9)", "ffff", "ffff", "sfsf",
       "ssss"},
      {R"(, "use_sliding_window": false, "sliding_window": 8, "max_window_layers": 1)", "ffff", "ffff",
       "ffff", "ffff"},
      {R"(, "use_sliding_window": true, "sliding_window": null, "max_window_layers": 1)", "ffff", "ffff",
       "ffff", "ffff"}};
  const char* families[] = {"qwen2", "qwen3", "qwen2_moe", "qwen3_moe"};
  for (const auto& row : cases)
    for (std::size_t i = 0; i < std::size(families); ++i) {
      const LanguageConfig c = parse(families[i], row[0]);
      EXPECT_EQ(sliding_layers(c), row[i + 1]) << families[i] << row[0];
      const LanguageConfig again = LanguageConfig::from_json(c.to_json(), "config.json");
      EXPECT_EQ(sliding_layers(again), row[i + 1]) << families[i] << row[0] << ", written and read";
    }
}

// A run names a window alone, and all layers slide; readers take lower layers not to unless the file says so.
TEST(LanguageConfigVariants, ModelsFromScratchThatSlideAreWrittenWithTheirLayers) {
  for (const char* family : {"qwen2", "qwen3", "qwen2_moe", "qwen3_moe", "dots1"}) {
    LanguageConfig c = parse(family, "");
    c.layer_types.clear();
    c.sliding_window = 8;
    EXPECT_EQ(sliding_layers(LanguageConfig::from_json(c.to_json(), "config.json")), "ssss") << family;
  }
}

// transformers opens none of these without a window, and takes a missing list for layers that slide in turns.
TEST(LanguageConfigVariants, ModelsFromScratchThatDoNotSlideAreWrittenWithAWindowThatNoLayerHas) {
  for (const char* family : {"gpt_oss", "gemma2", "gemma3_text", "olmo3", "exaone4"}) {
    LanguageConfig c = parse(family, R"(, "sliding_window": null)");
    c.layer_types.clear();
    const nlohmann::json json = nlohmann::json::parse(c.to_json());
    if (!c.rope_needs_window) EXPECT_EQ(json["sliding_window"], c.max_position_embeddings) << family;
    EXPECT_EQ(json["layer_types"], std::vector<std::string>(4, "full_attention")) << family;
    const LanguageConfig again = LanguageConfig::from_json(c.to_json(), "config.json");
    EXPECT_EQ(sliding_layers(again), "ffff") << family;
    EXPECT_EQ(again.to_json(), c.to_json()) << family;
  }
}

TEST(LanguageConfigVariants, LayerTypesThatAFamilyLacksAreRefused) {
  const auto types = [](const char* type) {
    return fmt::format(R"(, "layer_types": ["{0}", "{0}", "{0}", "{0}"])", type);
  };
  for (const char* family : {"llama", "qwen3_moe", "mixtral", "phi3"}) {
    EXPECT_NO_THROW(parse(family, types("full_attention"))) << family;
    for (const char* type : {"linear_attention", "sliding_attention", "mamba", "x"}) {
      const std::string said = test::message_of<NotImplemented>([&] { parse(family, types(type)); });
      EXPECT_NE(said.find(fmt::format("layer_types: '{}' of layer 0 in a {} model", type, family)),
                std::string::npos)
          << said;
    }
  }
  EXPECT_THROW(parse("llama", R"(, "layer_types": ["full_attention"])"), InvalidConfig);
}

TEST(LanguageConfigVariants, PythonsNumbersAreRead) {
  const LanguageConfig config = parse(
      "llama",
      R"(, "limits": [0.0, Infinity, -Infinity, NaN], "name": "an \"Infinity\" of NaN", "rope_theta": 7.0)");
  EXPECT_EQ(config.rope_theta, 7);
  EXPECT_THROW(parse("llama", ", Infinity"), FormatError);
  for (const char* key : {"rope_theta", "rms_norm_eps"})
    EXPECT_THROW(parse("llama", fmt::format(", \"{}\": NaN", key)), FormatError) << key;
}

TEST(LanguageConfigVariants, ScalingsExtendTheContextThatTheyWereMadeFor) {
  const auto context = [](const std::string& scaling) {
    return context_length(parse("qwen2", R"(, "rope_scaling": {)" + scaling + "}"));
  };
  EXPECT_EQ(context(R"("type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64)"), 256);
  EXPECT_EQ(context(R"("rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16)"), 64);
  EXPECT_EQ(context(R"("type": "linear", "factor": 2.5)"), 160);
  EXPECT_EQ(context(R"("type": "dynamic", "factor": 2.0)"), 128);
  EXPECT_EQ(context(R"("rope_type": "default")"), 64);
}

TEST(LanguageConfigVariants, FlagsOfGpt2ThatAreNotAppliedAreRefused) {
  for (const char* flag : {R"("scale_attn_by_inverse_layer_idx": true)", R"("scale_attn_weights": false)"})
    EXPECT_THROW(
        parse("gpt2",
              std::string(R"(, "n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 64, )") + flag),
        NotImplemented)
        << flag;
}

// As transformers passes over them without a word.
TEST(CheckpointVariant, LayersThatPredictFurtherTokensAndThoseThatSeeAreLeftOut) {
  for (const char* name : {"qwen3_5", "qwen3_next_moe"}) {
    const std::string path = test::golden_path(name) + "/config.json";
    const LanguageConfig config = LanguageConfig::from_json(read_file(path), path);
    std::vector<StoredTensor> stored;
    const auto weights = open_weights(test::golden_path(name));
    for (const TensorInfo& info : weights->tensors())
      stored.push_back(StoredTensor::of(info.name, weights->load_tensor(info.name)));
    for (const char* more :
         {"mtp.fc.weight", "mtp.layers.0.input_layernorm.weight", "model.visual.pos_embed.weight"})
      stored.push_back(StoredTensor::of(more, Tensor::zeros({2, 3})));
    const test::TemporaryDirectory directory;
    write_safetensors_directory(directory.path(), stored);
    const ArchitectureReport report =
        LanguageModel::architecture_check(config, *open_weights(directory.path()));
    EXPECT_TRUE(report.fits()) << name;
  }
}

// Of transformers: a multiplier that is null leaves two thirds of the width, rounded to nothing.
TEST(CheckpointVariant, Lfm2WithoutAMultiplierHasTwoThirdsOfItsWidth) {
  const auto width = [](const char* multiplier) {
    return LanguageConfig::from_json(
               std::string(
                   R"({"model_type": "lfm2", "vocab_size": 50, "hidden_size": 16, "num_hidden_layers": 1,
                   "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 100,
                   "block_ffn_dim_multiplier": )") +
                   multiplier + "}",
               "config.json")
        .intermediate_size;
  };
  EXPECT_EQ(width("null"), 66);
  EXPECT_EQ(width("1.0"), 256);
}

// As Qwen 3.5's releases have them: all experts of a layer in one tensor, gate above up.
TEST(CheckpointVariant, ExpertsInOneTensorAreTakenApart) {
  const std::string source = test::golden_path("qwen3_5_moe");
  const auto weights = open_weights(source);
  std::map<std::string, std::vector<Tensor>> together;
  std::vector<StoredTensor> stored;
  const std::int64_t experts = 4;
  for (const TensorInfo& info : weights->tensors()) {
    if (info.name.find(".experts.") == std::string::npos) {
      stored.push_back(StoredTensor::of(info.name, weights->load_tensor(info.name)));
      continue;
    }
    if (info.name.find(".experts.0.gate_proj") == std::string::npos) continue;
    const std::string layer = info.name.substr(0, info.name.find("0.gate_proj"));
    const auto all = [&](const char* name) {
      std::vector<Tensor> each;
      for (std::int64_t i = 0; i < experts; ++i)
        each.push_back(weights->load_tensor(fmt::format("{}{}.{}.weight", layer, i, name)));
      return stack(each);
    };
    const std::vector<Tensor> gate_up{all("gate_proj"), all("up_proj")};
    stored.push_back(StoredTensor::of(layer + "gate_up_proj", concat(gate_up, 1)));
    stored.push_back(StoredTensor::of(layer + "down_proj", all("down_proj")));
  }
  const test::TemporaryDirectory directory;
  write_safetensors_directory(directory.path(), stored);
  std::filesystem::copy_file(source + "/config.json", directory.path() + "/config.json");
  const auto expected = parameter_map(*load_language_model(source)),
             found = parameter_map(*load_language_model(directory.path()));
  ASSERT_EQ(found.size(), expected.size());
  for (const auto& [name, tensor] : expected)
    EXPECT_EQ(found.at(name).to_vector<float>(), tensor.to_vector<float>()) << name;
}

}  // namespace
}  // namespace ingot
