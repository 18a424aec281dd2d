#include "ingot/models/keras_hub.h"

#include <set>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/base/error.h"
#include "ingot/base/json.h"
#include "ingot/models/config_file.h"
#include "ingot/weights/transform.h"

namespace ingot {
namespace {

/// A Keras layer: variable 0 is PyTorch's weight, variable 1 its bias.
struct KerasLayer {
  std::vector<std::string_view> keras;  ///< several: one fused layer of PyTorch's, column after column
  std::string_view torch;
  bool dense = false;  ///< its weight is [in, out], heads perhaps as an axis of their own
};

struct KerasFamily {
  std::string_view block;        ///< Keras' name of the first block; the next ones are "_1", "_2", ...
  std::string_view torch_block;  ///< "#" is the block's number
  bool conv1d;                   ///< transformers' matrices are [in, out] too
  std::vector<KerasLayer> layers, in_block;
};

constexpr std::string_view kQuery = "_self_attention_layer/query_dense",
                           kKey = "_self_attention_layer/key_dense",
                           kValue = "_self_attention_layer/value_dense",
                           kOutput = "_self_attention_layer/output_dense";

const std::vector<KerasFamily>& families() {
  static const std::vector<KerasFamily> kFamilies{
      {.block = "transformer_encoder",
       .torch_block = "bert.encoder.layer.#",
       .conv1d = false,
       .layers = {{{"reversible_embedding"}, "bert.embeddings.word_embeddings"},
                  {{"position_embedding"}, "bert.embeddings.position_embeddings"},
                  {{"embedding"}, "bert.embeddings.token_type_embeddings"},
                  {{"layer_normalization"}, "bert.embeddings.LayerNorm"},
                  {{"dense"}, "bert.pooler.dense", true}},
       .in_block = {{{kQuery}, "attention.self.query", true},
                    {{kKey}, "attention.self.key", true},
                    {{kValue}, "attention.self.value", true},
                    {{kOutput}, "attention.output.dense", true},
                    {{"_self_attention_layer_norm"}, "attention.output.LayerNorm"},
                    {{"_feedforward_intermediate_dense"}, "intermediate.dense", true},
                    {{"_feedforward_output_dense"}, "output.dense", true},
                    {{"_feedforward_layer_norm"}, "output.LayerNorm"}}},
      {.block = "transformer_decoder",
       .torch_block = "transformer.h.#",
       .conv1d = true,
       .layers = {{{"reversible_embedding"}, "transformer.wte"},
                  {{"position_embedding"}, "transformer.wpe"},
                  {{"layer_normalization"}, "transformer.ln_f"}},
       .in_block = {{{"_self_attention_layer_norm"}, "ln_1"},
                    {{kQuery, kKey, kValue}, "attn.c_attn", true},
                    {{kOutput}, "attn.c_proj", true},
                    {{"_feedforward_layer_norm"}, "ln_2"},
                    {{"_feedforward_intermediate_dense"}, "mlp.c_fc", true},
                    {{"_feedforward_output_dense"}, "mlp.c_proj", true}}},
  };
  return kFamilies;
}

/// Recipes for what a source has of a preset's layers.
class Namer {
 public:
  explicit Namer(const WeightSource& source) : source_(source) {}

  void add(const KerasLayer& layer, const std::string& keras, const std::string& torch, bool conv1d) {
    for (const int variable : {0, 1}) {
      TensorRecipe recipe{torch + std::string(layer.torch) + (variable == 0 ? ".weight" : ".bias"), {}, {}};
      for (const std::string_view name : layer.keras) {
        std::string input = fmt::format("layers/{}{}/vars/{}", keras, name, variable);
        if (source_.is_available(input)) recipe.inputs.push_back(std::move(input));
      }
      if (recipe.inputs.size() != layer.keras.size()) continue;  // an embedding has no bias; or it is damaged
      used_.insert(recipe.inputs.begin(), recipe.inputs.end());
      if (layer.dense && variable == 0) {
        put_in_order(recipe, conv1d);
      } else if (layer.dense) {
        recipe.steps.push_back(Transform::reshape({-1}));  // [heads, size]
      }
      recipes_.push_back(std::move(recipe));
    }
  }

  std::vector<TensorRecipe> finish() {
    for (const TensorInfo& info : source_.tensors()) {  // to be named in an error about what is unexpected
      if (!used_.contains(info.name)) recipes_.push_back({info.name, {info.name}, {}});
    }
    return std::move(recipes_);
  }

 private:
  void put_in_order(TensorRecipe& recipe, bool conv1d) const {
    const std::vector<std::int64_t>& shape = source_.get_metadata(recipe.inputs.front()).shape;
    if (shape.size() == 3) {
      const bool out_of_heads = recipe.inputs.front().find(kOutput) != std::string::npos;
      recipe.concat_axis = 1;
      recipe.steps.push_back(out_of_heads ? Transform::reshape({-1, shape[2]})
                                          : Transform::reshape({shape[0], -1}));
    }
    if (!conv1d && shape.size() >= 2) recipe.steps.push_back(Transform::transpose());
  }

  const WeightSource& source_;
  std::vector<TensorRecipe> recipes_;
  std::set<std::string> used_;
};

bool has_block(const WeightSource& source, const std::string& block) {
  return source.is_available(fmt::format("layers/{}/{}/vars/0", block, kQuery));
}

}  // namespace

std::shared_ptr<const WeightSource> from_keras_hub(const std::shared_ptr<const WeightSource>& source) {
  for (const KerasFamily& family : families()) {
    if (!has_block(*source, std::string(family.block))) continue;
    Namer namer(*source);
    for (const KerasLayer& layer : family.layers) namer.add(layer, "", "", family.conv1d);
    std::string block(family.block);
    for (int i = 0; has_block(*source, block); block = fmt::format("{}_{}", family.block, ++i)) {
      std::string torch(family.torch_block);
      torch.replace(torch.find('#'), 1, std::to_string(i));
      for (const KerasLayer& layer : family.in_block) {
        namer.add(layer, block + "/", torch + ".", family.conv1d);
      }
    }
    return std::make_shared<TransformedSource>(source, namer.finish());
  }
  return nullptr;
}

std::optional<std::string> keras_hub_config(std::string_view text, const std::string& path) {
  const ConfigFile file(text, path);
  std::string module, kind;
  file.read("module", module);
  file.read("class_name", kind);
  if (!module.starts_with("keras_hub.") && !module.starts_with("keras_nlp.")) return std::nullopt;
  const bool bert = kind == "BertBackbone";
  INGOT_CHECK(
      bert || kind == "GPT2Backbone",
      NotImplemented(fmt::format("{}: Keras-Hub's {}; BertBackbone and GPT2Backbone are read", path, kind)));
  const auto settings = file.object("config");
  INGOT_CHECK(settings.has_value(), FormatError(path, -1, "config", "is missing"));
  // What the classes themselves fix comes last.
  std::vector<std::pair<const char*, const char*>> numbers;
  nlohmann::ordered_json json;
  if (bert) {
    json = {{"model_type", "bert"}, {"architectures", {"BertModel"}}, {"hidden_act", "gelu_pytorch_tanh"}};
    json["layer_norm_eps"] = 1e-12;
    numbers = {{"vocabulary_size", "vocab_size"},         {"num_layers", "num_hidden_layers"},
               {"num_heads", "num_attention_heads"},      {"hidden_dim", "hidden_size"},
               {"intermediate_dim", "intermediate_size"}, {"max_sequence_length", "max_position_embeddings"},
               {"num_segments", "type_vocab_size"}};
  } else {
    json = {
        {"model_type", "gpt2"}, {"architectures", {"GPT2LMHeadModel"}}, {"activation_function", "gelu_new"}};
    json["layer_norm_epsilon"] = 1e-5;
    json["tie_word_embeddings"] = true;
    numbers = {{"vocabulary_size", "vocab_size"}, {"num_layers", "n_layer"},
               {"num_heads", "n_head"},           {"hidden_dim", "n_embd"},
               {"intermediate_dim", "n_inner"},   {"max_sequence_length", "n_positions"}};
  }
  for (const auto& [theirs, ours] : numbers) {
    INGOT_CHECK(settings->has(theirs), FormatError(path, -1, fmt::format("config.{}", theirs), "is missing"));
    std::int64_t value = 0;
    settings->read(theirs, value);
    json[ours] = value;
  }
  return dump_json(json, 2);
}

}  // namespace ingot
