#include <nlohmann/json.hpp>

#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/base/json.h"
#include "ingot/models/forecast/patchtst.h"
#include "ingot/weights/safetensors_writer.h"

namespace ingot {
namespace {

// The value of a key of the right type, or the default that transformers has.
template <class T>
T value(const nlohmann::json& json, const std::string& path, const char* key, T fallback) {
  const auto at = json.find(key);
  if (at == json.end() || at->is_null()) return fallback;
  try {
    return at->get<T>();
  } catch (const nlohmann::json::exception&) {
    throw FormatError(path, -1, key, "has a value of the wrong type: " + excerpt(*at, 60));
  }
}

// null: off; "std"; "mean" or true: by magnitude.
void read_scaling(const nlohmann::json& json, const std::string& path, ForecastModelConfig& c) {
  const auto at = json.find("scaling");
  const nlohmann::json scaling = at == json.end() ? nlohmann::json("std") : *at;
  c.normalize_window = !(scaling.is_null() || (scaling.is_boolean() && !scaling.get<bool>()));
  if (!c.normalize_window) return;
  c.scaling = scaling.is_boolean() ? "mean" : value<std::string>(json, path, "scaling", "std");
}

}  // namespace

ForecastModelConfig patchtst_from_transformers(const std::string& text, const std::string& path) {
  const nlohmann::json json = parse_json<nlohmann::json>(text, path, "config.json");
  INGOT_CHECK(json.is_object(), FormatError(path, -1, "config.json", "is not a JSON object"));
  const auto type = value<std::string>(json, path, "model_type", "");
  INGOT_CHECK(type == "patchtst",
              FormatError(path, -1, "model_type", "is '" + type + "', expected patchtst"));
  const auto loss = value<std::string>(json, path, "loss", "mse");
  INGOT_CHECK(loss == "mse", NotImplemented(path + ": a PatchTST with a distribution head (loss '" + loss +
                                            "'); only those trained with loss 'mse' forecast points"));
  ForecastModelConfig c;
  c.model = "patchtst";
  c.lookback = value<std::int64_t>(json, path, "context_length", 32);
  c.horizon = value<std::int64_t>(json, path, "prediction_length", 24);
  c.channels = value<std::int64_t>(json, path, "num_input_channels", 1);
  c.d_model = value<std::int64_t>(json, path, "d_model", 128);
  c.heads = value<std::int64_t>(json, path, "num_attention_heads", 4);
  c.layers = value<std::int64_t>(json, path, "num_hidden_layers", 3);
  c.d_ff = value<std::int64_t>(json, path, "ffn_dim", 512);
  c.patch_length = value<std::int64_t>(json, path, "patch_length", 1);
  c.patch_stride = value<std::int64_t>(json, path, "patch_stride", 1);
  c.pad_end = c.residual_attention = c.feature_major_head = false;
  c.pre_norm = value(json, path, "pre_norm", true);
  c.norm = value<std::string>(json, path, "norm_type", "batchnorm");
  c.norm_eps = value(json, path, "norm_eps", 1e-5);
  c.positions =
      value<std::string>(json, path, "positional_encoding_type", "sincos") == "random" ? "learned" : "sincos";
  c.channel_attention = value(json, path, "channel_attention", false);
  c.share_embedding = value(json, path, "share_embedding", true);
  c.share_head = value(json, path, "share_projection", true);
  c.cls_token = value(json, path, "use_cls_token", false);
  if (!c.cls_token && !(json.contains("pooling_type") && json["pooling_type"].is_null())) {
    c.pooling = value<std::string>(json, path, "pooling_type", "mean");
  }
  c.activation = value<std::string>(json, path, "activation_function", "gelu");
  c.dropout = value(json, path, "path_dropout", 0.0);
  c.attention_dropout = value(json, path, "attention_dropout", 0.0);
  c.positional_dropout = value(json, path, "positional_dropout", 0.0);
  c.head_dropout = value(json, path, "head_dropout", 0.0);
  read_scaling(json, path, c);
  c.validate();
  return c;
}

std::string patchtst_to_transformers(const ForecastModelConfig& c) {
  const auto lacks = [](bool set, const char* key) {
    INGOT_CHECK(!set, InvalidConfig(key, "is not in transformers' PatchTST; only false can be written"));
  };
  INGOT_CHECK(c.model == "patchtst", InvalidConfig("model", "is '" + c.model + "', expected patchtst"));
  lacks(c.pad_end, "pad_end");
  lacks(c.residual_attention, "residual_attention");
  lacks(c.feature_major_head, "feature_major_head");
  const auto or_null = [](bool there, const std::string& text) {
    return there ? nlohmann::json(text) : nlohmann::json();
  };
  const nlohmann::ordered_json json{
      {"architectures", {"PatchTSTForPrediction"}},
      {"model_type", "patchtst"},
      {"context_length", c.lookback},
      {"prediction_length", c.horizon},
      {"num_input_channels", c.channels},
      {"d_model", c.d_model},
      {"num_attention_heads", c.heads},
      {"num_hidden_layers", c.layers},
      {"ffn_dim", c.d_ff},
      {"patch_length", c.patch_length},
      {"patch_stride", c.patch_stride},
      {"pre_norm", c.pre_norm},
      {"norm_type", c.norm},
      {"norm_eps", c.norm_eps},
      {"positional_encoding_type", c.positions == "learned" ? "random" : "sincos"},
      {"channel_attention", c.channel_attention},
      {"share_embedding", c.share_embedding},
      {"share_projection", c.share_head},
      {"use_cls_token", c.cls_token},
      {"pooling_type", or_null(!c.pooling.empty(), c.pooling)},
      {"activation_function", c.activation},
      {"path_dropout", c.dropout},
      {"attention_dropout", c.attention_dropout},
      {"positional_dropout", c.positional_dropout},
      {"head_dropout", c.head_dropout},
      {"scaling", or_null(c.normalize_window, c.scaling)},
      {"loss", "mse"}};
  return dump_json(json, 2) + "\n";
}

void write_patchtst(const std::string& directory, ForecastModel& model) {
  const std::string config = patchtst_to_transformers(model.config());
  std::map<std::string, Tensor> ours;
  for (const auto& [name, parameter] : named_parameters(model)) {
    ours[name] = parameter->value.detach();
    // PyTorch's count of the batches that running statistics saw; with a fixed momentum it changes nothing.
    constexpr std::string_view kMean = ".running_mean";
    if (name.ends_with(kMean))
      ours[name.substr(0, name.size() - kMean.size()) + ".num_batches_tracked"] =
          Tensor::zeros({}, DType::i64);
  }
  std::vector<StoredTensor> stored;
  for (const auto& [name, tensor] : export_tensors(ForecastModel::weight_map(model.config()), ours))
    stored.push_back(StoredTensor::of(name, tensor));
  make_directories(directory);
  write_file_atomically(directory + "/config.json", config);
  write_safetensors_directory(directory, stored);
}

}  // namespace ingot
