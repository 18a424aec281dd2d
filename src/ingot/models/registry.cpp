#include "ingot/models/registry.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <iterator>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ingot/base/config.h"
#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/base/suggest.h"
#include "ingot/models/config_file.h"
#include "ingot/models/encoder/bert.h"
#include "ingot/models/encoder/family.h"
#include "ingot/models/forecast/patchtst.h"
#include "ingot/models/language/checkpoint.h"
#include "ingot/models/language/decoder.h"
#include "ingot/models/language/family.h"
#include "ingot/models/opened_config.h"
#include "ingot/models/policy/dual_pool_net.h"
#include "ingot/models/policy/rank_net.h"
#include "ingot/models/tensorflow_names.h"

namespace ingot {
namespace {

using enum ModelTask;

// What a family of decoders says of itself, as a row here.
ModelInfo row_of(const LanguageFamily& family) {
  ModelInfo info{.name = std::string(family.model_type),
                 .summary = std::string(family.summary),
                 .architectures = {std::string(family.architecture)},
                 .variants = family.variants,
                 .repositories = family.repositories,
                 .tasks = {generate, train},
                 .gguf = std::string(family.gguf.architecture),
                 .gguf_written = !family.gguf.read_only};
  for (const std::string_view more : family.more_architectures) info.architectures.emplace_back(more);
  return info;
}

// What a family of encoders says of itself.
ModelInfo row_of(const EncoderFamily& family) {
  ModelInfo info{.name = std::string(family.model_type),
                 .summary = std::string(family.summary),
                 .architectures = {},
                 .variants = family.variants,
                 .repositories = family.repositories,
                 .tasks = {embed, masked_lm, classify},
                 .gguf = std::string(family.gguf)};
  for (const char* head :
       {"Model", "ForMaskedLM", "ForPreTraining", "ForSequenceClassification", "ForTokenClassification"}) {
    info.architectures.push_back(family.class_name(head));
  }
  return info;
}

std::vector<ModelInfo> other_rows() {
  return {
      {.name = "patchtst",
       .summary = "PatchTST: patches of a window as the tokens of an encoder",
       .architectures = {"PatchTSTForPrediction"},
       .variants = {"channel-independent or channel-mixing", "batch or layer norms",
                    "learned or sine positions", "class token, pooling or a flattened head"},
       .repositories = {"ibm-granite/granite-timeseries-patchtst", "namctin/patchtst_etth1_forecast"},
       .tasks = {forecast}},
      {.name = "itransformer",
       .summary = "iTransformer: series as the tokens of an encoder",
       .architectures = {},
       .variants = {"calendar features as tokens, or none"},
       .repositories = {},
       .tasks = {forecast}},
      {.name = "timesnet",
       .summary = "TimesNet: a window folded at its periods, and convolutions over both ways",
       .architectures = {},
       .variants = {"calendar features, or none"},
       .repositories = {},
       .tasks = {forecast}},
      {.name = "dlinear",
       .summary = "DLinear: one linear map for the trend, one for the rest",
       .architectures = {},
       .variants = {"one map for all channels, or one for each"},
       .repositories = {},
       .tasks = {forecast}},
      {.name = "nlinear",
       .summary = "NLinear: a linear map of what differs from the last value",
       .architectures = {},
       .variants = {"one map for all channels, or one for each"},
       .repositories = {},
       .tasks = {forecast}},
      {.name = "autoformer",
       .summary = "Autoformer: auto-correlation of series, trends split off after every step",
       .architectures = {},
       .variants = {"delays of a batch or of each window"},
       .repositories = {},
       .tasks = {forecast}},
      {.name = "fedformer",
       .summary = "FEDformer: products and attention of frequencies, trends split off after every step",
       .architectures = {},
       .variants = {"Fourier or multiwavelets", "one trend window or several",
                    "as published or as in the paper"},
       .repositories = {},
       .tasks = {forecast}},
      {.name = std::string(kDualPoolNet),
       .summary = "pre-activation SE-ResNet that plays mahjong (docs/self-play.md)",
       .architectures = {},
       .variants = {"85 channels, or 96 with context", "a final norm, or none"},
       .repositories = {},
       .tasks = {play}},
      {.name = std::string(kRankNet),
       .summary = "odds of final places from scores, a reward for self-play in mahjong",
       .architectures = {},
       .variants = {"any width"},
       .repositories = {},
       .tasks = {}},
  };
}

const std::vector<ModelInfo>& rows() {
  static const std::vector<ModelInfo> kRows = [] {
    std::vector<ModelInfo> all;
    for (const LanguageFamily& family : language_families()) all.push_back(row_of(family));
    for (const EncoderFamily& family : encoder_families()) all.push_back(row_of(family));
    std::ranges::move(other_rows(), std::back_inserter(all));
    return all;
  }();
  return kRows;
}

std::vector<std::string> names_that_can(ModelTask task) {
  std::vector<std::string> names;
  for (const ModelInfo& info : rows()) {
    if (info.can(task)) names.push_back(info.name);
  }
  return names;
}

OpenedConfig open_gguf_config(const std::string& file) {
  OpenedConfig opened{.path = file};
  try {
    ModelCheckpoint checkpoint = open_checkpoint(file);
    opened.text = std::move(checkpoint.config_json);
    opened.weights = std::move(checkpoint.weights);
  } catch (const Error& error) {  // a file of tensors alone, or of a family that Ingot has not
    opened.problem = fmt::format("no model that Ingot runs ({})", error.what());
  }
  return opened;
}

// The network of a directory that `ingot forecast fit` wrote.
ForecastModelConfig read_own_forecaster(const ConfigFile& file) {
  const auto fit = file.object("fit");
  INGOT_CHECK(fit.has_value(), FormatError(file.path(), -1, "fit", "is missing"));
  Config config = Config::parse(fit->text(), file.path());
  return read_forecast_model(config.root(), {});
}

constexpr std::string_view kOwnForecaster = "ingot_forecast";

}  // namespace

ForecastModelConfig read_forecaster(const OpenedConfig& opened) {
  const ConfigFile file(opened.text, opened.path);
  std::string type;
  file.read("model_type", type);
  return type == kOwnForecaster ? read_own_forecaster(file)
                                : patchtst_from_transformers(opened.text, opened.path);
}

OpenedConfig open_config(const std::string& path) {
  const bool gguf = path.ends_with(".gguf") && !std::filesystem::is_directory(path);
  OpenedConfig opened = gguf ? open_gguf_config(path) : OpenedConfig{.path = config_path_in(path)};
  if (!gguf && std::filesystem::exists(opened.path)) opened.text = read_model_config(opened.path);
  if (opened.text.empty()) return opened;
  const ConfigFile file(opened.text, opened.path);
  std::string type = text_model_type(opened.text, opened.path);
  if (type.empty() && opened.path.ends_with(kGoogleBertConfig)) type = "bert";
  if (type == kOwnForecaster) type = read_own_forecaster(file).model;
  opened.info = find_model(type);
  if (opened.info != nullptr) return opened;
  opened.problem = type.empty() ? "of unknown kind: config.json names no model_type"
                                : fmt::format("a '{}' model, which Ingot does not have{}", type,
                                              did_you_mean(type, known_model_names()));
  return opened;
}

std::string_view name(ModelTask task) {
  static constexpr std::array<std::string_view, 7> kNames{"generate", "train",    "embed", "masked_lm",
                                                          "classify", "forecast", "play"};
  return kNames.at(static_cast<std::size_t>(task));
}

bool ModelInfo::can(ModelTask task) const { return std::ranges::find(tasks, task) != tasks.end(); }

std::span<const ModelInfo> model_registry() { return rows(); }

const ModelInfo* find_model(std::string_view wanted) {
  const auto fits = [wanted](const ModelInfo& info) {
    return info.name == wanted || std::ranges::find(info.architectures, wanted) != info.architectures.end();
  };
  const auto found = std::ranges::find_if(rows(), fits);
  return found == rows().end() ? nullptr : &*found;
}

std::vector<std::string> known_model_names() {
  std::vector<std::string> names;
  for (const ModelInfo& info : rows()) {
    names.push_back(info.name);
    names.insert(names.end(), info.architectures.begin(), info.architectures.end());
  }
  return names;
}

void throw_unsuitable_model(const std::string& model_type, ModelTask task, const std::string& where) {
  const std::vector<std::string> able = names_that_can(task);
  const std::string list = fmt::format("{}", fmt::join(able, ", "));
  if (const ModelInfo* info = find_model(model_type); info != nullptr && !info->can(task)) {
    std::string tasks;
    for (std::size_t i = 0; i < info->tasks.size(); ++i)
      tasks += fmt::format("{}{}",
                           i == 0                       ? ""
                           : i + 1 < info->tasks.size() ? ", "
                                                        : " and ",
                           name(info->tasks[i]));
    throw InvalidConfig(where, fmt::format("a '{}' model can {}, but not {}; these can: {}", model_type,
                                           tasks, name(task), list));
  }
  throw InvalidConfig(where, fmt::format("model_type '{}' is not known{}; these can {}: {}", model_type,
                                         did_you_mean(model_type, known_model_names()), name(task), list));
}

std::string describe_model(const std::string& path) {
  const OpenedConfig opened = open_config(path);
  if (opened.info == nullptr) return opened.problem;
  if (opened.info->can(embed)) {
    const EncoderConfig c = EncoderConfig::from_json(opened.text, opened.path);
    return fmt::format("{}, {} layers, width {}, {} heads, vocabulary {}, context {}", c.model_type,
                       c.num_hidden_layers, c.hidden_size, c.num_attention_heads, c.vocab_size,
                       c.max_position_embeddings);
  }
  if (opened.info->can(forecast)) {
    const ForecastModelConfig c = read_forecaster(opened);
    return fmt::format("{}, reads {} steps of {} series, forecasts {}", c.model, c.lookback, c.channels,
                       c.horizon);
  }
  if (opened.info->name == kRankNet)
    return fmt::format("{}, hidden layers of {}", kRankNet,
                       RankNetConfig::from_json(opened.text, opened.path).hidden);
  if (opened.info->can(play)) {
    const DualPoolNetConfig c = DualPoolNetConfig::from_json(opened.text, opened.path);
    return fmt::format("{}, {} blocks of {} channels, reads {} x {}, {} actions", opened.info->name, c.blocks,
                       c.channels, c.input_channels, c.width, c.actions);
  }
  const LanguageConfig c = LanguageConfig::from_json(opened.text, opened.path);
  std::string experts;
  if (c.num_experts > 0)
    experts = fmt::format(", {} experts ({} per token)", c.num_experts, c.num_experts_per_tok);
  return fmt::format("{}, {} layers, width {}, {} heads ({} for keys){}, vocabulary {}, context {}",
                     c.model_type, c.num_hidden_layers, c.hidden_size, c.num_attention_heads,
                     c.num_key_value_heads, experts, c.vocab_size, c.max_position_embeddings);
}

std::optional<ArchitectureReport> check_model(const std::string& path,
                                              const std::shared_ptr<const WeightSource>& stored) {
  const OpenedConfig opened = open_config(path);
  if (opened.info == nullptr) return std::nullopt;
  const auto named = opened.weights != nullptr ? opened.weights : under_torch_names(stored);
  const WeightSource& weights = *named;
  if (opened.info->can(embed)) {
    const EncoderConfig config = EncoderConfig::from_json(opened.text, opened.path);
    return BertModel::architecture_check(with_heads_of(config, weights), weights);
  }
  if (opened.info->can(forecast)) return ForecastModel::architecture_check(read_forecaster(opened), weights);
  if (opened.info->name == kRankNet)
    return RankNet::architecture_check(RankNetConfig::from_json(opened.text, opened.path), weights);
  if (opened.info->can(play))
    return DualPoolNet::architecture_check(DualPoolNetConfig::from_json(opened.text, opened.path), weights);
  return LanguageModel::architecture_check(LanguageConfig::from_json(opened.text, opened.path), weights);
}

}  // namespace ingot
