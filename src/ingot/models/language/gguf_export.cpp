#include "ingot/models/language/gguf_export.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "ingot/base/error.h"
#include "ingot/base/json.h"
#include "ingot/base/log.h"
#include "ingot/models/language/config.h"
#include "ingot/models/language/config_difference.h"
#include "ingot/models/language/family.h"
#include "ingot/models/language/gguf_gemma3n.h"
#include "ingot/models/language/gguf_gemma4.h"
#include "ingot/models/language/gguf_layer_numbers.h"
#include "ingot/models/language/gguf_orders.h"
#include "ingot/models/language/gguf_states.h"
#include "ingot/models/language/llama_cpp.h"
#include "ingot/models/language/weight_map.h"
#include "ingot/models/rope_tables.h"
#include "ingot/nn/visit.h"
#include "ingot/weights/transform.h"

namespace ingot {
namespace {

using Json = nlohmann::ordered_json;

// What a reader would see of a file that is not written yet.
class DraftGguf final : public GgufSource {
 public:
  DraftGguf(const std::string& place, const GgufExport& out, const std::map<std::string, Tensor>& vectors)
      : GgufSource(place), weights_(out.weights), vectors_(vectors) {
    fields_ = out.metadata;
    std::vector<TensorInfo> tensors(weights_->tensors().begin(), weights_->tensors().end());
    for (const auto& [name, tensor] : vectors_) {
      TensorInfo info;
      info.name = name;
      info.shape = tensor.shape().to_vector();
      info.dtype = tensor.dtype();
      tensors.push_back(std::move(info));
    }
    set_contents(std::move(tensors), {});
  }
  std::string_view format() const override { return "gguf"; }
  WeightCapabilities capabilities() const override { return {}; }

 protected:
  Tensor load(const TensorInfo& info) const override {
    const auto vector = vectors_.find(info.name);
    return vector != vectors_.end() ? vector->second : weights_->load_tensor(info.name);
  }
  Blob stored(const TensorInfo& info) const override { return weights_->stored_bytes(info.name); }

 private:
  std::shared_ptr<const WeightSource> weights_;
  const std::map<std::string, Tensor>& vectors_;
};

class Exporter {
 public:
  explicit Exporter(const ModelCheckpoint& checkpoint)
      : checkpoint_(checkpoint),
        given_(with_head_of(*checkpoint.weights,
                            LanguageConfig::from_json(checkpoint.config_json, checkpoint.config_path))),
        config_(given_.hybrid_layers ? without_multipliers(given_) : given_),
        family_(gguf_family_of(config_, checkpoint.config_path)) {}

  std::shared_ptr<const WeightSource> tensors() {
    write_tensors();
    return std::make_shared<TransformedSource>(with_parts(), std::move(recipes_));
  }

  GgufExport run() {
    write_metadata();
    write_rope();
    write_tensors();
    numbers_.write(out_.metadata, checkpoint_.weights->location());
    if (config_.several_streams) add_unused_keys();
    if (given_.tie_word_embeddings &&
        (!config_.tie_word_embeddings || llama_cpp_needs_output(family_.architecture)))
      add_tied_head();
    check_reader();
    out_.weights = std::make_shared<TransformedSource>(with_parts(), std::move(recipes_));
    check_meaning();
    warn_of_windows();
    return std::move(out_);
  }

 private:
  // Nothing is written that llama.cpp would not open, or would run as another model.
  void check_reader() const {
    std::vector<ExportedTensor> tensors;
    for (const TensorRecipe& recipe : recipes_) {
      const auto part = std::ranges::find(parts_, recipe.inputs.front(), &TensorRecipe::name);
      tensors.push_back({recipe.name, (part == parts_.end() ? recipe : *part).inputs.front()});
    }
    const std::optional<std::string> objection = llama_cpp_objection(family_.architecture, config_, tensors);
    INGOT_CHECK(
        !objection.has_value(),
        NotImplemented(fmt::format("{}: llama.cpp's '{}' models, as GGUF files hold them, have no field "
                                   "for {}; convert to safetensors, or to a directory",
                                   checkpoint_.config_path, family_.architecture, *objection)));
  }

  void warn_of_windows() const {
    if (const std::int64_t window = window_that_llama_cpp_ignores(family_.architecture, config_);
        window > 0) {
      log(LogLevel::warn, "ingot::models",
          fmt::format(
              "{}: llama.cpp applies no sliding window in '{}' models: its numbers differ beyond {} tokens. "
              "Ingot reads the window from the GGUF file",
              checkpoint_.config_path, family_.architecture, window));
    }
  }

  // The same for any reader: GGUF has no field for some keys.
  void check_meaning() const {
    const auto draft = std::make_shared<DraftGguf>(checkpoint_.config_path, out_, vectors_);
    const auto found = LanguageConfig::from_json(gguf_checkpoint(draft).config_json, "the GGUF file");
    const std::optional<std::string> differs = difference_of(config_, found);
    INGOT_CHECK(!differs.has_value(),
                NotImplemented(fmt::format("{}: a GGUF file of a {} model has no field for {}; convert to "
                                           "safetensors, or to a directory",
                                           checkpoint_.config_path, config_.model_type, *differs)));
  }

  std::string key(std::string_view name) const { return fmt::format("{}.{}", family_.architecture, name); }
  void set(std::string_view name, std::int64_t value) {
    out_.metadata.set(key(name), GgufValue::of_u32(static_cast<std::uint32_t>(value)));
  }
  void set(std::string_view name, double value) {
    out_.metadata.set(key(name), GgufValue::of_f32(static_cast<float>(value)));
  }

  void write_metadata() {
    out_.metadata.set("general.architecture", GgufValue::of_string(std::string(family_.architecture)));
    const Json json = parse_json<Json>(config_.to_json(), "config.json");
    for (const GgufKeyRule& rule : family_.keys) {
      const Json::json_pointer place(json_pointer(rule.hugging_face));
      if (!json.contains(place)) continue;
      const Json* value = &json.at(place);
      if (!value->is_number() && !value->is_boolean()) continue;
      if (rule.kind == GgufKeyKind::boolean) {
        out_.metadata.set(key(rule.gguf), GgufValue::of_bool(value->get<bool>()));
      } else if (rule.kind == GgufKeyKind::integer) {
        set(rule.gguf, value->get<std::int64_t>());
      } else {
        set(rule.gguf, value->get<double>());
      }
    }
    for (const auto& [name, id] :
         {std::pair{"bos_token_id", config_.bos_token_id}, {"eos_token_id", config_.eos_token_id}}) {
      if (id < 0) continue;
      out_.metadata.set(fmt::format("tokenizer.ggml.{}", name),
                        GgufValue::of_u32(static_cast<std::uint32_t>(id)));
    }
    if (config_.num_experts > 0) write_experts();
    write_states(std::string(family_.architecture), config_, out_.metadata);
    const std::int64_t last = config_.num_hidden_layers - 1;
    set("vocab_size", config_.vocab_size);
    if (out_.metadata.find(key("feed_forward_length")) == nullptr)
      set("feed_forward_length", config_.intermediate_size);
    if (config_.position == PositionKind::rope && !config_.mamba_layers)
      set("attention.value_length", config_.value_size(last));
    if (family_.architecture == "gemma4") write_gemma4_layers(config_, out_.metadata);
    if (family_.architecture == "gemma3n") write_gemma3n_layers(config_, out_.metadata);
    write_windows();
    if (!config_.is_latent()) return;
    set("attention.key_length", config_.head_dim);
    if (config_.q_lora_rank == 0) set("attention.q_lora_rank", config_.q_lora_rank);  // which readers ask for
  }

  // Which layers slide, where readers do not know it from the family.
  void write_windows() {
    if (!llama_cpp_lists_windows(family_.architecture) || config_.sliding_window == 0) return;
    LanguageConfig usual = config_;
    apply_sliding_pattern(usual);
    const bool both_ways = config_.use_bidirectional_attention;
    if (config_.layer_types == usual.layer_types && config_.model_type != "olmo3" && !both_ways) return;
    std::vector<std::uint64_t> slides;
    for (std::int64_t i = 0; i < config_.num_hidden_layers; ++i) slides.push_back(config_.slides(i) ? 1 : 0);
    out_.metadata.set(key("attention.sliding_window_pattern"),
                      GgufValue{.type = GgufType::boolean, .is_array = true, .items = std::move(slides)});
    if (both_ways)
      set("rope.freq_base_swa", config_.rope_local_theta > 0 ? config_.rope_local_theta : config_.rope_theta);
  }

  void write_experts() {
    set("expert_count", config_.num_experts);
    if (!family_.gating) return;
    set("expert_gating_func", *family_.gating);
    set("expert_feed_forward_length", config_.moe_intermediate_size);
    if (config_.shared_expert_intermediate_size > 0)
      set("expert_shared_feed_forward_length", config_.shared_expert_intermediate_size);
  }

  void write_rope() {
    if (config_.position != PositionKind::rope || config_.mamba_layers || config_.single_blocks) return;
    if (family_.architecture == "gemma4")
      return add_vector("rope_freqs.weight", gemma4_rope_factors(config_));
    const RopeScaling& rope = config_.rope_scaling;
    set("rope.dimension_count", static_cast<std::int64_t>(std::lround(
                                    config_.partial_rotary_factor * static_cast<double>(config_.head_dim))));
    if (config_.is_latent()) set("rope.dimension_count", config_.qk_rope_head_dim);
    set("rope.freq_base", config_.rope_theta);
    if (rope.type == "llama3") {
      add_vector("rope_freqs.weight", llama3_factors());
    } else if (rope.type == "longrope") {
      add_vector("rope_factors_long.weight", rope.long_factor);
      add_vector("rope_factors_short.weight", rope.short_factor);
      out_.metadata.set(key("rope.scaling.type"), GgufValue::of_string(rope.type));
      set("rope.scaling.original_context_length", rope.original_max_position_embeddings);
      set("rope.scaling.attn_factor", attention_factor());
    } else if (rope.type == "linear" || rope.type == "yarn") {
      out_.metadata.set(key("rope.scaling.type"), GgufValue::of_string(rope.type));
      set("rope.scaling.factor", rope.factor);
      if (rope.type == "yarn") {
        if (rope.mscale_all_dim > 0 && config_.is_latent())
          set("rope.scaling.yarn_log_multiplier", 0.1 * rope.mscale_all_dim);
        set("rope.scaling.original_context_length", rope.original_max_position_embeddings);
        if (rope.beta_fast != RopeScaling{}.beta_fast) set("rope.scaling.yarn_beta_fast", rope.beta_fast);
        if (rope.beta_slow != RopeScaling{}.beta_slow) set("rope.scaling.yarn_beta_slow", rope.beta_slow);
        // Readers multiply it with what YaRN's paper has.
        const double relative = attention_factor() / (0.1 * std::log(rope.factor) + 1);
        if (!config_.is_latent() && std::abs(relative - 1) > 1e-6) set("rope.scaling.attn_factor", relative);
      }
    } else {
      INGOT_CHECK(rope.type == "default", NotImplemented(fmt::format("{}: rope_type '{}' in GGUF files",
                                                                     checkpoint_.config_path, rope.type)));
    }
    write_growing_queries();
  }

  // Llama 4's are derived by readers.
  void write_growing_queries() {
    if (config_.query_position_scale == 0 || config_.floor_scale > 0) return;
    set("attention.temperature_scale", config_.query_position_scale);
    set("rope.scaling.original_context_length", config_.rope_scaling.original_max_position_embeddings);
  }

  // Of cos and sin.
  double attention_factor() const {
    return scaled_rope_frequencies(config_.rotary(), config_.max_position_embeddings).attention_factor;
  }

  /// What the period of each pair is multiplied by.
  std::vector<double> llama3_factors() const {
    const RopeScaling& rope = config_.rope_scaling;
    std::vector<double> factors;
    for (std::int64_t i = 0; i < config_.head_dim; i += 2) {
      const double wavelength =
          2 * std::numbers::pi *
          std::pow(config_.rope_theta, static_cast<double>(i) / static_cast<double>(config_.head_dim));
      const double turns = static_cast<double>(rope.original_max_position_embeddings) / wavelength;
      const double smooth = std::clamp(
          (turns - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor), 0.0, 1.0);
      factors.push_back(1 / ((1 - smooth) / rope.factor + smooth));
    }
    return factors;
  }

  void add_vector(const std::string& name, const std::vector<double>& values) {
    const std::vector<float> narrow(values.begin(), values.end());
    const Tensor tensor = Tensor::from(narrow, {static_cast<std::int64_t>(narrow.size())});
    out_.extra.push_back(GgufTensor::of(StoredTensor::of(name, tensor)));
    vectors_.emplace(name, tensor);
  }

  void write_tensors() {
    const WeightMap map = language_weight_map(given_);
    std::map<std::string, GgufNameMatch> stacked;
    std::vector<std::string> unknown;
    for (const TensorInfo& info : checkpoint_.weights->tensors()) {
      const std::string name = map.canonical(info.name);
      const auto ignored = [&name](const std::string& glob) { return glob_match(glob, name); };
      if (std::ranges::any_of(map.ignored, ignored)) continue;
      if (name == "lm_head.weight" && given_.tie_word_embeddings) continue;
      if (numbers_.take(name, *checkpoint_.weights, info.name)) continue;
      const auto match = match_hugging_face_name(family_, name);
      if (!match) {
        unknown.push_back(info.name);
        continue;
      }
      original_[name] = info.name;
      if (match->rule->change == GgufChange::experts) {
        stacked.emplace(match->gguf(), *match);
      } else if (match->rule->change == GgufChange::grouped_heads) {
        add_grouped_heads(*match, info);
      } else if (config_.several_streams && match->rule->gguf == "per_layer_token_embd") {
        recipes_.push_back(rows_of_tokens(*match, info));
      } else {
        recipes_.push_back({match->gguf(), {info.name}, steps_of(*match, info)});
      }
      if (has_second(match->rule->change)) {
        GgufNameMatch second = *match;
        ++second.rule;
        recipes_.push_back({second.gguf(), {info.name}, steps_of(second, info)});
      }
    }
    INGOT_CHECK(unknown.empty(),
                NotImplemented(fmt::format("{}: GGUF has no name for {}", checkpoint_.weights->location(),
                                           fmt::join(unknown, ", "))));
    for (const auto& [name, match] : stacked) add_experts(name, match);
  }

  // llama.cpp asks Gemma 3n's layers for keys of their own where they read others', and reads none of them.
  // Newer checkpoints have none there: they are those that the layer reads.
  void add_unused_keys() {
    for (std::int64_t layer = config_.layers_with_keys(); layer < config_.num_hidden_layers; ++layer) {
      for (const char* part : {"attn_k", "attn_v", "attn_k_norm"}) {
        const auto name = [&](std::int64_t of) { return fmt::format("blk.{}.{}.weight", of, part); };
        if (std::ranges::find(recipes_, name(layer), &TensorRecipe::name) != recipes_.end()) continue;
        const auto read = std::ranges::find(recipes_, name(config_.key_layer(layer)), &TensorRecipe::name);
        if (read == recipes_.end()) continue;  // which the reader reports
        TensorRecipe copy = *read;
        copy.name = name(layer);
        recipes_.push_back(std::move(copy));
      }
    }
  }

  // The embedding once more, for readers that ask for a head, or where the two are scaled in another way.
  void add_tied_head() {
    const auto embedding = std::ranges::find(recipes_, "token_embd.weight", &TensorRecipe::name);
    if (embedding == recipes_.end()) return;  // which the reader reports
    TensorRecipe head{"output.weight", embedding->inputs, {}};
    if (!config_.tie_word_embeddings)
      head.steps = scaled("output", false, checkpoint_.weights->get_metadata(head.inputs.front()));
    recipes_.push_back(std::move(head));
  }

  // Falcon H1's multipliers, in f32.
  std::vector<Transform> scaled(std::string_view part, bool bias, const TensorInfo& info) const {
    if (!given_.hybrid_layers) return {};
    std::vector<Transform> steps = multipliers_of(part, bias, given_);
    const DType dtype = info.dtype.value_or(DType::f32);
    if (steps.empty() || !is_half_precision(dtype)) return steps;
    steps.insert(steps.begin(), Transform::cast(DType::f32));
    steps.push_back(Transform::cast(dtype));
    return steps;
  }

  void add_grouped_heads(const GgufNameMatch& match, const TensorInfo& info) {
    const std::int64_t groups = config_.num_key_value_heads;
    const GroupedHeads heads{groups, config_.num_attention_heads / groups, config_.head_dim};
    TensorRecipe recipe{match.gguf(), {}, {}};
    for (const std::vector<Transform>& steps : heads.taken_apart(info.shape.size() > 1)) {
      const std::string part = fmt::format("{}.{}", info.name, recipe.inputs.size());
      parts_.push_back({part, {info.name}, steps});
      recipe.inputs.push_back(part);
    }
    recipes_.push_back(std::move(recipe));
  }

  // The checkpoint, with parts of its tensors under names of their own.
  std::shared_ptr<const WeightSource> with_parts() {
    if (parts_.empty()) return checkpoint_.weights;
    for (const TensorInfo& info : checkpoint_.weights->tensors())
      parts_.push_back({info.name, {info.name}, {}});
    return std::make_shared<TransformedSource>(checkpoint_.weights, std::move(parts_));
  }

  std::vector<Transform> steps_of(const GgufNameMatch& match, const TensorInfo& info) const {
    std::vector<Transform> steps = changes_of(match, info);
    const auto add = [&steps](const std::vector<Transform>& more) {
      steps.insert(steps.end(), more.begin(), more.end());
    };
    const std::string_view part = part_of(match.rule->gguf);
    if (family_.architecture.starts_with("qwen35") && config_.has_kind(LayerKind::delta))
      add(DeltaSizes::of(config_).tiled(part, true));
    add(scaled(part, match.suffix == ".bias", info));
    return steps;
  }

  // As many rows of layers' inputs as there are tokens: those beyond a shorter table have its first row, as
  // in the model.
  TensorRecipe rows_of_tokens(const GgufNameMatch& match, const TensorInfo& info) {
    TensorRecipe recipe{match.gguf(), {info.name}, {}};
    const std::int64_t rows = info.shape.front(), tokens = config_.vocab_size;
    if (rows > tokens) recipe.steps = {Transform::slice(0, 0, tokens)};
    if (rows >= tokens) return recipe;
    const std::string first = info.name + ".first";
    parts_.push_back({first, {info.name}, {Transform::slice(0, 0, 1)}});
    recipe.inputs.insert(recipe.inputs.end(), static_cast<std::size_t>(tokens - rows), first);
    return recipe;
  }

  // Rows of heads from halves that rotate together to pairs.
  Transform pairs(std::int64_t heads) const {
    if (config_.rotary_size() == config_.head_dim) return Transform::rotary_to_pairs(heads);
    return Transform::take(0, rotary_pairs(heads, config_.head_dim, config_.rotary_size()));
  }

  // Of [groups of queries, keys, values and gates, in] all of each: those in front of the gates, or these.
  std::vector<Transform> ungrouped(bool gates) const {
    const DeltaSizes sizes = DeltaSizes::of(config_);
    const std::int64_t first = 2 * sizes.keys() + sizes.values();
    return {Transform::take(0, sizes.all_of_each()),
            gates ? Transform::slice(0, first, first + sizes.values()) : Transform::slice(0, 0, first)};
  }

  std::vector<Transform> changes_of(const GgufNameMatch& match, const TensorInfo& info) const {
    switch (match.rule->change) {
      case GgufChange::query_rows:
        return {pairs(config_.num_attention_heads)};
      case GgufChange::key_rows:
        return {pairs(config_.num_key_value_heads)};
      case GgufChange::first_of_groups:
      case GgufChange::second_of_groups:
        return ungrouped(match.rule->change == GgufChange::second_of_groups);
      case GgufChange::decay_row:
        return {Transform::cast(DType::f32), Transform::negative_exp()};
      case GgufChange::transposed:
        return info.shape.size() == 2 ? std::vector{Transform::transpose()} : std::vector<Transform>{};
      case GgufChange::plus_one:  // in f32: 1 + a small weight is not a bf16 number
        if (match.suffix != ".weight") return {};
        return {Transform::cast(DType::f32), Transform::scale(1, 1)};
      case GgufChange::one_row:
      case GgufChange::bare_row:
        return {Transform::reshape({-1})};
      case GgufChange::conv_taps:
        if (info.shape.size() != 3) return {};
        return {Transform::reshape({info.shape[0], -1}), Transform::cast(DType::f32)};
      case GgufChange::group_rows:
        return {Transform::reshape({config_.mamba_n_groups, -1}), Transform::cast(DType::f32)};
      case GgufChange::decay:
        return {Transform::cast(DType::f32), Transform::negative_exp(), Transform::reshape({-1, 1})};
      case GgufChange::column:
        return {Transform::cast(DType::f32), Transform::reshape({-1, 1})};
      case GgufChange::first_half:
        return {Transform::part(-2, 0, 2)};
      case GgufChange::second_half:
        return {Transform::part(-2, 1, 2)};
      case GgufChange::first_interleaved:
      case GgufChange::second_interleaved:
        return one_of_two(info, match.rule->change == GgufChange::first_interleaved ? 0 : 1);
      case GgufChange::first_columns:
        return {Transform::part(-1, 0, 2), Transform::transpose()};
      case GgufChange::second_columns:
        return {Transform::part(-1, 1, 2), Transform::transpose()};
      case GgufChange::transposed_stack:
        return info.shape.size() == 3 ? std::vector{Transform::transpose()} : std::vector<Transform>{};
      case GgufChange::fused_heads:
        return exchanged_groups(info, config_.num_attention_heads, 3, config_.head_dim);
      case GgufChange::none:
      case GgufChange::whole:
      case GgufChange::unsuffixed:
      case GgufChange::bare:
      case GgufChange::latent_keys:
      case GgufChange::latent_values:
      case GgufChange::grouped_heads:
      case GgufChange::experts:
        break;
    }
    return {};
  }

  // Of [experts, in, 2 · out], or [experts, 2 · out], every second: [experts, out, in].
  static std::vector<Transform> one_of_two(const TensorInfo& info, std::int64_t which) {
    const std::vector<std::int64_t>& shape = info.shape;
    if (shape.size() == 2)
      return {Transform::reshape({shape[0], shape[1] / 2, 2}), Transform::permute({2, 0, 1}),
              Transform::select(which)};
    return {Transform::reshape({shape[0], shape[1], shape[2] / 2, 2}), Transform::permute({3, 0, 2, 1}),
            Transform::select(which)};
  }

  void add_experts(const std::string& name, const GgufNameMatch& match) {
    TensorRecipe recipe{name, {}, {}};
    const std::int64_t count =
        name.starts_with("altup_") ? config_.altup_num_inputs - 1 : config_.num_experts;
    for (std::int64_t i = 0; i < count; ++i) {
      const auto found = original_.find(match.hugging_face(i));
      INGOT_CHECK(found != original_.end(),
                  IoError(checkpoint_.weights->location(), fmt::format("lacks '{}'", match.hugging_face(i))));
      recipe.inputs.push_back(found->second);
    }
    std::vector<std::int64_t> shape = checkpoint_.weights->get_metadata(recipe.inputs[0]).shape;
    shape.insert(shape.begin(), count);
    recipe.steps.push_back(Transform::reshape(std::move(shape)));
    recipes_.push_back(std::move(recipe));
  }

  const ModelCheckpoint& checkpoint_;
  LanguageConfig given_;   // the checkpoint's
  LanguageConfig config_;  // the file's: what is in its weights is not among its numbers
  GgufFamily family_;
  LayerNumbers numbers_{family_.layer_numbers, config_.num_hidden_layers};
  GgufExport out_;
  std::vector<TensorRecipe> recipes_, parts_;
  std::map<std::string, std::string> original_;  // canonical name -> the checkpoint's
  std::map<std::string, Tensor> vectors_;        // those of out_.extra
};

}  // namespace

GgufFamily gguf_family_of(const LanguageConfig& config, const std::string& place) {
  const GgufFamily& family = language_family(config.model_type, place).gguf;
  INGOT_CHECK(!family.architecture.empty(),
              NotImplemented(fmt::format("{}: writing '{}' as GGUF; there are {}", place, config.model_type,
                                         fmt::join(known_gguf_architectures(), ", "))));
  GgufFamily found = named_for(family, config.num_experts > 0);
  if (config.use_bidirectional_attention) found.architecture = "gemma-embedding";  // Gemma 3's alone
  return found;
}

std::shared_ptr<const WeightSource> export_gguf_tensors(const ModelCheckpoint& checkpoint) {
  return Exporter(checkpoint).tensors();
}

GgufExport export_gguf(const ModelCheckpoint& checkpoint) { return Exporter(checkpoint).run(); }

}  // namespace ingot
