#include "ingot/models/encoder/config.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/base/error.h"
#include "ingot/base/json.h"
#include "ingot/models/config_file.h"
#include "ingot/models/encoder/family.h"
#include "ingot/models/encoder/relative_bias.h"
#include "ingot/models/registry.h"
#include "ingot/models/require.h"
#include "ingot/models/rope_keys.h"

namespace ingot {
namespace {

void write_labels(const Labels& labels, nlohmann::ordered_json& json) {
  if (labels.of == LabelsOf::nothing) return;
  for (std::size_t i = 0; i < labels.names.size(); ++i) {
    json["id2label"][std::to_string(i)] = labels.names[i];
    json["label2id"][labels.names[i]] = i;
  }
  if (labels.problem.has_value()) json["problem_type"] = name(*labels.problem);
  if (labels.activation.empty()) return;
  const bool identity = labels.activation == "Identity";
  json["sentence_transformers"]["activation_fn"] =
      fmt::format("torch.nn.modules.{}.{}", identity ? "linear" : "activation", labels.activation);
}

}  // namespace

void EncoderConfig::validate() {
  require_size(num_hidden_layers, "num_hidden_layers", kMaxModelLayers);
  require_size(vocab_size, "vocab_size", kMaxVocabulary);
  require_size(hidden_size, "hidden_size");
  require_size(intermediate_size, "intermediate_size");
  require_size(num_attention_heads, "num_attention_heads");
  if (embedding_size != 0) require_size(embedding_size, "embedding_size");
  if (num_hidden_groups != 0) {
    require_size(num_hidden_groups, "num_hidden_groups", num_hidden_layers);
    INGOT_CHECK(num_hidden_layers % num_hidden_groups == 0,
                InvalidConfig("num_hidden_groups", fmt::format("{} does not divide num_hidden_layers {}",
                                                               num_hidden_groups, num_hidden_layers)));
  }
  INGOT_CHECK(
      relative_attention_num_buckets == 0 || relative_attention_num_buckets == kRelativePositionBuckets,
      InvalidConfig(
          "relative_attention_num_buckets",
          fmt::format("must be {}, got {}", kRelativePositionBuckets, relative_attention_num_buckets)));
  require_size(max_position_embeddings, "max_position_embeddings", kMaxVocabulary);
  if (type_vocab_size != 0) require_size(type_vocab_size, "type_vocab_size", kMaxVocabulary);
  INGOT_CHECK(context() > 0, InvalidConfig("max_position_embeddings",
                                           fmt::format("{} leaves no position behind the padding's {}",
                                                       max_position_embeddings, position_offset - 1)));
  if (attention_head_size != 0) require_size(attention_head_size, "head_dim");
  INGOT_CHECK(attention_head_size != 0 || hidden_size % num_attention_heads == 0,
              InvalidConfig("num_attention_heads", fmt::format("{} does not divide hidden_size {}",
                                                               num_attention_heads, hidden_size)));
  if (is_rotary()) validate_rope(rope_scaling, rotary(), head_dim());
  if (relative_attention) require_size(max_relative_positions, "max_relative_positions", kMaxVocabulary);
  if (position_buckets != 0) {
    require_size(position_buckets, "position_buckets", kMaxVocabulary);
    require(position_buckets >= 2 && max_relative_positions - 1 > position_buckets / 2, "position_buckets",
            fmt::format("must be at least 2, and half of them below max_relative_positions {} less 1; got {}",
                        max_relative_positions, position_buckets));
  }
  if (conv_kernel_size != 0) {
    require_size(conv_kernel_size, "conv_kernel_size");
    require(conv_kernel_size % 2 == 1, "conv_kernel_size",
            fmt::format("must be odd, as texts keep their length; got {}", conv_kernel_size));
    require(conv_groups > 0 && hidden_size % conv_groups == 0, "conv_groups",
            fmt::format("{} does not divide hidden_size {}", conv_groups, hidden_size));
  }
  const auto layers = static_cast<std::int64_t>(sliding_layers.size());
  INGOT_CHECK(layers == 0 || layers == num_hidden_layers,
              InvalidConfig("layer_types", fmt::format("names {} layers; num_hidden_layers is {}", layers,
                                                       num_hidden_layers)));
  INGOT_CHECK(layer_norm_eps > 0,
              InvalidConfig("layer_norm_eps", fmt::format("must be positive, got {}", layer_norm_eps)));
}

EncoderConfig EncoderConfig::from_json(std::string_view text, const std::string& path) {
  ConfigFile file(text, path);
  EncoderConfig config;
  config.model_type.clear();
  file.read("model_type", config.model_type);
  if (config.model_type.empty() && path.ends_with(kGoogleBertConfig)) config.model_type = "bert";
  const EncoderFamily* family = find_encoder_family(config.model_type);
  if (family == nullptr) throw_unsuitable_model(config.model_type, ModelTask::embed, path);
  file = file.over(family->defaults);
  file.read("vocab_size", config.vocab_size);
  file.read("max_position_embeddings", config.max_position_embeddings);
  file.read("initializer_range", config.initializer_range);
  file.read("pad_token_id", config.pad_token_id);
  file.read_dtype(config.dtype);
  bool tied = true;
  file.read("tie_word_embeddings", tied);
  INGOT_CHECK(tied, NotImplemented(path + ": an encoder with tie_word_embeddings off"));
  family->read(file, config);
  config.labels = Labels::read(file);
  config.validate();
  return config;
}

std::string EncoderConfig::to_json() const {
  const EncoderFamily& family = *find_encoder_family(model_type);
  const std::string architecture =
      family.class_name(labels.of == LabelsOf::texts    ? "ForSequenceClassification"
                        : labels.of == LabelsOf::tokens ? "ForTokenClassification"
                        : !masked_lm_head               ? "Model"
                        : pooler && (model_type == "bert" || model_type == "albert") ? "ForPreTraining"
                                                                                     : "ForMaskedLM");
  nlohmann::ordered_json json{{"architectures", {architecture}},
                              {"model_type", model_type},
                              {"vocab_size", vocab_size},
                              {"max_position_embeddings", max_position_embeddings},
                              {"initializer_range", initializer_range},
                              {"pad_token_id", pad_token_id},
                              {"torch_dtype", torch_name(dtype)}};
  family.write(*this, json);
  write_labels(labels, json);
  return dump_json(json, 2) + "\n";
}

}  // namespace ingot
