#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ingot/base/error.h"
#include "ingot/base/log.h"
#include "ingot/models/config_file.h"
#include "ingot/models/encoder/bert.h"
#include "ingot/models/encoder/families.h"
#include "ingot/models/encoder/gguf_encoder.h"
#include "ingot/models/encoder/gguf_encoder_names.h"
#include "ingot/models/tensorflow_names.h"
#include "ingot/weights/open.h"
#include "ingot/weights/transform.h"

namespace ingot {
namespace {

bool is_unscaled(const EncoderConfig& c) { return c.rope_scaling.type == "default"; }

// Every how many layers one sees all tokens, the first among them; 0: layers do not take turns so.
std::int64_t period_of(const EncoderConfig& c) {
  for (std::int64_t period = 1; period <= c.num_hidden_layers; ++period) {
    bool holds = true;
    for (std::int64_t layer = 0; layer < c.num_hidden_layers && holds; ++layer)
      holds = (c.window(layer) > 0) == (layer % period != 0);
    if (holds) return period;
  }
  return 0;
}

/// What llama.cpp would compute in another way, or nothing.
std::optional<std::string> objection(std::string_view architecture, const EncoderConfig& c) {
  if (c.attention_width() != c.hidden_size) return "heads that are not hidden_size wide together";
  if (architecture == "bert") {
    if (c.hidden_act != Activation::gelu && c.hidden_act != Activation::gelu_tanh)
      return fmt::format("hidden_act '{}' (gelu is)", encoders::act_name(c.hidden_act));
    return std::nullopt;
  }
  if (!is_unscaled(c)) return fmt::format("rope_type '{}' in an encoder", c.rope_scaling.type);
  if (architecture == "nomic-bert")
    return c.hidden_act == Activation::silu
               ? std::nullopt
               : std::optional(fmt::format("hidden_act '{}' (silu is)", encoders::act_name(c.hidden_act)));
  if (c.hidden_act != Activation::gelu && c.hidden_act != Activation::gelu_tanh)
    return fmt::format("hidden_activation '{}' (gelu is)", encoders::act_name(c.hidden_act));
  if (c.attention_bias || c.mlp_bias || c.norm_bias) return "biases of a ModernBERT";
  if (period_of(c) == 0) return "layer_types in which not every n-th layer, and the first, sees all tokens";
  if (c.sliding_window == 1) return "local_attention below 2";
  return std::nullopt;
}

std::vector<std::string_view> written_families() {
  std::vector<std::string_view> names;
  for (const EncoderFamily& family : encoder_families()) {
    if (!family.gguf.empty()) names.push_back(family.model_type);
  }
  return names;
}

class EncoderExporter {
 public:
  explicit EncoderExporter(const std::string& directory)
      : path_(config_path_in(directory)), weights_(under_torch_names(open_weights(directory))) {
    config_ = with_heads_of(EncoderConfig::from_json(read_model_config(path_), path_), *weights_);
    const std::string_view architecture = find_encoder_family(config_.model_type)->gguf;
    INGOT_CHECK(!architecture.empty(),
                NotImplemented(fmt::format("{}: writing '{}' as GGUF; llama.cpp has no "
                                           "such encoder ({} are written)",
                                           path_, config_.model_type, fmt::join(written_families(), ", "))));
    names_ = find_encoder_gguf(architecture);
    if (const auto reason = objection(architecture, config_))
      throw NotImplemented(
          fmt::format("{}: {} in a GGUF file of llama.cpp's {}", path_, *reason, architecture));
    check_classifier();
  }

  GgufExport run() {
    BertModel::architecture_check(config_, *weights_).require(weights_->location());
    write_metadata();
    GgufExport out{.metadata = std::move(metadata_), .weights = nullptr, .extra = {}};
    out.weights = std::make_shared<TransformedSource>(weights_, recipes());
    return out;
  }

 private:
  // llama.cpp has one head: tanh of a linear map of the first token, and a map to the labels.
  void check_classifier() const {
    if (config_.labels.of == LabelsOf::nothing) return;
    const EncoderFamily& family = *find_encoder_family(config_.model_type);
    const ClassifierLayout& head = family.classifier;
    const bool plain = head.dense.empty() ? config_.pooler && config_.pooler_act == Activation::tanh
                                          : head.activation == Activation::tanh && head.norm.empty();
    INGOT_CHECK(names_->architecture == "bert" && config_.labels.of == LabelsOf::texts && plain,
                NotImplemented(fmt::format("{}: a GGUF file with this classifier's head; llama.cpp has those "
                                           "of BERT and RoBERTa, for labels of texts",
                                           path_)));
  }

  template <class T>
  void set(std::string_view name, T value) {
    metadata_.set(fmt::format("{}.{}", names_->architecture, name), std::move(value));
  }
  void set_size(std::string_view name, std::int64_t value) {
    set(name, GgufValue::of_u32(static_cast<std::uint32_t>(value)));
  }
  void set_number(std::string_view name, double value) {
    set(name, GgufValue::of_f32(static_cast<float>(value)));
  }

  void write_metadata() {
    metadata_.set("general.architecture", GgufValue::of_string(std::string(names_->architecture)));
    set_size("block_count", config_.num_hidden_layers);
    set_size("context_length", config_.context());
    set_size("embedding_length", config_.hidden_size);
    set_size("feed_forward_length", config_.intermediate_size);
    set_size("attention.head_count", config_.num_attention_heads);
    set_number("attention.layer_norm_epsilon", config_.layer_norm_eps);
    set("attention.causal", GgufValue::of_bool(false));
    set_size("vocab_size", config_.vocab_size);
    metadata_.set(
        "tokenizer.ggml.token_type_count",
        GgufValue::of_u32(static_cast<std::uint32_t>(std::max<std::int64_t>(config_.type_vocab_size, 1))));
    if (config_.hidden_act == Activation::gelu_tanh)
      set("hidden_activation", GgufValue::of_string(std::string(encoders::act_name(config_.hidden_act))));
    if (config_.labels.of == LabelsOf::texts) write_labels();
    if (!config_.is_rotary()) return;
    set_number("rope.freq_base", config_.rope_theta);
    if (const std::int64_t period = period_of(config_); period > 1) {
      set_size("attention.sliding_window", 2 * (config_.sliding_window - 1));
      set_size("attention.sliding_window_pattern", period);
      set_number("rope.freq_base_swa", config_.rope_local_theta);
    }
  }

  void write_labels() {
    const Labels& labels = config_.labels;
    set("classifier.output_labels", GgufValue::of_strings(labels.names));
    if (!labels.activation.empty())
      metadata_.set(kGgufClassifierActivation, GgufValue::of_string(labels.activation));
    if (labels.problem)
      metadata_.set(kGgufClassifierProblem, GgufValue::of_string(std::string(name(*labels.problem))));
  }

  std::vector<TensorRecipe> recipes() const {
    const WeightMap map = BertModel::weight_map(config_);
    std::map<std::string, std::string> original;  // canonical name -> the checkpoint's
    for (const TensorInfo& info : weights_->tensors()) original[map.canonical(info.name)] = info.name;
    std::vector<TensorRecipe> recipes;
    bool left_out = false;
    for (const EncoderGgufTensor& tensor : encoder_gguf_tensors(*names_, config_)) {
      const bool unread = tensor.ours.starts_with("pooler.") && config_.labels.of == LabelsOf::nothing;
      if (tensor.ours.starts_with("cls.") || unread) {
        left_out = true;
        continue;
      }
      INGOT_CHECK(!tensor.gguf.empty(),
                  NotImplemented(
                      fmt::format("{}: GGUF has no name for {}", weights_->location(), tensor.rule.theirs)));
      std::vector<Transform> steps;
      if (tensor.gguf == "position_embd.weight" && config_.position_offset > 0)
        steps.push_back(Transform::slice(0, config_.position_offset, config_.max_position_embeddings));
      const auto found = original.find(tensor.rule.theirs);
      INGOT_CHECK(found != original.end(),
                  IoError(weights_->location(), fmt::format("lacks '{}'", tensor.rule.theirs)));
      recipes.push_back({tensor.gguf, {found->second}, std::move(steps)});
    }
    if (left_out)
      log(LogLevel::info, "ingot::convert",
          path_ +
              ": the pooler and the head of masked tokens are not written; llama.cpp has no place for them");
    return recipes;
  }

  std::string path_;
  std::shared_ptr<const WeightSource> weights_;
  EncoderConfig config_;
  const EncoderGguf* names_ = nullptr;
  GgufMetadata metadata_;
};

}  // namespace

GgufExport export_encoder_gguf(const std::string& directory) { return EncoderExporter(directory).run(); }

}  // namespace ingot
