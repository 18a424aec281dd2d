#include <nlohmann/json.hpp>

#include "ingot/base/error.h"
#include "ingot/models/language/families/families.h"

namespace ingot::families {
namespace {

using Json = nlohmann::ordered_json;

void read_opt(const ConfigFile& file, LanguageConfig& c) {
  file.read("hidden_size", c.hidden_size);
  file.read("ffn_dim", c.intermediate_size);
  file.read("num_hidden_layers", c.num_hidden_layers);
  file.read("num_attention_heads", c.num_attention_heads);
  file.read("max_position_embeddings", c.max_position_embeddings);
  file.read("word_embed_proj_dim", c.word_embed_proj_dim);
  if (c.word_embed_proj_dim == c.hidden_size) c.word_embed_proj_dim = 0;
  file.read("init_std", c.initializer_range);
  bool before = true, removed = false, affine = true, bias = true;
  file.read("do_layer_norm_before", before);
  file.read("_remove_final_layer_norm", removed);
  file.read("layer_norm_elementwise_affine", affine);
  file.read("enable_bias", bias);
  INGOT_CHECK(!removed || !before,
              NotImplemented(file.path() + ": _remove_final_layer_norm true (false is)"));
  if (!before) c.norm_placement = NormPlacement::sum;
  if (!affine) c.norm = NormKind::layer_plain;
  c.qkv_bias = c.attention_output_bias = c.mlp_bias = bias;
  std::string activation = "relu";
  file.read("activation_function", activation);
  INGOT_CHECK(activation == "relu" || activation == "gelu",
              NotImplemented(file.path() + ": activation_function '" + activation + "' (relu and gelu are)"));
  if (activation == "gelu") c.mlp = MlpKind::gelu_erf;  // Galactica
}

void write_opt(const LanguageConfig& c, Json& json) {
  json.update(Json{{"hidden_size", c.hidden_size},
                   {"ffn_dim", c.intermediate_size},
                   {"num_hidden_layers", c.num_hidden_layers},
                   {"num_attention_heads", c.num_attention_heads},
                   {"max_position_embeddings", c.max_position_embeddings},
                   {"word_embed_proj_dim", c.embedding_size()},
                   {"init_std", c.initializer_range},
                   {"do_layer_norm_before", c.norm_placement != NormPlacement::sum},
                   {"layer_norm_elementwise_affine", c.norm != NormKind::layer_plain},
                   {"enable_bias", c.mlp_bias},
                   {"activation_function", c.mlp == MlpKind::relu ? "relu" : "gelu"}});
}

void map_opt(const LanguageConfig& /*config*/, WeightMap& map) {
  map.prefix = "model.";
  map.spellings.push_back({"decoder.", "model.decoder.", true, "without the prefix model."});
  const std::string ours = "model.", theirs = "model.decoder.";
  for (const auto& [mine, its] : {std::pair{"embed_tokens", "embed_tokens"},
                                  {"embed_positions", "embed_positions"},
                                  {"project_in", "project_in"},
                                  {"project_out", "project_out"},
                                  {"norm", "final_layer_norm"},
                                  {"layers.*.self_attn.q_proj", "layers.*.self_attn.q_proj"},
                                  {"layers.*.self_attn.k_proj", "layers.*.self_attn.k_proj"},
                                  {"layers.*.self_attn.v_proj", "layers.*.self_attn.v_proj"},
                                  {"layers.*.self_attn.o_proj", "layers.*.self_attn.out_proj"},
                                  {"layers.*.input_layernorm", "layers.*.self_attn_layer_norm"},
                                  {"layers.*.post_attention_layernorm", "layers.*.final_layer_norm"},
                                  {"layers.*.mlp.up_proj", "layers.*.fc1"},
                                  {"layers.*.mlp.down_proj", "layers.*.fc2"}})
    map_tensor(map, ours + mine, theirs + its);
}

}  // namespace

std::vector<LanguageFamily> opt() {
  return {{.model_type = "opt",
           .architecture = "OPTForCausalLM",
           .summary = "OPT and Galactica: learned positions, ReLU or GELU",
           .variants = {"norms before blocks or of their sums", "embeddings narrower than layers",
                        "biases and norms' parameters or none"},
           .repositories = {"facebook/opt-125m", "facebook/opt-350m", "facebook/galactica-1.3b"},
           .traits = {.norm = NormKind::layer,
                      .position = PositionKind::learned,
                      .mlp = MlpKind::relu,
                      .qkv_bias = true,
                      .attention_output_bias = true,
                      .mlp_bias = true,
                      .position_offset = 2},
           .tied = true,
           .attention_bias_key = {},
           .own_keys = true,
           .read = read_opt,
           .write = write_opt,
           .map_weights = map_opt}};
}

}  // namespace ingot::families
