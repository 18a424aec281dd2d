#include "ingot/models/forecast/config.h"

#include <algorithm>
#include <functional>
#include <type_traits>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/base/config.h"
#include "ingot/base/config_table.h"
#include "ingot/base/error.h"
#include "ingot/base/json.h"
#include "ingot/base/suggest.h"
#include "ingot/models/require.h"
#include "ingot/nn/activation.h"

namespace ingot {
namespace {

// Models, as bits in the order of forecast_models().
using Models = unsigned;
constexpr Models kDLinear = 1, kNLinear = 2, kPatchTst = 4, kITransformer = 8, kTimesNet = 16,
                 kAutoformer = 32, kFedformer = 64;
constexpr Models kDecomposition = kAutoformer | kFedformer;
constexpr Models kNetworks = kPatchTst | kITransformer | kTimesNet | kDecomposition;
constexpr Models kAll = kDLinear | kNLinear | kNetworks;

// Every key once, with the models that read it: for reading, writing and listing.
template <class Config, class F>
void for_each_key(Config&& c, F&& f) {
  f("model", c.model, kAll);
  f("lookback", c.lookback, kAll);
  f("horizon", c.horizon, kAll);
  f("channels", c.channels, kAll);
  f("time_features", c.time_features, kAll);
  f("future_inputs", c.future_inputs, kAll);
  f("individual", c.individual, kDLinear | kNLinear);
  f("moving_average", c.moving_average, kDLinear | kAutoformer);
  f("d_model", c.d_model, kNetworks);
  f("heads", c.heads, kNetworks & ~kTimesNet);
  f("layers", c.layers, kNetworks);
  f("d_ff", c.d_ff, kNetworks);
  f("dropout", c.dropout, kNetworks);
  f("attention_dropout", c.attention_dropout, kPatchTst | kITransformer);
  f("head_dropout", c.head_dropout, kPatchTst);
  f("positional_dropout", c.positional_dropout, kPatchTst);
  f("projection_dropout", c.projection_dropout, kPatchTst);
  f("activation", c.activation, kNetworks & ~kTimesNet);
  f("normalize_window", c.normalize_window, kPatchTst | kITransformer | kTimesNet);
  f("patch_length", c.patch_length, kPatchTst);
  f("patch_stride", c.patch_stride, kPatchTst);
  f("pad_end", c.pad_end, kPatchTst);
  f("residual_attention", c.residual_attention, kPatchTst);
  f("pre_norm", c.pre_norm, kPatchTst);
  f("norm", c.norm, kPatchTst);
  f("norm_eps", c.norm_eps, kPatchTst);
  f("positions", c.positions, kPatchTst);
  f("channel_attention", c.channel_attention, kPatchTst);
  f("share_embedding", c.share_embedding, kPatchTst);
  f("share_head", c.share_head, kPatchTst);
  f("feature_major_head", c.feature_major_head, kPatchTst);
  f("scaling", c.scaling, kPatchTst);
  f("cls_token", c.cls_token, kPatchTst);
  f("pooling", c.pooling, kPatchTst);
  f("top_k", c.top_k, kTimesNet);
  f("kernels", c.kernels, kTimesNet);
  f("label_length", c.label_length, kDecomposition);
  f("decoder_layers", c.decoder_layers, kDecomposition);
  f("follow_paper", c.follow_paper, kDecomposition);
  f("factor", c.factor, kAutoformer);
  f("moving_averages", c.moving_averages, kFedformer);
  f("version", c.version, kFedformer);
  f("modes", c.modes, kFedformer);
  f("mode_select", c.mode_select, kFedformer);
  f("mode_seed", c.mode_seed, kFedformer);
  f("cross_activation", c.cross_activation, kFedformer);
  f("wavelet_order", c.wavelet_order, kFedformer);
  f("wavelet_channels", c.wavelet_channels, kFedformer);
  f("wavelet_modes", c.wavelet_modes, kFedformer);
  f("wavelet_skip", c.wavelet_skip, kFedformer);
}

void require_positive(const char* key, std::int64_t value) {
  require(value > 0, key, fmt::format("must be at least 1, got {}", value));
  require(value <= kMaxVocabulary, key, fmt::format("is {}; {} at most are allowed", value, kMaxVocabulary));
}

void require_rate(const char* key, double value) {
  require(value >= 0 && value < 1, key, fmt::format("must be in [0, 1), got {}", value));
}

void require_word(const char* key, const std::string& value, const std::vector<std::string>& allowed) {
  require(std::ranges::find(allowed, value) != allowed.end(), key,
          fmt::format("is '{}', expected one of {}{}", value, fmt::join(allowed, ", "),
                      did_you_mean(value, allowed)));
}

void validate_patches(const ForecastModelConfig& c) {
  require_positive("patch_length", c.patch_length);
  require_positive("patch_stride", c.patch_stride);
  require(c.patch_length <= c.lookback, "patch_length",
          fmt::format("{} is longer than the look-back of {}", c.patch_length, c.lookback));
  require_word("norm", c.norm, {"batchnorm", "layernorm"});
  require_word("positions", c.positions, {"learned", "sincos"});
  require_word("scaling", c.scaling, {"std", "mean"});
  require_word("pooling", c.pooling, {"", "mean", "max"});
  require(!c.cls_token || c.pooling.empty(), "pooling", "does not go with cls_token");
  require(!c.residual_attention || !c.channel_attention, "channel_attention",
          "does not go with residual_attention");
}

void validate_decomposition(const ForecastModelConfig& c) {
  require(c.label_length >= 0 && c.label_length <= c.lookback, "label_length",
          fmt::format("must be from 0 to the look-back of {}, got {}", c.lookback, c.label_length));
  require_size(c.decoder_layers, "decoder_layers", kMaxModelLayers);
  require_positive("moving_average", c.moving_average);
  require(c.factor > 0, "factor", fmt::format("must be positive, got {}", c.factor));
  if (c.model != "fedformer") return;
  require(!c.moving_averages.empty(), "moving_averages", "must name at least one window");
  for (const std::int64_t window : c.moving_averages) require_positive("moving_averages", window);
  require_word("version", c.version, {"fourier", "wavelets"});
  require_positive("modes", c.modes);
  require_word("mode_select", c.mode_select, {"random", "low"});
  require_word("cross_activation", c.cross_activation, {"tanh", "softmax"});
  require(c.wavelet_order >= 1 && c.wavelet_order <= 16, "wavelet_order",
          fmt::format("must be from 1 to 16, got {}", c.wavelet_order));
  require_positive("wavelet_channels", c.wavelet_channels);
  require_positive("wavelet_modes", c.wavelet_modes);
  require(c.wavelet_skip >= 0, "wavelet_skip", fmt::format("must not be negative, got {}", c.wavelet_skip));
}

}  // namespace

const std::vector<std::string>& forecast_models() {
  static const std::vector<std::string> names{"dlinear",  "nlinear",    "patchtst", "itransformer",
                                              "timesnet", "autoformer", "fedformer"};
  return names;
}

ForecastModelConfig ForecastModelConfig::defaults(std::string_view model, std::int64_t horizon) {
  const auto& names = forecast_models();
  INGOT_CHECK(std::ranges::find(names, model) != names.end(),
              InvalidConfig("model", fmt::format("'{}' is not known; expected one of {}{}", model,
                                                 fmt::join(names, ", "), did_you_mean(model, names))));
  ForecastModelConfig c;
  c.model = model;
  c.horizon = horizon;
  if (model == "patchtst") {
    c.d_model = 16;
    c.heads = 4;
    c.layers = 3;
    c.d_ff = 128;
    c.dropout = c.positional_dropout = c.projection_dropout = 0.3;
  } else if (model == "itransformer") {
    c.lookback = 96;
    c.d_model = c.d_ff = horizon > 192 ? 512 : 256;
    c.attention_dropout = 0.1;
  } else if (model == "timesnet") {
    c.lookback = 96;
    c.d_model = 16;
    c.d_ff = 32;
  } else if (model == "autoformer" || model == "fedformer") {
    c.lookback = 96;
    c.d_model = 512;
    c.d_ff = 2048;
    c.dropout = 0.05;
  }
  return c;
}

void ForecastModelConfig::validate() const {
  static_cast<void>(defaults(model));
  require_positive("lookback", lookback);
  require_positive("horizon", horizon);
  require_positive("channels", channels);
  require(time_features >= 0, "time_features", "must not be negative");
  require(future_inputs >= 0 && future_inputs <= kMaxVocabulary, "future_inputs",
          fmt::format("must be from 0 to {}, got {}", kMaxVocabulary, future_inputs));
  if (model == "dlinear" || model == "nlinear") {
    require(moving_average > 0 && moving_average % 2 == 1, "moving_average",
            fmt::format("must be odd and positive, got {}", moving_average));
    require_positive("moving_average", moving_average);
    return;
  }
  for (const auto& [key, value] : {std::pair{"d_model", d_model},
                                   {"layers", layers},
                                   {"d_ff", d_ff},
                                   {"top_k", top_k},
                                   {"kernels", kernels}})
    require_positive(key, value);
  require_size(layers, "layers", kMaxModelLayers);
  require_size(kernels, "kernels", kMaxModelLayers);
  require_positive("heads", heads);
  require(model == "timesnet" || d_model % heads == 0, "heads",
          fmt::format("{} do not divide a d_model of {}", heads, d_model));
  require_rate("dropout", dropout);
  require_rate("attention_dropout", attention_dropout);
  require_rate("head_dropout", head_dropout);
  require_rate("positional_dropout", positional_dropout);
  require_rate("projection_dropout", projection_dropout);
  require(norm_eps > 0, "norm_eps", fmt::format("must be positive, got {}", norm_eps));
  static_cast<void>(parse_activation(activation, "activation"));
  if (model == "patchtst") validate_patches(*this);
  if (model == "autoformer" || model == "fedformer") validate_decomposition(*this);
}

std::int64_t ForecastModelConfig::patches() const {
  return (std::max(lookback, patch_length) - patch_length) / patch_stride + 1 + (pad_end ? 1 : 0);
}

ForecastModelConfig read_forecast_model(const ConfigReader& reader, ForecastModelConfig base) {
  for_each_key(base, [&](const char* key, auto& value, Models) { value = reader.get(key, value); });
  return base;
}

ConfigSection forecast_model_reference() {
  ConfigSection section{"Model", {}};
  for_each_key(ForecastModelConfig{}, [&](const char* key, const auto& value, Models readers) {
    using T = std::remove_cvref_t<decltype(value)>;
    std::string models = "every model";
    if (readers != kAll) {
      models.clear();
      for (std::size_t i = 0; i < forecast_models().size(); ++i)
        if ((readers >> i & 1) != 0) models += (models.empty() ? "" : ", ") + forecast_models()[i];
    }
    section.keys.push_back({.key = key,
                            .aliases = {},
                            .kind = config_detail::kind_text<T>(FieldOptions{}),
                            .default_value = config_detail::value_text<T>(value),
                            .unit = "",
                            .doc = "Of " + models + "; each model has defaults of its own."});
  });
  return section;
}

std::vector<std::string> keys_without_effect(const ForecastModelConfig& config) {
  const auto own = std::ranges::find(forecast_models(), config.model) - forecast_models().begin();
  std::vector<std::string> keys;
  const auto unset = nlohmann::ordered_json::parse(to_json(ForecastModelConfig::defaults(config.model)));
  for_each_key(config, [&](const char* key, const auto& value, Models readers) {
    if ((readers >> own & 1) == 0 && unset.at(key) != value) keys.emplace_back(key);
  });
  return keys;
}

std::string to_json(const ForecastModelConfig& config) {
  nlohmann::ordered_json json;
  for_each_key(config, [&](const char* key, const auto& value, Models) { json[key] = value; });
  return dump_json(json, 2);
}

}  // namespace ingot
