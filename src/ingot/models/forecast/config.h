#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ingot {

class ConfigReader;
struct ConfigSection;

/// The size and kind of a forecasting network. Which of the options below `model` reads stands beside them;
/// the names are those of the papers' code.
struct ForecastModelConfig {
  std::string model = "dlinear";   ///< see forecast_models()
  std::int64_t lookback = 336;     ///< steps that are read
  std::int64_t horizon = 96;       ///< steps that are forecast
  std::int64_t channels = 1;       ///< series that are read
  std::int64_t time_features = 0;  ///< calendar features per step
  std::int64_t future_inputs = 0;  ///< inputs per step that are known over the horizon, too

  bool individual = false;           ///< dlinear, nlinear: weights of its own for every channel
  std::int64_t moving_average = 25;  ///< dlinear, autoformer: window of the trend; dlinear's is odd

  // patchtst, itransformer, autoformer, fedformer; timesnet has no heads
  std::int64_t d_model = 128, heads = 8, layers = 2, d_ff = 256;
  double dropout = 0.1;
  double attention_dropout = 0, head_dropout = 0, positional_dropout = 0;
  double projection_dropout = 0;  ///< patchtst: of the attention's output, before `dropout`
  std::string activation = "gelu";
  bool normalize_window = true;  ///< every window is brought to mean 0 and deviation 1, and back (RevIN)

  // patchtst
  std::int64_t patch_length = 16, patch_stride = 8;
  bool pad_end = true;             ///< repeats the last value for one more patch; else the first rest goes
  bool residual_attention = true;  ///< scores are added to those of the layer before (He et al. 2020)
  bool pre_norm = false;
  std::string norm = "batchnorm";  ///< or "layernorm"
  double norm_eps = 1e-5;
  std::string positions = "learned";  ///< or "sincos", fixed
  bool channel_attention = false;     ///< channel-mixing: attends across channels too
  bool share_embedding = true;        ///< one patch embedding for all channels
  bool share_head = true;             ///< one head for all channels
  bool feature_major_head = true;     ///< the head reads [d_model, patches], not [patches, d_model]
  std::string scaling = "std";        ///< of windows: "std", or "mean" (transformers)
  bool cls_token = false;
  std::string pooling;  ///< "", "mean" or "max" over patches before the head

  // timesnet
  std::int64_t top_k = 5;    ///< periods that a block looks at
  std::int64_t kernels = 6;  ///< sizes of convolution: 1, 3, 5, ...

  // autoformer, fedformer
  std::int64_t label_length = 0;    ///< last steps that the decoder starts from; 0: half of the look-back
  std::int64_t decoder_layers = 1;  ///< `layers` are the encoder's
  bool follow_paper = false;        ///< the paper's text where the published code does something else
  double factor = 3;                ///< autoformer: factor · ln(steps) delays are averaged over

  // fedformer
  std::vector<std::int64_t> moving_averages{24};  ///< windows of the trend; several are mixed
  std::string version = "fourier";                ///< or "wavelets"
  std::int64_t modes = 64;                        ///< frequencies that are kept
  std::string mode_select = "random";             ///< which: or "low"
  std::uint64_t mode_seed = 2021;                 ///< of the random choice
  std::string cross_activation = "tanh";          ///< or "softmax"
  std::int64_t wavelet_order = 8;                 ///< Legendre polynomials to a step
  std::int64_t wavelet_channels = 128;            ///< series of them that d_model is projected to
  std::int64_t wavelet_modes = 16;                ///< frequencies that a level keeps
  std::int64_t wavelet_skip = 3;                  ///< coarsest levels that stay whole, but in cross-attention

  /// What the model's paper uses on ETTh1. InvalidConfig that suggests the nearest for another name.
  static ForecastModelConfig defaults(std::string_view model, std::int64_t horizon = 96);
  /// Throws InvalidConfig naming the key.
  void validate() const;
  std::int64_t patches() const;
  /// Steps of the look-back that the decoder starts from: label_length, or its default.
  std::int64_t start_length() const { return label_length > 0 ? label_length : lookback / 2; }
};

/// Reads the keys above over `base`. Does not validate.
ForecastModelConfig read_forecast_model(const ConfigReader& reader, ForecastModelConfig base);
/// Keys that differ from the defaults of config.model though no model of that name reads them.
std::vector<std::string> keys_without_effect(const ForecastModelConfig& config);

/// The keys, with the models that read them, for help and the reference pages.
ConfigSection forecast_model_reference();
/// As a JSON object that read_forecast_model takes back (JSON is YAML).
std::string to_json(const ForecastModelConfig& config);

/// "dlinear", "nlinear", ...
const std::vector<std::string>& forecast_models();

}  // namespace ingot
