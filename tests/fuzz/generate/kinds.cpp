#include "tests/fuzz/generate/source.h"

namespace ingot::test {
namespace {

const std::vector<std::string_view> kModelKeys{"model_type",
                                               "architectures",
                                               "hidden_size",
                                               "num_hidden_layers",
                                               "num_attention_heads",
                                               "num_key_value_heads",
                                               "intermediate_size",
                                               "vocab_size",
                                               "rope_theta",
                                               "rope_scaling",
                                               "head_dim",
                                               "num_experts",
                                               "num_local_experts",
                                               "num_experts_per_tok",
                                               "max_position_embeddings",
                                               "factor",
                                               "type",
                                               "rms_norm_eps",
                                               "tie_word_embeddings",
                                               "quantization_config",
                                               "bits",
                                               "group_size",
                                               "layer_types",
                                               "sliding_window",
                                               "n_layer",
                                               "n_embd",
                                               "n_head",
                                               "torch_dtype",
                                               "text_config",
                                               "partial_rotary_factor"};
const std::vector<std::string_view> kSentenceKeys{"idx",
                                                  "name",
                                                  "path",
                                                  "type",
                                                  "word_embedding_dimension",
                                                  "pooling_mode_mean_tokens",
                                                  "pooling_mode",
                                                  "max_seq_length",
                                                  "do_lower_case",
                                                  "prompts",
                                                  "default_prompt_name",
                                                  "in_features",
                                                  "out_features",
                                                  "activation_function"};
const std::vector<std::string_view> kTokenizerKeys{
    "model",       "vocab",         "merges",         "type",      "added_tokens",
    "normalizer",  "pre_tokenizer", "post_processor", "decoder",   "pattern",
    "Regex",       "String",        "content",        "id",        "special",
    "normalizers", "pretokenizers", "replacement",    "unk_token", "precompiled_charsmap"};
const std::vector<std::string_view> kSchemaKeys{"type",
                                                "properties",
                                                "required",
                                                "items",
                                                "enum",
                                                "const",
                                                "$ref",
                                                "$defs",
                                                "anyOf",
                                                "oneOf",
                                                "allOf",
                                                "pattern",
                                                "minLength",
                                                "maxLength",
                                                "minItems",
                                                "maxItems",
                                                "minimum",
                                                "maximum",
                                                "additionalProperties",
                                                "format",
                                                "not"};
const std::vector<std::string_view> kTensorKeys{"dtype",        "shape",  "data_offsets",
                                                "__metadata__", "weight", "bias"};

/// A header of JSON behind its length, which need not be right.
std::string safetensors(Source& source) {
  const std::string header = hostile_json(source, kTensorKeys);
  const std::uint64_t length =
      source.one_in(4) ? static_cast<std::uint64_t>(source.integer()) : header.size();
  return little(length, 8) + header + std::string(source.below(64), '\1');
}

}  // namespace

std::string hostile_file(const std::string& kind, std::uint64_t number,
                         const std::vector<std::string>& corpus) {
  Source source(number * 2 + 1);
  if (kind == "onnx_run" && !source.one_in(5)) return hostile_graph(source);
  if (source.one_in(3) && !corpus.empty()) return mutated_bytes(source, corpus);
  if (kind == "onnx") return hostile_graph(source);
  if (kind == "yaml") return hostile_yaml(source);
  if (kind == "model_config") return hostile_json(source, kModelKeys);
  if (kind == "tokenizer_json") return hostile_json(source, kTokenizerKeys);
  if (kind == "json_schema") return hostile_json(source, kSchemaKeys);
  if (kind == "chat_template") return hostile_template(source);
  if (kind == "regex") return hostile_pattern(source);
  if (kind == "gbnf" || kind == "lark") return hostile_grammar(source, kind == "lark");
  if (kind == "series_csv") return hostile_table(source);
  if (kind == "http_client") return hostile_answer(source);
  if (kind == "parquet") return hostile_parquet(source);
  if (kind == "hdf5") return hostile_hdf5(source);
  if (kind == "gguf") return hostile_gguf(source);
  if (kind == "npy") return hostile_npy(source);
  if (kind == "torch") return hostile_torch(source);
  if (kind == "sentencepiece") return hostile_sentencepiece(source);
  if (kind == "mahjong_log") return hostile_log(source);
  if (kind == "records") return hostile_records(source);
  if (kind == "hub") return hostile_listing(source);
  if (kind == "http") return hostile_request(source);
  if (kind == "safetensors") return safetensors(source);
  if (kind == "checkpoint") return hostile_checkpoint(source);
  if (kind == "npz") return hostile_npz(source);
  if (kind == "arrow") return hostile_arrow(source, corpus);
  if (kind == "saved_dataset") return hostile_saved_dataset(source);
#ifdef INGOT_FUZZ_STUDIES
  if (kind == "tune_study") return hostile_study(source);
#endif
  if (kind == "peft_adapter") return hostile_adapter(source);
  if (kind == "weight_index") return hostile_index(source);
  if (kind == "generation_config") return hostile_generation_config(source);
  if (kind == "importance_matrix") return hostile_matrix(source);
  if (kind == "sentence_model") {
    std::string files;
    for (int i = 0; i < 5; ++i) files += hostile_json(source, kSentenceKeys) + '\x1E';
    return files;
  }
  return mutated_bytes(source, corpus);
}

}  // namespace ingot::test
