#include "ingot/models/language/config.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/base/error.h"

namespace ingot {
namespace {

using Json = nlohmann::ordered_json;

// A family is a row here; what its checkpoints call their tensors stands in name_map.cpp.
struct Family {
  std::string_view model_type;
  std::string_view architecture;
  NormKind norm;
  PositionKind position;
  MlpKind mlp;
  bool qkv_bias, output_bias, qk_norm;
};

constexpr std::array<Family, 5> kFamilies{{
    {"llama", "LlamaForCausalLM", NormKind::rms, PositionKind::rope, MlpKind::swiglu, false, false, false},
    {"mistral", "MistralForCausalLM", NormKind::rms, PositionKind::rope, MlpKind::swiglu, false, false,
     false},
    {"qwen2", "Qwen2ForCausalLM", NormKind::rms, PositionKind::rope, MlpKind::swiglu, true, false, false},
    {"qwen3", "Qwen3ForCausalLM", NormKind::rms, PositionKind::rope, MlpKind::swiglu, false, false, true},
    {"gpt2", "GPT2LMHeadModel", NormKind::layer, PositionKind::learned, MlpKind::gelu, true, true, false},
}};

const Family& family_of(const std::string& model_type, const std::string& where) {
  for (const Family& family : kFamilies) {
    if (family.model_type == model_type) return family;
  }
  throw InvalidConfig(where, fmt::format("model_type '{}' is not known; Ingot has {}", model_type,
                                         fmt::join(known_language_families(), ", ")));
}

void require(bool holds, const char* key, const std::string& problem) {
  INGOT_CHECK(holds, InvalidConfig(key, problem));
}

// Reads typed keys of a config.json; a key that is absent or null leaves the default.
class Reader {
 public:
  Reader(const Json& json, const std::string& path) : json_(json), path_(path) {}

  template <class T>
  void operator()(const char* key, T& value) const {
    const auto found = json_.find(key);
    if (found == json_.end() || found->is_null()) return;
    try {
      value = found->get<T>();
    } catch (const Json::exception&) {
      throw FormatError(path_, -1, key, fmt::format("has the wrong type: {}", found->dump().substr(0, 60)));
    }
  }

 private:
  const Json& json_;
  const std::string& path_;
};

void read_rope(const Json& json, const std::string& path, LanguageConfig& config) {
  // transformers 5 writes rope_parameters {rope_type, rope_theta, ...}; before that, rope_theta and
  // rope_scaling.
  Reader(json, path)("rope_theta", config.rope_theta);
  for (const char* key : {"rope_parameters", "rope_scaling"}) {
    const auto found = json.find(key);
    if (found == json.end() || !found->is_object()) continue;
    const Reader read(*found, path);
    read("type", config.rope_scaling.type);
    read("rope_type", config.rope_scaling.type);
    read("rope_theta", config.rope_theta);
    read("factor", config.rope_scaling.factor);
    read("low_freq_factor", config.rope_scaling.low_freq_factor);
    read("high_freq_factor", config.rope_scaling.high_freq_factor);
    read("original_max_position_embeddings", config.rope_scaling.original_max_position_embeddings);
    return;
  }
}

void read_gpt2(const Json& json, const std::string& path, LanguageConfig& config) {
  const Reader read(json, path);
  read("n_embd", config.hidden_size);
  read("n_layer", config.num_hidden_layers);
  read("n_head", config.num_attention_heads);
  read("n_positions", config.max_position_embeddings);
  read("n_inner", config.intermediate_size);
  read("layer_norm_epsilon", config.norm_eps);
  if (config.intermediate_size == 0) config.intermediate_size = 4 * config.hidden_size;
  std::string activation = "gelu_new";
  read("activation_function", activation);
  INGOT_CHECK(activation == "gelu_new" || activation == "gelu_pytorch_tanh",
              NotImplemented(fmt::format("{}: activation_function '{}' (gelu_new is)", path, activation)));
}

void read_llama_like(const Json& json, const std::string& path, LanguageConfig& config) {
  const Reader read(json, path);
  read("hidden_size", config.hidden_size);
  read("intermediate_size", config.intermediate_size);
  read("num_hidden_layers", config.num_hidden_layers);
  read("num_attention_heads", config.num_attention_heads);
  read("num_key_value_heads", config.num_key_value_heads);
  read("head_dim", config.head_dim);
  read("max_position_embeddings", config.max_position_embeddings);
  read("rms_norm_eps", config.norm_eps);
  read("attention_bias", config.qkv_bias);
  bool use_window = config.model_type == "mistral";
  read("use_sliding_window", use_window);
  if (use_window) read("sliding_window", config.sliding_window);
  read_rope(json, path, config);
  std::string activation = "silu";
  read("hidden_act", activation);
  INGOT_CHECK(activation == "silu",
              NotImplemented(fmt::format("{}: hidden_act '{}' (silu is)", path, activation)));
  // Llama's two flags also put a bias on the output projection and on the MLP; no published model sets one
  // alone.
  bool mlp_bias = false;
  read("mlp_bias", mlp_bias);
  if (config.model_type == "llama") {
    INGOT_CHECK(mlp_bias == config.qkv_bias,
                NotImplemented(path + ": attention_bias and mlp_bias that differ"));
    config.output_bias = mlp_bias;
  }
}

Json rope_to_json(const LanguageConfig& config) {
  const RopeScaling& rope = config.rope_scaling;
  Json json{{"rope_type", rope.type}, {"rope_theta", config.rope_theta}};
  if (rope.type != "default") json["factor"] = rope.factor;
  if (rope.type == "llama3") {
    json["low_freq_factor"] = rope.low_freq_factor;
    json["high_freq_factor"] = rope.high_freq_factor;
    json["original_max_position_embeddings"] = rope.original_max_position_embeddings;
  }
  return json;
}

}  // namespace

std::vector<std::string> known_language_families() {
  std::vector<std::string> names;
  names.reserve(kFamilies.size());
  for (const Family& family : kFamilies) names.emplace_back(family.model_type);
  return names;
}

void apply_family(LanguageConfig& config) {
  const Family& family = family_of(config.model_type, "model_type");
  config.norm = family.norm;
  config.position = family.position;
  config.mlp = family.mlp;
  config.qkv_bias = family.qkv_bias;
  config.output_bias = family.output_bias;
  config.qk_norm = family.qk_norm;
}

void LanguageConfig::validate() {
  require(vocab_size > 0, "vocab_size", fmt::format("must be positive, got {}", vocab_size));
  require(hidden_size > 0, "hidden_size", fmt::format("must be positive, got {}", hidden_size));
  require(num_hidden_layers > 0, "num_hidden_layers",
          fmt::format("must be positive, got {}", num_hidden_layers));
  require(num_attention_heads > 0, "num_attention_heads",
          fmt::format("must be positive, got {}", num_attention_heads));
  require(intermediate_size > 0, "intermediate_size",
          fmt::format("must be positive, got {}", intermediate_size));
  require(max_position_embeddings > 0, "max_position_embeddings",
          fmt::format("must be positive, got {}", max_position_embeddings));
  require(norm_eps > 0, "rms_norm_eps", fmt::format("must be positive, got {}", norm_eps));
  require(is_training_dtype(dtype), "dtype",
          fmt::format("{} is not a dtype to train or run in", name(dtype)));
  if (num_key_value_heads == 0) num_key_value_heads = num_attention_heads;
  require(num_attention_heads % num_key_value_heads == 0, "num_key_value_heads",
          fmt::format("{} does not divide num_attention_heads {}", num_key_value_heads, num_attention_heads));
  if (head_dim == 0) {
    require(hidden_size % num_attention_heads == 0, "num_attention_heads",
            fmt::format("{} does not divide hidden_size {}; choose another, or set head_dim",
                        num_attention_heads, hidden_size));
    head_dim = hidden_size / num_attention_heads;
  }
  require(head_dim > 0, "head_dim", fmt::format("must be positive, got {}", head_dim));
  if (position == PositionKind::rope) {
    require(head_dim % 2 == 0, "head_dim",
            fmt::format("RoPE rotates pairs, so it must be even; got {}", head_dim));
    require(rope_theta > 0, "rope_theta", fmt::format("must be positive, got {}", rope_theta));
    require(rope_scaling.type == "default" || rope_scaling.type == "linear" || rope_scaling.type == "llama3",
            "rope_scaling.rope_type",
            fmt::format("'{}' is not supported; default, linear and llama3 are", rope_scaling.type));
    require(rope_scaling.factor >= 1, "rope_scaling.factor",
            fmt::format("must be at least 1, got {}", rope_scaling.factor));
  }
}

std::int64_t LanguageConfig::parameter_count() const {
  const std::int64_t query = num_attention_heads * head_dim, key_value = num_key_value_heads * head_dim;
  const std::int64_t norm_size = norm == NormKind::layer ? 2 * hidden_size : hidden_size;
  const std::int64_t mlp_matrices = mlp == MlpKind::swiglu ? 3 : 2;
  std::int64_t layer =
      hidden_size * (2 * query + 2 * key_value) + mlp_matrices * hidden_size * intermediate_size;
  layer += 2 * norm_size;
  if (qkv_bias) layer += query + 2 * key_value;
  if (output_bias) layer += hidden_size + hidden_size + (mlp_matrices - 1) * intermediate_size;
  if (qk_norm) layer += 2 * head_dim;
  std::int64_t total =
      vocab_size * hidden_size * (tie_word_embeddings ? 1 : 2) + num_hidden_layers * layer + norm_size;
  if (position == PositionKind::learned) total += max_position_embeddings * hidden_size;
  return total;
}

double LanguageConfig::training_flops_per_token(std::int64_t sequence) const {
  std::int64_t matmul_parameters = parameter_count();
  if (!tie_word_embeddings) matmul_parameters -= vocab_size * hidden_size;  // the look-up is not a product
  if (position == PositionKind::learned) matmul_parameters -= max_position_embeddings * hidden_size;
  const auto attention = static_cast<double>(num_hidden_layers * num_attention_heads * head_dim * sequence);
  return 6.0 * static_cast<double>(matmul_parameters) + 6.0 * attention;
}

LanguageConfig LanguageConfig::from_json(std::string_view text, const std::string& path) {
  const Json json = Json::parse(text, nullptr, false);
  INGOT_CHECK(json.is_object(), FormatError(path, -1, "config", "is not a JSON object"));
  LanguageConfig config;
  const Reader read(json, path);
  config.model_type.clear();
  read("model_type", config.model_type);
  static_cast<void>(family_of(config.model_type, path));
  apply_family(config);
  config.tie_word_embeddings = config.model_type == "gpt2";  // each family's default in transformers
  read("vocab_size", config.vocab_size);
  read("tie_word_embeddings", config.tie_word_embeddings);
  read("initializer_range", config.initializer_range);
  read("bos_token_id", config.bos_token_id);
  if (const auto eos = json.find("eos_token_id"); eos != json.end() && eos->is_array() && !eos->empty()) {
    eos->front().get_to(config.eos_token_id);  // Llama 3 lists several; generation_config.json has them all
  } else {
    read("eos_token_id", config.eos_token_id);
  }
  std::string dtype;
  read("torch_dtype", dtype);
  read("dtype", dtype);
  if (!dtype.empty()) config.dtype = parse_dtype(dtype);
  if (config.model_type == "gpt2") {
    read_gpt2(json, path, config);
  } else {
    read_llama_like(json, path, config);
  }
  config.validate();
  return config;
}

std::string LanguageConfig::to_json() const {
  const Family& family = family_of(model_type, "model_type");
  static constexpr std::array<std::string_view, 4> kTorchNames{"float32", "float64", "float16", "bfloat16"};
  Json json{{"architectures", Json::array({std::string(family.architecture)})},
            {"model_type", model_type},
            {"vocab_size", vocab_size},
            {"tie_word_embeddings", tie_word_embeddings},
            {"initializer_range", initializer_range},
            {"torch_dtype", kTorchNames[static_cast<std::size_t>(dtype)]}};
  json["bos_token_id"] = bos_token_id < 0 ? Json(nullptr) : Json(bos_token_id);
  json["eos_token_id"] = eos_token_id < 0 ? Json(nullptr) : Json(eos_token_id);
  if (model_type == "gpt2") {
    json.update(Json{{"n_embd", hidden_size},
                     {"n_layer", num_hidden_layers},
                     {"n_head", num_attention_heads},
                     {"n_positions", max_position_embeddings},
                     {"n_inner", intermediate_size},
                     {"layer_norm_epsilon", norm_eps},
                     {"activation_function", "gelu_new"}});
    return json.dump(2) + "\n";
  }
  json.update(Json{{"hidden_size", hidden_size},
                   {"intermediate_size", intermediate_size},
                   {"num_hidden_layers", num_hidden_layers},
                   {"num_attention_heads", num_attention_heads},
                   {"num_key_value_heads", num_key_value_heads},
                   {"head_dim", head_dim},
                   {"max_position_embeddings", max_position_embeddings},
                   {"rms_norm_eps", norm_eps},
                   {"hidden_act", "silu"},
                   {"rope_theta", rope_theta},
                   {"rope_parameters", rope_to_json(*this)}});
  if (model_type == "llama") json.update(Json{{"attention_bias", qkv_bias}, {"mlp_bias", output_bias}});
  if (rope_scaling.type != "default") json["rope_scaling"] = rope_to_json(*this);
  if (sliding_window > 0) json["sliding_window"] = sliding_window;
  if (sliding_window > 0 && model_type != "mistral") json["use_sliding_window"] = true;
  return json.dump(2) + "\n";
}

}  // namespace ingot
