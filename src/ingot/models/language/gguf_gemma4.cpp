#include "ingot/models/language/gguf_gemma4.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/base/error.h"
#include "ingot/models/require.h"

namespace ingot {

using Json = nlohmann::ordered_json;

void write_gemma4_layers(const LanguageConfig& c, GgufMetadata& metadata) {
  const auto set = [&](const char* name, GgufValue value) {
    metadata.set(fmt::format("gemma4.{}", name), std::move(value));
  };
  const auto number = [](std::int64_t value) { return GgufValue::of_u32(static_cast<std::uint32_t>(value)); };
  const std::int64_t last = c.num_hidden_layers - 1, global = c.head_size(last);  // which sees everything
  std::vector<std::uint64_t> slides;
  std::vector<std::int32_t> heads, widths;
  for (std::int64_t i = 0; i <= last; ++i) {
    slides.push_back(c.slides(i) ? 1 : 0);
    heads.push_back(static_cast<std::int32_t>(c.kv_heads(i)));
    widths.push_back(static_cast<std::int32_t>(c.mlp_width(i)));
  }
  const auto differ = [](const std::vector<std::int32_t>& all) {
    return std::ranges::count(all, all.front()) != std::ssize(all);
  };
  set("attention.sliding_window_pattern",
      GgufValue{.type = GgufType::boolean, .is_array = true, .items = std::move(slides)});
  set("attention.head_count_kv", differ(heads) ? GgufValue::of_i32s(heads) : number(heads.front()));
  // llama.cpp takes 30 where a file says nothing.
  set("final_logit_softcapping", GgufValue::of_f32(static_cast<float>(c.final_logit_softcapping)));
  set("feed_forward_length", differ(widths) ? GgufValue::of_i32s(widths) : number(widths.front()));
  for (const char* name : {"attention.key_length", "attention.value_length", "rope.dimension_count"}) {
    set(name, number(global));
    metadata.set(fmt::format("gemma4.{}_swa", name), number(c.head_dim));
  }
}

std::vector<double> gemma4_rope_factors(const LanguageConfig& c) {
  const auto size = static_cast<double>(c.rotary_size());
  const bool proportional = c.rope_scaling.type == "proportional";
  const auto turning = static_cast<std::size_t>((proportional ? c.partial_rotary_factor : 1.0) * size / 2);
  std::vector<double> factors(static_cast<std::size_t>(c.rotary_size() / 2), kStillPair);
  std::fill(factors.begin(), factors.begin() + static_cast<std::ptrdiff_t>(turning),
            proportional ? c.rope_scaling.factor : 1.0);
  return factors;
}

namespace {

class LayerReader {
 public:
  LayerReader(const GgufFacts& facts, Json& config) : facts_(facts), config_(config) {
    layers_ = facts.required("block_count");
    INGOT_CHECK(layers_ <= kMaxModelLayers, refusal("block_count", "more layers than any model has"));
  }

  void run() {
    read_kinds();
    read_heads();
    read_widths();
    for (const char* part : {"ffn_gate_exps", "ffn_up_exps"})
      INGOT_CHECK(!facts_.any(fmt::format(".{}.weight", part)),
                  NotImplemented(fmt::format("{}: {}: gate and up of experts in two tensors (in one, "
                                             "ffn_gate_up_exps, they are)",
                                             facts_.path(), part)));
    config_["vocab_size_per_layer_input"] = config_["vocab_size"];
    config_["enable_moe_block"] = facts_.integer("expert_count").value_or(0) > 0;
  }

  void read_rope(const std::vector<double>& factors) {
    Json& rope = config_["rope_parameters"]["full_attention"];
    if (factors.empty()) {
      rope["rope_type"] = "default";
      return;
    }
    const auto still = std::ranges::find_if(factors, [](double f) { return f >= kStillPair / 2; });
    const auto turning = still - factors.begin();
    const bool same = turning > 0 &&
                      std::all_of(factors.begin(), still, [&](double f) { return f == factors.front(); }) &&
                      std::all_of(still, factors.end(), [](double f) { return f >= kStillPair / 2; });
    INGOT_CHECK(same, refusal("rope.freq_base",
                              "rope_freqs that is not one number for the first pairs, and "
                              "1e30 for those that stand still"));
    const auto pairs = static_cast<double>(factors.size());
    double part = static_cast<double>(turning) / pairs;
    while (std::floor(part * 2 * pairs / 2) < static_cast<double>(turning)) part = std::nextafter(part, 2);
    rope["rope_type"] = "proportional";
    rope["partial_rotary_factor"] = part;
    if (factors.front() != 1) rope["factor"] = factors.front();
  }

 private:
  NotImplemented refusal(const char* key, const std::string& what) const {
    return NotImplemented(fmt::format("{}: {}: {}", facts_.path(), facts_.key(key), what));
  }
  // A list of all layers, or one number for all.
  std::vector<std::int64_t> numbers(const char* name) const {
    std::vector<std::int64_t> found = facts_.of_layers(name);
    if (found.empty()) found.assign(static_cast<std::size_t>(layers_), facts_.required(name));
    INGOT_CHECK(std::ssize(found) == layers_,
                FormatError(facts_.path(), -1, facts_.key(name),
                            fmt::format("has {} numbers for {} layers", found.size(), layers_)));
    return found;
  }

  void read_kinds() {
    slides_ = facts_.of_layers("attention.sliding_window_pattern");
    INGOT_CHECK(std::ssize(slides_) == layers_,
                FormatError(facts_.path(), -1, facts_.key("attention.sliding_window_pattern"),
                            "is not a list of one truth for each layer"));
    Json types = Json::array();
    for (const std::int64_t slides : slides_)
      types.push_back(slides != 0 ? "sliding_attention" : "full_attention");
    config_["layer_types"] = types;
  }

  // As per_layer_config has them; whoever reads that refuses layers of one kind that differ.
  void read_heads() {
    const std::vector<std::int64_t> heads = numbers("attention.head_count_kv");
    const std::int64_t global = facts_.required("attention.key_length"),
                       local = facts_.integer("attention.key_length_swa").value_or(global);
    check_rotary("rope.dimension_count", global);
    check_rotary("rope.dimension_count_swa", local);
    config_["head_dim"] = local;
    config_["num_key_value_heads"] = heads.front();
    const std::int64_t own = layers_ - facts_.integer("attention.shared_kv_layers").value_or(0);
    bool as_values = false;
    Json& layers = config_["per_layer_config"] = Json::object();
    for (std::size_t i = 0; i < heads.size(); ++i) {
      if (slides_[i] != 0) config_["num_key_value_heads"] = heads[i];
      layers[std::to_string(i)] = {{"head_dim", slides_[i] != 0 ? local : global},
                                   {"num_key_value_heads", heads[i]}};
      as_values = as_values || (slides_[i] == 0 && static_cast<std::int64_t>(i) < own &&
                                !facts_.has(fmt::format("blk.{}.attn_v.weight", i)));
    }
    config_["attention_k_eq_v"] = as_values;
  }

  // Whole heads rotate: pairs that stand still have factors for it.
  void check_rotary(const char* name, std::int64_t head) const {
    const std::int64_t rotary = facts_.integer(name).value_or(head);
    INGOT_CHECK(rotary == head,
                refusal(name, fmt::format("{} of {} elements of a head rotate (all do)", rotary, head)));
  }

  void read_widths() {
    const std::vector<std::int64_t> widths = numbers("feed_forward_length");
    config_["intermediate_size"] = widths.front();
    const bool wide = widths.back() == 2 * widths.front();
    config_["use_double_wide_mlp"] = wide;
    const std::int64_t own = layers_ - facts_.integer("attention.shared_kv_layers").value_or(0);
    for (std::size_t i = 0; i < widths.size(); ++i)
      INGOT_CHECK(widths[i] == (wide && static_cast<std::int64_t>(i) >= own ? 2 : 1) * widths.front(),
                  refusal("feed_forward_length", fmt::format("{} of layer {}", widths[i], i)));
  }

  const GgufFacts& facts_;
  Json& config_;
  std::int64_t layers_;
  std::vector<std::int64_t> slides_;
};

}  // namespace

void read_gemma4_layers(const GgufFacts& facts, const std::vector<double>& factors, Json& config) {
  LayerReader reader(facts, config);
  reader.run();
  reader.read_rope(factors);
}

}  // namespace ingot
