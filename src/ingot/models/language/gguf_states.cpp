#include "ingot/models/language/gguf_states.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/base/error.h"

namespace ingot {
namespace {

using Json = nlohmann::ordered_json;

class StateWriter {
 public:
  StateWriter(const std::string& architecture, const LanguageConfig& c, GgufMetadata& metadata)
      : architecture_(architecture), c_(c), metadata_(metadata) {}

  void run() {
    if (c_.has_kind(LayerKind::conv) || c_.has_kind(LayerKind::mamba))
      set_layers("attention.head_count_kv", c_.num_key_value_heads, &LanguageConfig::attends);
    if (c_.has_mamba()) write_mamba();
    if (c_.has_kind(LayerKind::delta)) write_delta_nets();
  }

 private:
  void set(std::string_view name, GgufValue value) {
    metadata_.set(fmt::format("{}.{}", architecture_, name), std::move(value));
  }
  void set(std::string_view name, std::int64_t value) {
    set(name, GgufValue::of_u32(static_cast<std::uint32_t>(value)));
  }
  // `value` in layers that are so, 0 in the others.
  void set_layers(std::string_view name, std::int64_t value,
                  bool (LanguageConfig::*is_so)(std::int64_t) const) {
    std::vector<std::int32_t> values;
    for (std::int64_t layer = 0; layer < c_.num_hidden_layers; ++layer)
      values.push_back((c_.*is_so)(layer) ? static_cast<std::int32_t>(value) : 0);
    set(name, GgufValue::of_i32s(values));
  }

  // Sizes that config.json has no keys for, and whether attention has RoPE.
  void write_mamba() {
    set("ssm.inner_size", c_.mamba_inner());
    set("ssm.time_step_rank", c_.mamba_n_heads);
    const std::int64_t width = c_.num_experts > 0 ? c_.moe_intermediate_size : c_.intermediate_size;
    if (c_.mamba_layers) {
      set("context_length", std::int64_t{1} << 20);  // of any length
      set("attention.head_count", std::int64_t{0});
    } else if (c_.single_blocks) {
      set("block_count", c_.num_hidden_layers);  // config.json counts layers_block_type
      set_layers("feed_forward_length", width, &LanguageConfig::has_mlp);
    } else if (!c_.hybrid_layers) {
      set("rope.scaling.finetuned", GgufValue::of_bool(c_.no_rope_layers.empty()));
      set("feed_forward_length", width);
    }
    if (c_.shared_expert_intermediate_size > 0)
      set("expert_shared_feed_forward_length", c_.shared_expert_intermediate_size);
  }

  void write_delta_nets() {
    set("ssm.inner_size", c_.linear_num_value_heads * c_.linear_value_head_dim);
    if (architecture_ != "qwen3next") {  // of images; a text has the same position in each
      const auto pairs = static_cast<std::int32_t>(c_.rotary_size() / 2);
      set("rope.dimension_sections", GgufValue::of_i32s({(pairs + 2) / 3, (pairs + 1) / 3, pairs / 3, 0}));
    }
    for (std::int64_t interval = 1; interval <= c_.num_hidden_layers + 1; ++interval)
      if (attends_every(interval)) return set("full_attention_interval", interval);
    std::vector<std::uint64_t> states;
    for (std::int64_t layer = 0; layer < c_.num_hidden_layers; ++layer)
      states.push_back(c_.corrects(layer) ? 1 : 0);
    set("attention.recurrent_layers",
        GgufValue{.type = GgufType::boolean, .is_array = true, .items = std::move(states)});
  }

  bool attends_every(std::int64_t interval) const {
    for (std::int64_t layer = 0; layer < c_.num_hidden_layers; ++layer)
      if (c_.attends(layer) != ((layer + 1) % interval == 0)) return false;
    return true;
  }

  const std::string& architecture_;
  const LanguageConfig& c_;
  GgufMetadata& metadata_;
};

class StateReader {
 public:
  StateReader(const GgufFacts& facts, Json& config) : facts_(facts), config_(config) {}

  void run() {
    const std::string& architecture = facts_.architecture();
    if (architecture.starts_with("lfm2")) config_["layer_types"] = kinds("conv");
    if (architecture == "mamba2") read_mamba2();
    if (architecture == "granitehybrid") is_bamba(facts_) ? read_bamba() : read_granite();
    if (architecture == "falcon-h1") read_falcon_h1();
    if (architecture.starts_with("nemotron_h")) read_nemotron_h();
    if (architecture == "qwen3next" || architecture.starts_with("qwen35")) read_delta_nets();
  }

 private:
  // Layers with heads of keys attend.
  Json kinds(const char* other) {
    Json types = Json::array();
    for (const std::int64_t heads : facts_.of_layers("attention.head_count_kv"))
      types.push_back(heads > 0 ? "full_attention" : other);
    if (const std::int64_t heads = gguf_key_heads(facts_); heads > 0) config_["num_key_value_heads"] = heads;
    return types;
  }

  // Channels of scans; of each head, and for each channel of the model.
  std::int64_t inner(std::int64_t divisor) const {
    const std::int64_t size = facts_.required("ssm.inner_size");
    INGOT_CHECK(size % divisor == 0 && size % facts_.required("ssm.time_step_rank") == 0,
                FormatError(facts_.path(), -1, facts_.key("ssm.inner_size"),
                            fmt::format("{} is not a multiple of ssm.time_step_rank {} and of {}", size,
                                        facts_.required("ssm.time_step_rank"), divisor)));
    return size;
  }
  std::int64_t head_size() const { return inner(1) / facts_.required("ssm.time_step_rank"); }
  std::int64_t expand() const {
    const std::int64_t hidden = facts_.required("embedding_length");
    return inner(hidden) / hidden;
  }

  void read_mamba2() {
    config_.erase("num_key_value_heads");
    config_["head_dim"] = head_size();
    config_["expand"] = expand();
    config_["use_conv_bias"] = facts_.any(".ssm_conv1d.bias");
    config_["use_bias"] = facts_.any(".ssm_in.bias");
  }

  void read_hybrid_keys() {
    config_["mamba_conv_bias"] = facts_.any(".ssm_conv1d.bias");
    config_["mamba_proj_bias"] = facts_.any(".ssm_in.bias");
  }

  void read_granite() {
    read_hybrid_keys();
    config_["layer_types"] = kinds("linear_attention");
    config_["mamba_expand"] = expand();
    config_["position_embedding_type"] =
        facts_.boolean("rope.scaling.finetuned").value_or(true) ? Json("rope") : Json(nullptr);
    if (facts_.integer("expert_count").value_or(0) == 0) {
      config_["num_local_experts"] = config_["num_experts_per_tok"] = 0;
      config_["shared_intermediate_size"] = facts_.required("feed_forward_length");
    } else {
      config_["num_local_experts"] = facts_.required("expert_count");
      config_["shared_intermediate_size"] = facts_.integer("expert_shared_feed_forward_length").value_or(0);
    }
  }

  void read_bamba() {
    read_hybrid_keys();
    config_["mamba_expand"] = expand();
    Json attending = Json::array();
    std::int64_t layer = 0;
    for (const Json& kind : kinds("mamba")) {
      if (kind == "full_attention") attending.push_back(layer);
      ++layer;
    }
    config_["attn_layer_indices"] = attending;
  }

  // Its multipliers are in the weights. What norms there are stand behind the gates.
  void read_falcon_h1() {
    read_hybrid_keys();
    config_["mamba_d_ssm"] = inner(1);
    config_["projectors_bias"] = facts_.any(".ssm_out.bias");
    config_["mamba_rms_norm"] = facts_.any(".ssm_norm.weight");
    config_["mamba_norm_before_gate"] = false;
  }

  // A layer without heads of keys and without a width scans.
  void read_nemotron_h() {
    const std::vector<std::int64_t> widths = facts_.of_layers("feed_forward_length");
    Json types = kinds("linear_attention");
    const bool experts = facts_.integer("expert_count").value_or(0) > 0;
    for (std::size_t i = 0; i < std::min(widths.size(), types.size()); ++i)
      if (widths[i] > 0) types[i] = experts ? "moe" : "mlp";
    config_["layers_block_type"] = types;
    config_.erase("num_hidden_layers");
    if (!widths.empty()) {
      const std::int64_t width = std::ranges::max(widths);
      if (width > 0) config_["intermediate_size"] = width;
    }
    config_["mamba_head_dim"] = head_size();
    config_["use_conv_bias"] = facts_.any(".ssm_conv1d.bias");
    config_["use_bias"] = facts_.any(".ssm_in.bias");
  }

  void read_delta_nets() {
    config_["linear_value_head_dim"] = head_size();
    const std::vector<std::int64_t> states = facts_.of_layers("attention.recurrent_layers");
    if (states.empty()) {
      config_["full_attention_interval"] = facts_.integer("full_attention_interval").value_or(4);
      return;
    }
    Json types = Json::array();
    const std::int64_t layers = config_.value("num_hidden_layers", std::int64_t{0});
    for (std::size_t i = 0; i < states.size() && static_cast<std::int64_t>(i) < layers; ++i)
      types.push_back(states[i] != 0 ? "linear_attention" : "full_attention");
    config_["layer_types"] = types;
  }

  const GgufFacts& facts_;
  Json& config_;
};

}  // namespace

void write_states(const std::string& architecture, const LanguageConfig& c, GgufMetadata& metadata) {
  StateWriter(architecture, c, metadata).run();
}

void read_states(const GgufFacts& facts, Json& config) { StateReader(facts, config).run(); }

bool is_bamba(const GgufFacts& facts) {
  if (facts.architecture() != "granitehybrid" || facts.integer("expert_count").value_or(0) > 0) return false;
  return !facts.number("embedding_scale") && !facts.number("residual_scale") &&
         !facts.number("attention.scale") && !facts.number("logit_scale");
}

std::int64_t gguf_key_heads(const GgufFacts& facts) {
  const std::vector<std::int64_t> layers = facts.of_layers("attention.head_count_kv");
  if (!layers.empty()) return std::ranges::max(layers);
  const auto heads = facts.integer("attention.head_count_kv");
  return heads ? *heads : facts.required("attention.head_count");
}

}  // namespace ingot
