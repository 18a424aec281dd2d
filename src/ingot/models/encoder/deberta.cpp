#include <algorithm>
#include <sstream>
#include <string>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/base/error.h"
#include "ingot/models/encoder/families.h"
#include "ingot/models/require.h"

namespace ingot::encoders {
namespace {

using Json = nlohmann::ordered_json;

// "p2c|c2p" as Microsoft's files say, or a list.
std::vector<std::string> read_words(const ConfigFile& file, const char* key) {
  std::vector<std::string> listed, words;
  file.read_list(key, listed);
  for (std::string text : listed) {
    std::ranges::transform(text, text.begin(),
                           [](char c) { return c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c; });
    std::ranges::replace(text, '|', ' ');
    std::istringstream parts(text);
    for (std::string word; parts >> word;) words.push_back(word);
  }
  return words;
}

void read_distances(const ConfigFile& file, EncoderConfig& c) {
  file.read("relative_attention", c.relative_attention);
  for (const std::string& kind : read_words(file, "pos_att_type")) {
    require(kind == "c2p" || kind == "p2c", "pos_att_type",
            fmt::format("'{}' is not known; known are c2p and p2c", kind));
    (kind == "c2p" ? c.c2p : c.p2c) = true;
  }
  for (const std::string& kind : read_words(file, "norm_rel_ebd")) {
    require(kind == "layer_norm" || kind == "none", "norm_rel_ebd",
            fmt::format("'{}' is not known; known are layer_norm and none", kind));
    c.norm_rel_ebd = c.norm_rel_ebd || kind == "layer_norm";
  }
  file.read("share_att_key", c.share_att_key);
  file.read("position_buckets", c.position_buckets);
  c.position_buckets = std::max<std::int64_t>(c.position_buckets, 0);  // -1: none
  file.read("max_relative_positions", c.max_relative_positions);
  if (c.max_relative_positions < 1) c.max_relative_positions = c.max_position_embeddings;
  file.read("position_biased_input", c.position_biased_input);
}

void read_convolution(const ConfigFile& file, EncoderConfig& c) {
  file.read("conv_kernel_size", c.conv_kernel_size);
  file.read("conv_groups", c.conv_groups);
  std::string activation = "tanh";
  file.read("conv_act", activation);
  c.conv_act = parse_activation(activation, "conv_act");
}

// Sizes that no published model changes.
void require_hidden_size(const ConfigFile& file, const char* key, std::int64_t hidden_size) {
  std::int64_t size = hidden_size;
  file.read(key, size);
  INGOT_CHECK(size == hidden_size,
              NotImplemented(fmt::format("{}: {} {} in a deberta-v2 model of hidden_size {}; they run equal",
                                         file.path(), key, size, hidden_size)));
}

void read_deberta_v2(const ConfigFile& file, EncoderConfig& c) {
  read_sizes(file, c);
  file.read("attention_head_size", c.attention_head_size);
  std::string pooler = "gelu";
  file.read("pooler_hidden_act", pooler);
  c.pooler_act = parse_activation(pooler, "pooler_hidden_act");
  require_hidden_size(file, "embedding_size", c.hidden_size);
  require_hidden_size(file, "pooler_hidden_size", c.hidden_size);
  // Divided, not multiplied: neither number is checked yet.
  const bool fits = c.attention_head_size == 0 ||
                    (c.attention_head_size > 0 && c.hidden_size % c.attention_head_size == 0 &&
                     c.hidden_size / c.attention_head_size == c.num_attention_heads);
  INGOT_CHECK(
      fits, NotImplemented(fmt::format("{}: attention_head_size {} in a deberta-v2 model; heads are as wide "
                                       "as hidden_size",
                                       file.path(), c.attention_head_size)));
  read_distances(file, c);
  read_convolution(file, c);
}

void write_deberta_v2(const EncoderConfig& c, Json& json) {
  Json kinds = Json::array();
  if (c.p2c) kinds.push_back("p2c");
  if (c.c2p) kinds.push_back("c2p");
  json.update(Json{{"hidden_size", c.hidden_size},
                   {"intermediate_size", c.intermediate_size},
                   {"num_hidden_layers", c.num_hidden_layers},
                   {"num_attention_heads", c.num_attention_heads},
                   {"type_vocab_size", c.type_vocab_size},
                   {"layer_norm_eps", c.layer_norm_eps},
                   {"hidden_act", act_name(c.hidden_act)},
                   {"pooler_hidden_act", act_name(c.pooler_act)},
                   {"pooler_hidden_size", c.hidden_size},
                   {"relative_attention", c.relative_attention},
                   {"pos_att_type", kinds},
                   {"norm_rel_ebd", c.norm_rel_ebd ? "layer_norm" : "none"},
                   {"share_att_key", c.share_att_key},
                   {"position_buckets", c.position_buckets > 0 ? c.position_buckets : -1},
                   {"max_relative_positions", c.max_relative_positions},
                   {"position_biased_input", c.position_biased_input}});
  if (c.conv_kernel_size == 0) return;
  json.update(Json{{"conv_kernel_size", c.conv_kernel_size},
                   {"conv_groups", c.conv_groups},
                   {"conv_act", act_name(c.conv_act)}});
}

void map_deberta_v2(const EncoderConfig& c, WeightMap& map) {
  if (!c.position_biased_input) map.ignored.emplace_back("*embeddings.position_embeddings.*");
  map.spellings.insert(map.spellings.end(),
                       {{"lm_predictions.lm_head.dense", "cls.predictions.transform.dense", true, ""},
                        {"lm_predictions.lm_head.LayerNorm", "cls.predictions.transform.LayerNorm", true, ""},
                        {"lm_predictions.lm_head.bias", "cls.predictions.bias", true, ""}});
  rename_layers(map, "encoder.layer.*.",
                {{"attention.self.query", "attention.self.query_proj"},
                 {"attention.self.key", "attention.self.key_proj"},
                 {"attention.self.value", "attention.self.value_proj"}});
}

void map_deberta_v2_head(WeightMap& map) {
  map.outside = {"cls.*"};
  map.ignored.insert(map.ignored.end(), {"cls.predictions.decoder.weight", "cls.predictions.decoder.bias",
                                         "mask_predictions.*"});
}

}  // namespace

EncoderFamily deberta_v2() {
  return {.model_type = "deberta-v2",
          .class_stem = "DebertaV2",
          .summary = "DeBERTa v2 and v3: scores of distances beside those of contents",
          .variants = {"masked-LM head, of either spelling", "classifier", "classes of distances",
                       "a convolution beside the first layer"},
          .repositories = {"microsoft/deberta-v3-base", "MoritzLaurer/DeBERTa-v3-base-mnli-fever-anli",
                           "mixedbread-ai/mxbai-rerank-base-v1"},
          .prefix = "deberta.",
          .head = "cls.predictions.transform.dense.weight",
          .pooler_has_prefix = false,
          .defaults = R"({"vocab_size": 128100, "hidden_size": 1536, "num_hidden_layers": 24,
                          "num_attention_heads": 24, "intermediate_size": 6144, "type_vocab_size": 0,
                          "layer_norm_eps": 1e-7})",
          .read = read_deberta_v2,
          .write = write_deberta_v2,
          .map_encoder = map_deberta_v2,
          .map_head = map_deberta_v2_head};
}

}  // namespace ingot::encoders
