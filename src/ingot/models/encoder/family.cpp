#include "ingot/models/encoder/family.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/base/error.h"
#include "ingot/models/encoder/families.h"

namespace ingot {
namespace {

using encoders::act_name, encoders::read_activation, encoders::read_sizes, encoders::rename,
    encoders::rename_layers;
using Json = nlohmann::ordered_json;

void read_bert(const ConfigFile& file, EncoderConfig& c) {
  read_sizes(file, c);
  std::string positions = "absolute";
  file.read("position_embedding_type", positions);
  bool decoder = false;
  file.read("is_decoder", decoder);
  INGOT_CHECK(!decoder && positions == "absolute",
              NotImplemented(file.path() + ": an encoder with is_decoder, or with position_embedding_type "
                                           "other than absolute"));
}

// Positions start behind that of the padding, and the head has one activation.
void read_roberta(const ConfigFile& file, EncoderConfig& c) {
  read_bert(file, c);
  c.head_act = Activation::gelu;
  c.position_offset = c.pad_token_id + 1;
}

void write_bert(const EncoderConfig& c, Json& json) {
  json.update(Json{{"hidden_size", c.hidden_size},
                   {"intermediate_size", c.intermediate_size},
                   {"num_hidden_layers", c.num_hidden_layers},
                   {"num_attention_heads", c.num_attention_heads},
                   {"type_vocab_size", c.type_vocab_size},
                   {"layer_norm_eps", c.layer_norm_eps},
                   {"hidden_act", act_name(c.hidden_act)}});
}

void read_electra(const ConfigFile& file, EncoderConfig& c) {
  read_bert(file, c);
  file.read("embedding_size", c.embedding_size);
  c.head_act = Activation::gelu;
}

void write_electra(const EncoderConfig& c, Json& json) {
  write_bert(c, json);
  json["embedding_size"] = c.embedding_width();
}

void read_albert(const ConfigFile& file, EncoderConfig& c) {
  read_bert(file, c);
  file.read("embedding_size", c.embedding_size);
  c.num_hidden_groups = 1;
  file.read("num_hidden_groups", c.num_hidden_groups);
  std::int64_t inner = 1;
  file.read("inner_group_num", inner);
  INGOT_CHECK(inner == 1,
              NotImplemented(fmt::format("{}: inner_group_num {}; ALBERT runs with 1, as it was published",
                                         file.path(), inner)));
}

void write_albert(const EncoderConfig& c, Json& json) {
  write_electra(c, json);
  json.update(Json{{"num_hidden_groups", c.num_hidden_groups}, {"inner_group_num", 1}});
}

// Positions as RoBERTa's; no token types; scores of attention have a summand for each distance.
void read_mpnet(const ConfigFile& file, EncoderConfig& c) {
  read_roberta(file, c);
  c.type_vocab_size = 0;
  c.relative_attention_num_buckets = 32;
  file.read("relative_attention_num_buckets", c.relative_attention_num_buckets);
}

void write_mpnet(const EncoderConfig& c, Json& json) {
  write_bert(c, json);
  json.erase("type_vocab_size");
  json["relative_attention_num_buckets"] = c.relative_attention_num_buckets;
}

void read_distilbert(const ConfigFile& file, EncoderConfig& c) {
  file.read("dim", c.hidden_size);
  file.read("hidden_dim", c.intermediate_size);
  file.read("n_layers", c.num_hidden_layers);
  file.read("n_heads", c.num_attention_heads);
  read_activation(file, "activation", c);
  c.type_vocab_size = 0;
}

void write_distilbert(const EncoderConfig& c, Json& json) {
  json.update(Json{{"dim", c.hidden_size},
                   {"hidden_dim", c.intermediate_size},
                   {"n_layers", c.num_hidden_layers},
                   {"n_heads", c.num_attention_heads},
                   {"activation", act_name(c.hidden_act)}});
}

void map_distilbert(const EncoderConfig& /*config*/, WeightMap& map) {
  rename_layers(map, "transformer.layer.*.",
                {{"attention.self.query", "attention.q_lin"},
                 {"attention.self.key", "attention.k_lin"},
                 {"attention.self.value", "attention.v_lin"},
                 {"attention.output.dense", "attention.out_lin"},
                 {"attention.output.LayerNorm", "sa_layer_norm"},
                 {"intermediate.dense", "ffn.lin1"},
                 {"output.dense", "ffn.lin2"},
                 {"output.LayerNorm", "output_layer_norm"}});
}

void map_albert(const EncoderConfig& /*config*/, WeightMap& map) {
  rename(map, "embeddings_project", "encoder.embedding_hidden_mapping_in");
  rename(map, "pooler.dense", "pooler");
  rename_layers(map, "encoder.albert_layer_groups.*.albert_layers.0.",
                {{"attention.self.query", "attention.query"},
                 {"attention.self.key", "attention.key"},
                 {"attention.self.value", "attention.value"},
                 {"attention.output.dense", "attention.dense"},
                 {"attention.output.LayerNorm", "attention.LayerNorm"},
                 {"intermediate.dense", "ffn"},
                 {"output.dense", "ffn_output"},
                 {"output.LayerNorm", "full_layer_layer_norm"}});
}

void map_mpnet(const EncoderConfig& /*config*/, WeightMap& map) {
  rename_layers(map, "encoder.layer.*.",
                {{"attention.self.query", "attention.attn.q"},
                 {"attention.self.key", "attention.attn.k"},
                 {"attention.self.value", "attention.attn.v"},
                 {"attention.output.dense", "attention.attn.o"},
                 {"attention.output.LayerNorm", "attention.LayerNorm"}});
}

void map_albert_head(WeightMap& map) {
  rename(map, "cls.predictions.transform.dense", "predictions.dense");
  rename(map, "cls.predictions.transform.LayerNorm", "predictions.LayerNorm");
  map.rules.push_back({.ours = "cls.predictions.bias", .theirs = "predictions.bias"});
  map.outside = {"predictions.*"};
  map.ignored.insert(map.ignored.end(),
                     {"predictions.decoder.weight", "predictions.decoder.bias", "sop_classifier.*"});
}

void map_electra_head(WeightMap& map) {
  rename(map, "cls.predictions.transform.dense", "generator_predictions.dense");
  rename(map, "cls.predictions.transform.LayerNorm", "generator_predictions.LayerNorm");
  map.rules.push_back({.ours = "cls.predictions.bias", .theirs = "generator_lm_head.bias"});
  map.outside = {"generator_*"};
  map.ignored.emplace_back("generator_lm_head.weight");  // tied to the word embeddings
}

void map_distilbert_head(WeightMap& map) {
  rename(map, "cls.predictions.transform.dense", "vocab_transform");
  rename(map, "cls.predictions.transform.LayerNorm", "vocab_layer_norm");
  map.rules.push_back({.ours = "cls.predictions.bias", .theirs = "vocab_projector.bias"});
  map.outside = {"vocab_*"};
  map.ignored.emplace_back("vocab_projector.weight");  // tied to the word embeddings
}

void map_bert_head(WeightMap& map) {
  map.outside = {"cls.*"};
  map.ignored.insert(map.ignored.end(), {"cls.predictions.decoder.weight", "cls.predictions.decoder.bias"});
}

void map_roberta_head(WeightMap& map) {
  rename(map, "cls.predictions.transform.dense", "lm_head.dense");
  rename(map, "cls.predictions.transform.LayerNorm", "lm_head.layer_norm");
  map.rules.push_back({.ours = "cls.predictions.bias", .theirs = "lm_head.bias"});
  map.outside = {"lm_head.*"};
  map.ignored.insert(map.ignored.end(), {"lm_head.decoder.weight", "lm_head.decoder.bias"});
}

constexpr std::string_view kRobertaDefaults =
    R"({"vocab_size": 50265, "hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12,
        "intermediate_size": 3072, "max_position_embeddings": 512, "type_vocab_size": 2, "pad_token_id": 1})";

constexpr ClassifierLayout kTanhClassifier{"classifier.dense", Activation::tanh, "classifier.out_proj"};

EncoderFamily roberta_like(std::string_view model_type, std::string_view stem, std::string_view summary,
                           std::vector<std::string> repositories) {
  return {.model_type = model_type,
          .class_stem = stem,
          .summary = summary,
          .variants = {"pooler", "masked-LM head", "classifier", "sentence-transformers directories"},
          .repositories = std::move(repositories),
          .prefix = "roberta.",
          .head = "lm_head.dense.weight",
          .classifier = kTanhClassifier,
          .defaults = kRobertaDefaults,
          .read = read_roberta,
          .write = write_bert,
          .map_head = map_roberta_head,
          .gguf = "bert"};
}

EncoderFamily bert() {
  return {.model_type = "bert",
          .class_stem = "Bert",
          .summary = "BERT, and sentence embeddings, classifiers and rerankers made with it",
          .variants = {"pooler", "masked-LM head", "classifier", "legacy names gamma and beta",
                       "sentence-transformers directories"},
          .repositories = {"google-bert/bert-base-uncased", "sentence-transformers/all-MiniLM-L6-v2",
                           "cross-encoder/ms-marco-MiniLM-L6-v2", "BAAI/bge-small-en-v1.5"},
          .prefix = "bert.",
          .head = "cls.predictions.transform.dense.weight",
          .defaults = R"({"vocab_size": 30522, "hidden_size": 768, "num_hidden_layers": 12,
                          "num_attention_heads": 12, "intermediate_size": 3072})",
          .read = read_bert,
          .write = write_bert,
          .map_head = map_bert_head,
          .gguf = "bert"};
}

EncoderFamily distilbert() {
  return {.model_type = "distilbert",
          .class_stem = "DistilBert",
          .summary = "DistilBERT",
          .variants = {"masked-LM head", "classifier", "sentence-transformers directories"},
          .repositories = {"distilbert/distilbert-base-uncased",
                           "distilbert/distilbert-base-uncased-finetuned-sst-2-english",
                           "sentence-transformers/multi-qa-distilbert-cos-v1"},
          .prefix = "distilbert.",
          .head = "vocab_transform.weight",
          .classifier = {"pre_classifier", Activation::relu, "classifier"},
          .defaults = R"({"vocab_size": 30522, "dim": 768, "n_layers": 6, "n_heads": 12, "hidden_dim": 3072,
                          "max_position_embeddings": 512})",
          .read = read_distilbert,
          .write = write_distilbert,
          .map_encoder = map_distilbert,
          .map_head = map_distilbert_head,
          .gguf = "bert"};
}

EncoderFamily electra() {
  return {
      .model_type = "electra",
      .class_stem = "Electra",
      .summary = "ELECTRA: an encoder taught to tell replaced tokens",
      .variants = {"generator", "discriminator", "classifier", "embeddings narrower than the layers"},
      .repositories = {"google/electra-small-discriminator", "cross-encoder/ms-marco-electra-base"},
      .prefix = "electra.",
      .head = "generator_predictions.dense.weight",
      .classifier = {"classifier.dense", Activation::gelu, "classifier.out_proj"},
      .defaults = R"({"vocab_size": 30522, "embedding_size": 128, "hidden_size": 256, "num_hidden_layers": 12,
                          "num_attention_heads": 4, "intermediate_size": 1024})",
      .read = read_electra,
      .write = write_electra,
      .map_head = map_electra_head};
}

EncoderFamily albert() {
  return {.model_type = "albert",
          .class_stem = "Albert",
          .summary = "ALBERT: one layer's weights for all layers",
          .variants = {"pooler", "masked-LM head", "classifier", "groups of layers"},
          .repositories = {"albert/albert-base-v2", "sentence-transformers/paraphrase-albert-small-v2"},
          .prefix = "albert.",
          .head = "predictions.dense.weight",
          .pooler = "pooler",
          .defaults =
              R"({"vocab_size": 30000, "embedding_size": 128, "hidden_size": 4096, "num_hidden_layers": 12,
                          "num_attention_heads": 64, "intermediate_size": 16384, "hidden_act": "gelu_new"})",
          .read = read_albert,
          .write = write_albert,
          .map_encoder = map_albert,
          .map_head = map_albert_head};
}

EncoderFamily mpnet() {
  return {.model_type = "mpnet",
          .class_stem = "MPNet",
          .summary = "MPNet, and sentence embeddings made with it",
          .variants = {"pooler", "masked-LM head", "classifier", "sentence-transformers directories"},
          .repositories = {"microsoft/mpnet-base", "sentence-transformers/all-mpnet-base-v2",
                           "sentence-transformers/multi-qa-mpnet-base-dot-v1"},
          .prefix = "mpnet.",
          .head = "lm_head.dense.weight",
          .classifier = kTanhClassifier,
          .defaults = R"({"vocab_size": 30527, "hidden_size": 768, "num_hidden_layers": 12,
                          "num_attention_heads": 12, "intermediate_size": 3072, "pad_token_id": 1})",
          .read = read_mpnet,
          .write = write_mpnet,
          .map_encoder = map_mpnet,
          .map_head = map_roberta_head};
}

}  // namespace

std::span<const EncoderFamily> encoder_families() {
  static const std::vector<EncoderFamily> kFamilies{
      bert(),
      roberta_like("roberta", "Roberta", "RoBERTa",
                   {"FacebookAI/roberta-base", "sentence-transformers/all-distilroberta-v1"}),
      roberta_like("xlm-roberta", "XLMRoberta",
                   "XLM-RoBERTa, and multilingual embeddings and rerankers made with it",
                   {"FacebookAI/xlm-roberta-base", "intfloat/multilingual-e5-base", "BAAI/bge-m3",
                    "BAAI/bge-reranker-v2-m3"}),
      roberta_like("camembert", "Camembert", "CamemBERT: RoBERTa in French",
                   {"almanach/camembert-base", "dangvantuan/sentence-camembert-base"}),
      distilbert(),
      electra(),
      albert(),
      mpnet(),
      encoders::modernbert(),
      encoders::nomic_bert(),
      encoders::deberta_v2()};
  return kFamilies;
}

const EncoderFamily* find_encoder_family(std::string_view model_type) {
  const auto found = std::ranges::find(encoder_families(), model_type, &EncoderFamily::model_type);
  return found == encoder_families().end() ? nullptr : &*found;
}

}  // namespace ingot
