#include "ingot/models/language/families/families.h"
#include "ingot/models/language/families/gguf_rules.h"

namespace ingot::families {
namespace {

// One key for all biases of a layer.
void read_starcoder(const ConfigFile& file, LanguageConfig& c) { file.read("use_bias", c.mlp_bias); }

void map_starcoder(const LanguageConfig& /*config*/, WeightMap& map) {
  map_name(map, "mlp.up_proj", "mlp.c_fc");
  map_name(map, "mlp.down_proj", "mlp.c_proj");
}

constexpr auto kStarcoderNames =
    kOuter + kAttention + kMlpNorm +
    std::array<GgufNameRule, 2>{
        {{"blk.*.ffn_up", "model.layers.*.mlp.c_fc"}, {"blk.*.ffn_down", "model.layers.*.mlp.c_proj"}}};
constexpr auto kStarcoderKeys =
    kCommonKeys + std::array<GgufKeyRule, 1>{{{"attention.layer_norm_epsilon", "norm_epsilon", number}}};

}  // namespace

std::vector<LanguageFamily> starcoder() {
  return {{.model_type = "starcoder2",
           .architecture = "Starcoder2ForCausalLM",
           .summary = "StarCoder2: LayerNorm and a GELU MLP with RoPE",
           .variants = {"sliding window or none", "biases or none"},
           .repositories = {"bigcode/starcoder2-3b", "bigcode/starcoder2-15b"},
           .traits = {.norm = NormKind::layer,
                      .mlp = MlpKind::gelu,
                      .qkv_bias = true,
                      .attention_output_bias = true,
                      .mlp_bias = true},
           .tied = true,
           .defaults = R"({"norm_epsilon": 1e-5, "max_position_embeddings": 4096, "num_key_value_heads": 2})",
           .norm_eps_key = "norm_epsilon",
           .attention_bias_key = "use_bias",
           .read = read_starcoder,
           .map_weights = map_starcoder,
           .gguf = {.architecture = "starcoder2", .names = kStarcoderNames, .keys = kStarcoderKeys}}};
}

}  // namespace ingot::families
