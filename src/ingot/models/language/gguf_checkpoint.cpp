
#include <algorithm>
#include <cmath>
#include <numbers>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "ingot/base/error.h"
#include "ingot/base/json.h"
#include "ingot/base/suggest.h"
#include "ingot/models/language/checkpoint.h"
#include "ingot/models/language/family.h"
#include "ingot/models/language/gguf_facts.h"
#include "ingot/models/language/gguf_gemma3n.h"
#include "ingot/models/language/gguf_gemma4.h"
#include "ingot/models/language/gguf_layer_numbers.h"
#include "ingot/models/language/gguf_orders.h"
#include "ingot/models/language/gguf_states.h"
#include "ingot/models/language/llama_cpp.h"
#include "ingot/models/require.h"
#include "ingot/weights/transform.h"

namespace ingot {
namespace {

using Json = nlohmann::ordered_json;

// Of cos and sin in the one Phi 3.5 MoE that was released with LongRoPE. Files have what llama.cpp's
// converter computes for Phi 3 instead.
constexpr double kPhimoeScale = 1.243163121016122;

/// Reads one model's metadata and tensors.
class GgufModel : private GgufFacts {
 public:
  explicit GgufModel(const GgufSource& source) : GgufFacts(source), family_(find_family()) {}

  Json config() const {
    Json config = parse_json<Json>(gguf_.fixed, "the family's fixed configuration");
    config["model_type"] = family_.model_type;
    for (const GgufKeyRule& rule : gguf_.keys) {
      const GgufValue* value = fields_.find(key(rule.gguf));
      if (value == nullptr || is_layer_list(*value)) continue;
      config[Json::json_pointer(json_pointer(rule.hugging_face))] = value_of(rule.kind, key(rule.gguf));
    }
    config["vocab_size"] = source_.get_metadata("token_embd.weight").shape.at(0);
    config["tie_word_embeddings"] = !source_.is_available("output.weight");
    config["torch_dtype"] = dtype_ == DType::f16 ? "float16" : dtype_ == DType::bf16 ? "bfloat16" : "float32";
    add_token(config, "bos_token_id");
    add_token(config, "eos_token_id");
    if (!family_.attention_bias_key.empty())
      config[std::string(family_.attention_bias_key)] = any(".attn_q.bias") || any(".attn_qkv.bias");
    if (!family_.mlp_bias_key.empty()) config[std::string(family_.mlp_bias_key)] = any(".ffn_up.bias");
    if (architecture_ == "gemma4") {
      read_gemma4_layers(*this, factors("rope_freqs.weight"), config);
    } else {
      add_rope(config);
      add_gemma(config);
    }
    if (architecture_ == "gemma-embedding") add_embedding_gemma(config);
    add_windows(config);
    if (architecture_ == "gemma3n") read_gemma3n_layers(*this, source_, config);
    add_experts_of(config);
    add_latent_sizes(config);
    add_falcon(config);
    read_states(*this, config);
    return config;
  }

  /// The source with latent keys' matrices transposed, queries, keys and values of groups apart, and numbers
  /// of layers as tensors, where it has such.
  std::shared_ptr<const WeightSource> prepared(const std::shared_ptr<const GgufSource>& source) const {
    std::vector<TensorRecipe> recipes;
    bool any = false;
    for (const TensorInfo& info : source->tensors()) {
      recipes.push_back({info.name, {info.name}, {}});
      const auto match = match_gguf_name(gguf_, info.name);
      if (!match) continue;
      if (info.name.ends_with(".attn_k_b.weight")) {
        recipes.back().steps.push_back(Transform::transpose());
      } else if (match->rule->change == GgufChange::grouped_heads) {
        for (int i = 0; const std::vector<Transform>& steps : heads().grouped(info.shape.size() > 1))
          recipes.push_back({fmt::format("{}.{}", info.name, i++), {info.name}, steps});
      } else {
        continue;
      }
      any = true;
    }
    const std::shared_ptr<const WeightSource> all =
        any ? std::make_shared<TransformedSource>(source, std::move(recipes)) : nullptr;
    return with_layer_numbers(any ? all : source, fields_, gguf_.layer_numbers, layers_of_numbers());
  }

  std::vector<TensorRecipe> recipes() const {
    std::vector<TensorRecipe> recipes;
    for (const TensorInfo& info : source_.tensors()) {
      if (info.name.starts_with("rope_f") || info.name.ends_with(".attn_rot_embd"))
        continue;                                                                           // config has them
      if (architecture_ == "gemma-embedding" && info.name.starts_with("dense_")) continue;  // behind pooling
      if (info.name.find(".nextn.") != std::string::npos) continue;  // of layers that predict further tokens
      const auto match = match_gguf_name(gguf_, info.name);
      if (!match) {
        recipes.push_back({info.name, {info.name}, {}});  // whoever loads says that it is unexpected
        continue;
      }
      add_recipes(*match, info, recipes);
    }
    for (const std::string& name : layer_number_names(gguf_.layer_numbers, layers_of_numbers())) {
      recipes.push_back({name, {name}, {}});
      if (dtype_ != DType::f32) recipes.back().steps.push_back(Transform::cast(dtype_));
    }
    return recipes;
  }

 private:
  const LanguageFamily& find_family() const {
    INGOT_CHECK(!architecture_.empty(), FormatError(source_.location(), -1, "general.architecture",
                                                    "is missing: this is not a model"));
    const LanguageFamily* family = find_gguf_family(architecture_, integer("expert_count").value_or(0) > 0);
    constexpr std::int64_t kSigmoid = 2;
    if (architecture_ == "granitehybrid")
      family = find_language_family(is_bamba(*this) ? "bamba" : "granitemoehybrid");
    if (architecture_ == "gemma-embedding") family = find_language_family("gemma3_text");
    if (architecture_ == "olmo2" && integer("attention.sliding_window").value_or(0) > 0)
      family = find_language_family("olmo3");
    if (architecture_ == "granitemoe" && integer("expert_shared_feed_forward_length").value_or(0) > 0)
      family = find_language_family("granitemoeshared");
    if (architecture_ == "deepseek2" && integer("expert_gating_func") == kSigmoid)
      family = find_language_family("deepseek_v3");
    const std::vector<std::string> known = known_gguf_architectures();
    INGOT_CHECK(family != nullptr,
                NotImplemented(fmt::format("{}: general.architecture '{}'{}; Ingot runs {}",
                                           source_.location(), architecture_,
                                           did_you_mean(architecture_, known), fmt::join(known, ", "))));
    return *family;
  }

  // Layers that have numbers among the metadata.
  std::int64_t layers_of_numbers() const {
    if (gguf_.layer_numbers.empty()) return 0;
    const std::int64_t layers = required("block_count");
    INGOT_CHECK(layers <= kMaxModelLayers,
                FormatError(source_.location(), -1, key("block_count"),
                            fmt::format("{} layers are more than any model has", layers)));
    return layers;
  }

  /// Most numbers are f32; the shortest text that means the same f32 is what was meant (1e-05).
  static double short_number(double value) {
    const auto narrow = static_cast<float>(value);
    if (static_cast<double>(narrow) != value) return value;
    return std::stod(fmt::format("{}", narrow));
  }

  Json value_of(GgufKeyKind kind, const std::string& key) const {
    if (kind == GgufKeyKind::boolean) return *fields_.boolean(key);
    if (kind == GgufKeyKind::integer) return *fields_.integer(key);
    return short_number(*fields_.number(key));
  }

  /// What a file computes in: its matrices' type, f32 where they are quantized.
  static DType find_dtype(const GgufSource& source) {
    const TensorInfo* embedding = source.find("token_embd.weight");
    INGOT_CHECK(embedding != nullptr,
                FormatError(source.location(), -1, "token_embd.weight",
                            "is missing: the file holds a vocabulary only, or no model"));
    const bool half = embedding->dtype.has_value() && is_half_precision(*embedding->dtype);
    return half ? *embedding->dtype : DType::f32;
  }

  void add_token(Json& config, const char* key) const {
    const auto id = fields_.integer(fmt::format("tokenizer.ggml.{}", key));
    config[key] = id ? Json(*id) : Json(nullptr);
  }

  std::int64_t width_of_a_head() const {
    const std::int64_t width = required("embedding_length");  // first: the order is what it says
    return width / required("attention.head_count");
  }
  std::int64_t head_size() const {
    const auto given = integer("attention.key_length");
    return given ? *given : width_of_a_head();
  }

  std::vector<double> factors(const char* tensor) const {
    if (!source_.is_available(tensor)) return {};
    const std::vector<float> values = source_.load_tensor(tensor).to_vector<float>();
    std::vector<double> factors;
    factors.reserve(values.size());
    for (const float value : values) factors.push_back(short_number(static_cast<double>(value)));
    return factors;
  }

  void add_rope(Json& config) const {
    if (family_.traits.position != PositionKind::rope || family_.traits.mamba_layers) return;
    const std::int64_t rotary = integer("rope.dimension_count").value_or(head_size());
    const bool partial_by_default = family_.defaults.find("partial_rotary_factor") != std::string_view::npos;
    if (rotary != head_size() || partial_by_default) {
      config["partial_rotary_factor"] = static_cast<double>(rotary) / static_cast<double>(head_size());
    }
    const auto original = integer("rope.scaling.original_context_length");
    if (const auto long_factors = factors("rope_factors_long.weight"); !long_factors.empty()) {
      config["rope_scaling"] = {{"rope_type", "longrope"},
                                {"long_factor", long_factors},
                                {"short_factor", factors("rope_factors_short.weight")}};
      if (architecture_ == "phimoe")
        config["rope_scaling"]["short_mscale"] = config["rope_scaling"]["long_mscale"] = kPhimoeScale;
      else if (const auto factor = number("rope.scaling.attn_factor"))
        config["rope_scaling"]["attention_factor"] = short_number(*factor);
      if (original) config["original_max_position_embeddings"] = *original;
      return;
    }
    if (const auto llama3 = factors("rope_freqs.weight"); !llama3.empty()) {
      config["rope_scaling"] = llama3_scaling(llama3, config);
      return;
    }
    const std::string type = fields_.text(architecture_ + ".rope.scaling.type").value_or("none");
    if (type == "none") {
      if (family_.defaults.find("rope_parameters") != std::string_view::npos)
        config["rope_scaling"] = {{"rope_type", "default"}};
      if (architecture_ == "mistral3" && original)
        config["rope_scaling"]["original_max_position_embeddings"] = *original;
      add_mistral(config);
      return;
    }
    config["rope_scaling"] = {{"rope_type", type}};
    if (const auto factor = number("rope.scaling.factor"); factor && *factor != 0) {  // 0 means unset there
      config["rope_scaling"]["factor"] = short_number(*factor);
      if (const auto relative = number("rope.scaling.attn_factor"); relative && type == "yarn")
        config["rope_scaling"]["attention_factor"] = *relative * (0.1 * std::log(*factor) + 1);
    }
    if (original) config["rope_scaling"]["original_max_position_embeddings"] = *original;
    for (const char* beta : {"beta_fast", "beta_slow"})
      if (const auto turns = number(fmt::format("rope.scaling.yarn_{}", beta)))
        config["rope_scaling"][beta] = short_number(*turns);
    add_mistral(config);
  }

  /// Queries that grow with their position. YaRN's factor of cos and sin is relative to log_multiplier, where
  /// llama.cpp's converter wrote the file.
  void add_mistral(Json& config) const {
    if (architecture_ != "mistral3") return;
    Json& rope = config["rope_scaling"];
    rope["llama_4_scaling_beta"] = short_number(number("attention.temperature_scale").value_or(0));
    const double log = number("rope.scaling.yarn_log_multiplier").value_or(0);
    if (log == 0 || rope.contains("attention_factor") || rope["rope_type"] != "yarn") return;
    rope["mscale"] = 1.0;
    rope["mscale_all_dim"] = short_number(log);
  }

  /// Llama 3's files hold what each pair's period is multiplied by, not the settings that led there. All that
  /// were released have the same three; any other factors are LongRoPE's form without its attention factor.
  Json llama3_scaling(const std::vector<double>& found, const Json& config) const {
    constexpr double kLow = 1, kHigh = 4, kContext = 8192;
    const double factor = *std::ranges::max_element(found);
    const double theta = config.value("rope_theta", 10000.0);
    const auto dims = static_cast<double>(2 * found.size());
    bool released = true;
    for (std::size_t i = 0; i < found.size(); ++i) {
      const double wavelength = 2 * std::numbers::pi * std::pow(theta, 2 * static_cast<double>(i) / dims);
      const double smooth = std::clamp((kContext / wavelength - kLow) / (kHigh - kLow), 0.0, 1.0);
      const double expected = 1 / ((1 - smooth) / factor + smooth);
      released = released && std::abs(found[i] - expected) <= 1e-4 * expected;
    }
    if (!released) {
      return {{"rope_type", "longrope"},
              {"short_factor", found},
              {"long_factor", found},
              {"attention_factor", 1.0}};
    }
    return {{"rope_type", "llama3"},
            {"factor", factor},
            {"low_freq_factor", kLow},
            {"high_freq_factor", kHigh},
            {"original_max_position_embeddings", static_cast<std::int64_t>(kContext)}};
  }

  /// What Gemma's metadata leave to the reader: the 27B models divide scores by something else than the
  /// head's size (llama.cpp tells them by their layers, too).
  void add_gemma(Json& config) const {
    if (!architecture_.starts_with("gemma")) return;
    const std::int64_t layers = required("block_count");
    const bool largest = layers == (architecture_ == "gemma2" ? 46 : 62);
    config["query_pre_attn_scalar"] = largest ? width_of_a_head() : head_size();
    config["head_dim"] = head_size();
  }

  /// A text encoder, whose windows the file counts on both sides, as config.json does.
  void add_embedding_gemma(Json& config) const {
    config["use_bidirectional_attention"] = true;
    if (const auto theta = number("rope.freq_base_swa"))
      config["rope_local_base_freq"] = short_number(*theta);
  }

  /// Which layers slide, where the file says it: a list, or every how many one does not.
  void add_windows(Json& config) const {
    if (!llama_cpp_lists_windows(architecture_)) return;
    constexpr const char* kPattern = "attention.sliding_window_pattern";
    const std::vector<std::int64_t> slides = of_layers(kPattern);
    for (const std::int64_t here : slides)
      config["layer_types"].push_back(here != 0 ? "sliding_attention" : "full_attention");
    if (const auto* period = fields_.find(key(kPattern)); period != nullptr && !period->is_array)
      config["sliding_window_pattern"] = required(kPattern);
  }

  /// Falcon's generations are told by their heads and norms.
  void add_falcon(Json& config) const {
    if (architecture_ != "falcon") return;
    const bool grouped = integer("attention.head_count_kv").value_or(1) > 1;
    config["new_decoder_architecture"] = grouped;
    config["multi_query"] = !grouped;
    config["num_ln_in_parallel_attn"] = source_.is_available("blk.0.attn_norm_2.weight") ? 2 : 1;
  }

  /// Hybrids have a number for each layer of what others have one for all: read_states() reads it.
  bool is_layer_list(const GgufValue& value) const {
    return value.is_array &&
           (architecture_.starts_with("lfm2") || architecture_ == "gemma4" || architecture_ == "gemma3n" ||
            source_.fields().find(key("ssm.inner_size")) != nullptr);
  }

  /// Rows of heads of queries or keys from pairs that rotate together to halves.
  Transform halves(std::int64_t heads) const {
    const std::int64_t size = head_size(), rotated = integer("rope.dimension_count").value_or(size);
    if (rotated >= size || rotated < 2) return Transform::rotary_to_halves(heads);
    check_heads(heads, size);
    return Transform::take(0, inverse(rotary_pairs(heads, size, rotated)));
  }

  DeltaSizes delta_sizes() const {
    const DeltaSizes sizes{required("ssm.group_count"), required("ssm.time_step_rank"),
                           required("ssm.state_size"),
                           required("ssm.inner_size") / required("ssm.time_step_rank")};
    check_heads(sizes.key_heads, sizes.key_size);
    check_heads(sizes.value_heads, sizes.value_size);
    INGOT_CHECK(sizes.value_heads % sizes.key_heads == 0,
                FormatError(source_.location(), -1, key("ssm.time_step_rank"),
                            fmt::format("{} is not a multiple of ssm.group_count {}", sizes.value_heads,
                                        sizes.key_heads)));
    return sizes;
  }

  void check_heads(std::int64_t heads, std::int64_t size) const {
    INGOT_CHECK(heads > 0 && size > 0 && heads <= kMaxModelSize && size <= kMaxModelSize / heads * 16,
                FormatError(source_.location(), -1, architecture_,
                            fmt::format("{} heads of {} elements are more than any model has", heads, size)));
  }

  /// To a checkpoint's order, before any other step.
  std::vector<Transform> untiled(const GgufNameMatch& match) const {
    if (!architecture_.starts_with("qwen35")) return {};
    const std::string_view part = part_of(match.rule->gguf);
    if (part != "ssm_out" && part != "attn_qkv" && part != "attn_gate" && !part.starts_with("ssm_"))
      return {};
    return delta_sizes().tiled(part, false);
  }

  /// The sizes of latent attention, as files of both generations have them.
  void add_latent_sizes(Json& config) const {
    if (architecture_ != "deepseek2") return;
    const auto size = [&](const char* name) {
      const std::string newer = fmt::format("attention.{}_length_mla", name);
      return integer(newer) ? required(newer) : required(fmt::format("attention.{}_length", name));
    };
    const std::int64_t rotary = required("rope.dimension_count");
    config["qk_rope_head_dim"] = rotary;
    config["qk_nope_head_dim"] = size("key") - rotary;
    config["v_head_dim"] = size("value");
    const auto queries = integer("attention.q_lora_rank");
    config["q_lora_rank"] = queries && *queries > 0 ? Json(*queries) : Json(nullptr);
    config["attention_bias"] = source_.is_available("blk.0.attn_kv_a_mqa.bias");
    config.erase("partial_rotary_factor");
    if (const auto log = number("rope.scaling.yarn_log_multiplier"); log && config.contains("rope_scaling"))
      config["rope_scaling"]["mscale"] = config["rope_scaling"]["mscale_all_dim"] = 10 * short_number(*log);
  }

  /// What only some families' metadata or tensors tell of experts and of layers behind the model's.
  void add_experts_of(Json& config) const {
    if (const std::int64_t next = integer("nextn_predict_layers").value_or(0); next > 0)
      config["num_hidden_layers"] = required("block_count") - next;
    if (architecture_ == "gpt-oss" && config.contains("rope_scaling"))
      config["rope_scaling"]["truncate"] = false;
    if (architecture_ == "llama4") add_llama4(config);
    if (architecture_ == "phimoe") config["lm_head_bias"] = source_.is_available("output.bias");
    if (architecture_ == "glm4moe") config["use_qk_norm"] = source_.is_available("blk.0.attn_q_norm.weight");
    const auto shared = integer("expert_shared_feed_forward_length");
    if (architecture_ == "ernie4_5-moe" && shared)
      config["moe_num_shared_experts"] = *shared / required("expert_feed_forward_length");
  }

  // llama.cpp knows the two released models by their experts; chunks, and how queries grow, are theirs.
  void add_llama4(Json& config) const {
    constexpr std::int64_t kMaverickExperts = 128;
    INGOT_CHECK(integer("attention.sliding_window").value_or(1) != 0,
                NotImplemented(fmt::format("{}: {} 0, a Llama 4 without chunks", source_.location(),
                                           key("attention.sliding_window"))));
    config["use_qk_norm"] = integer("expert_count") != kMaverickExperts;
  }

  void add_recipes(const GgufNameMatch& match, const TensorInfo& info,
                   std::vector<TensorRecipe>& recipes) const {
    TensorRecipe recipe{match.hugging_face(), {info.name}, untiled(match)};
    switch (match.rule->change) {
      case GgufChange::none:
      case GgufChange::whole:
      case GgufChange::unsuffixed:
        break;
      case GgufChange::query_rows:
        recipe.steps.push_back(halves(required("attention.head_count")));
        break;
      case GgufChange::key_rows:
        recipe.steps.push_back(halves(gguf_key_heads(*this)));
        break;
      case GgufChange::first_of_groups:
        add_groups(match, recipe);
        break;
      case GgufChange::transposed:
        if (info.shape.size() == 2) recipe.steps.push_back(Transform::transpose());
        break;
      case GgufChange::plus_one:
        if (match.suffix == ".weight") recipe.steps.push_back(Transform::scale(1, -1));
        break;
      case GgufChange::fused_heads:
        recipe.steps = exchanged_groups(info, 3, required("attention.head_count"), head_size());
        break;
      case GgufChange::one_row:
        recipe.steps.push_back(Transform::reshape({1, -1}));
        break;
      case GgufChange::conv_taps:
        if (info.shape.size() == 2) recipe.steps.push_back(Transform::reshape({info.shape[0], 1, -1}));
        break;
      case GgufChange::bare_row:
        recipe.steps.push_back(Transform::reshape({1, -1}));
        recipes.push_back(std::move(recipe));
        return;
      case GgufChange::bare:  // small, and kept as precise as they are
        recipes.push_back(std::move(recipe));
        return;
      case GgufChange::first_interleaved:
        add_turns(match, info, recipe);
        break;
      case GgufChange::first_columns:
        add_halves(match, info, recipe);
        recipe.steps.push_back(Transform::transpose());
        recipe.stacks_in_order = info.shape.size() == 3;
        break;
      case GgufChange::second_interleaved:
      case GgufChange::second_columns:
      case GgufChange::second_half:
      case GgufChange::second_of_groups:
      case GgufChange::latent_values:
        return;  // with the first
      case GgufChange::first_half:
        add_halves(match, info, recipe);
        break;
      case GgufChange::group_rows:
        recipe.steps.push_back(Transform::reshape({-1}));
        break;
      case GgufChange::decay:
        recipe.steps.insert(recipe.steps.end(), {Transform::reshape({-1}), Transform::log_of_negative()});
        break;
      case GgufChange::column:
        recipe.steps.push_back(Transform::reshape({-1}));
        break;
      case GgufChange::decay_row:
        recipe.steps.push_back(Transform::log_of_negative());
        break;
      case GgufChange::latent_keys:
        add_latent(match, info, recipe);
        break;
      case GgufChange::transposed_stack:
        if (info.shape.size() == 3) recipe.steps.push_back(Transform::transpose());
        recipe.stacks_in_turns = info.shape.size() == 3;
        break;
      case GgufChange::grouped_heads:
        add_grouped_heads(info, recipe);
        break;
      case GgufChange::experts:
        add_experts(match, info, recipes);
        return;
    }
    add_cast(info, recipe);
    recipes.push_back(std::move(recipe));
  }

  // Two matrices, or stacks of them, one below the other.
  static void add_halves(const GgufNameMatch& match, const TensorInfo& info, TensorRecipe& recipe) {
    GgufNameMatch second = match;
    ++second.rule;
    recipe.inputs.push_back(second.gguf());
    recipe.concat_axis = static_cast<int>(info.shape.size()) - 2;
  }

  // All queries, keys and values, and all gates, one below the other.
  void add_groups(const GgufNameMatch& match, TensorRecipe& recipe) const {
    GgufNameMatch second = match;
    ++second.rule;
    recipe.inputs.push_back(second.gguf());
    recipe.steps.push_back(Transform::take(0, inverse(delta_sizes().all_of_each())));
  }

  // Of parts that are apart by then (prepared).
  void add_grouped_heads(const TensorInfo& info, TensorRecipe& recipe) const {
    recipe.inputs.clear();
    for (int i = 0; i < 3; ++i) recipe.inputs.push_back(fmt::format("{}.{}", info.name, i));
    recipe.concat_axis = 1;
    recipe.steps = heads().whole(info.shape.size() > 1);
  }

  GroupedHeads heads() const {
    const std::int64_t queries = required("attention.head_count");
    const std::int64_t groups =
        std::max<std::int64_t>(integer("attention.head_count_kv").value_or(queries), 1);
    const std::int64_t size = head_size();
    INGOT_CHECK(
        queries > 0 && queries <= kMaxModelSize && queries % groups == 0 && size > 0 && size <= kMaxModelSize,
        FormatError(
            source_.location(), -1, "attention.head_count",
            fmt::format("{} heads of {} elements with {} for keys and values: expected sizes from 1 to "
                        "{}, and a divisor of the heads",
                        queries, size, groups, kMaxModelSize)));
    return {groups, queries / groups, size};
  }

  // Keys' matrices, transposed by then (prepared), and values' of each head as one matrix.
  void add_latent(const GgufNameMatch& match, const TensorInfo& info, TensorRecipe& recipe) const {
    GgufNameMatch second = match;
    ++second.rule;
    INGOT_CHECK(info.shape.size() == 3,
                FormatError(source_.location(), -1, info.name,
                            fmt::format("shape {} is not [heads, kv_lora_rank, qk_nope_head_dim]",
                                        to_string(info.shape))));
    recipe.inputs.push_back(second.gguf());
    recipe.concat_axis = 1;
    recipe.steps = {Transform::reshape({-1, info.shape[1]})};
  }

  // Two stacks [experts, out, in], or vectors [experts, out], as one [experts, in, 2 · out].
  void add_turns(const GgufNameMatch& match, const TensorInfo& info, TensorRecipe& recipe) const {
    GgufNameMatch second = match;
    ++second.rule;
    recipe.inputs.push_back(second.gguf());
    recipe.concat_axis = 1;
    const std::vector<std::int64_t>& shape = info.shape;
    INGOT_CHECK(shape.size() == 2 || shape.size() == 3,
                FormatError(source_.location(), -1, info.name,
                            fmt::format("shape {} is not [experts, out, in]", to_string(shape))));
    recipe.stacks_in_turns = shape.size() == 3;
    if (recipe.stacks_in_turns) {
      recipe.steps = {Transform::reshape({shape[0], 2, shape[1], shape[2]}), Transform::permute({0, 3, 2, 1}),
                      Transform::reshape({shape[0], shape[2], 2 * shape[1]})};
    } else {
      recipe.steps = {Transform::reshape({shape[0], 2, shape[1]}), Transform::permute({0, 2, 1}),
                      Transform::reshape({shape[0], 2 * shape[1]})};
    }
  }

  void add_experts(const GgufNameMatch& match, const TensorInfo& info,
                   std::vector<TensorRecipe>& recipes) const {
    INGOT_CHECK(info.shape.size() == 3,
                FormatError(source_.location(), -1, info.name,
                            fmt::format("shape {} is not [experts, out, in]", to_string(info.shape))));
    for (std::int64_t expert = 0; expert < info.shape[0]; ++expert) {
      TensorRecipe recipe{match.hugging_face(expert), {info.name}, {}};
      recipe.steps.push_back(Transform::select(expert));
      add_cast(info, recipe);
      recipes.push_back(std::move(recipe));
    }
  }

  /// Norms stay f32 in files of half precision; a model computes in one dtype.
  void add_cast(const TensorInfo& info, TensorRecipe& recipe) const {
    if (info.dtype.has_value() && *info.dtype != dtype_) recipe.steps.push_back(Transform::cast(dtype_));
  }

  const LanguageFamily& family_;
  const GgufFamily gguf_ = named_for(family_.gguf, integer("expert_count").value_or(0) > 0);
  DType dtype_ = find_dtype(source_);
};

}  // namespace

ModelCheckpoint gguf_checkpoint(const std::shared_ptr<const GgufSource>& source) {
  const GgufModel model(*source);
  return {dump_json(model.config(), 2) + "\n", source->location(),
          std::make_shared<TransformedSource>(model.prepared(source), model.recipes())};
}

}  // namespace ingot
