#include "ingot/models/encoder/gguf_encoder_names.h"

#include <algorithm>

#include "ingot/models/encoder/bert.h"

namespace ingot {
namespace {

const std::vector<EncoderGguf>& architectures() {
  static const std::vector<EncoderGguf> kAll{
      {"bert",
       "bert",
       {{"token_embd", "embeddings.word_embeddings"},
        {"position_embd", "embeddings.position_embeddings"},
        {"token_types", "embeddings.token_type_embeddings"},
        {"token_embd_norm", "embeddings.LayerNorm"},
        {"blk.*.attn_q", "encoder.layer.*.attention.self.query"},
        {"blk.*.attn_k", "encoder.layer.*.attention.self.key"},
        {"blk.*.attn_v", "encoder.layer.*.attention.self.value"},
        {"blk.*.attn_output", "encoder.layer.*.attention.output.dense"},
        {"blk.*.attn_output_norm", "encoder.layer.*.attention.output.LayerNorm"},
        {"blk.*.ffn_up", "encoder.layer.*.intermediate.dense"},
        {"blk.*.ffn_down", "encoder.layer.*.output.dense"},
        {"blk.*.layer_output_norm", "encoder.layer.*.output.LayerNorm"},
        {"cls", "pooler.dense"},
        {"cls", "classifier.dense"},
        {"cls.output", "classifier.out"}},
       {}},
      {"nomic-bert",
       "nomic_bert",
       {{"token_embd", "embeddings.word_embeddings"},
        {"token_types", "embeddings.token_type_embeddings"},
        {"token_embd_norm", "embeddings.LayerNorm"},
        {"blk.*.attn_qkv", "encoder.layer.*.attention.self.query"},
        {"blk.*.attn_output", "encoder.layer.*.attention.output.dense"},
        {"blk.*.attn_output_norm", "encoder.layer.*.attention.output.LayerNorm"},
        {"blk.*.ffn_up", "encoder.layer.*.intermediate.dense"},
        {"blk.*.ffn_gate", "encoder.layer.*.intermediate.gate"},
        {"blk.*.ffn_down", "encoder.layer.*.output.dense"},
        {"blk.*.layer_output_norm", "encoder.layer.*.output.LayerNorm"}},
       {"encoder.layer.*.attention.self.key", "encoder.layer.*.attention.self.value"}},
      {"modern-bert",
       "modernbert",
       {{"token_embd", "embeddings.word_embeddings"},
        {"token_embd_norm", "embeddings.LayerNorm"},
        {"output_norm", "final_norm"},
        {"blk.*.attn_qkv", "encoder.layer.*.attention.self.query"},
        {"blk.*.attn_output", "encoder.layer.*.attention.output.dense"},
        {"blk.*.attn_norm", "encoder.layer.*.attention.output.LayerNorm"},
        {"blk.*.ffn_up", "encoder.layer.*.intermediate.gate"},
        {"blk.*.ffn_down", "encoder.layer.*.output.dense"},
        {"blk.*.ffn_norm", "encoder.layer.*.output.LayerNorm"}},
       {"encoder.layer.*.attention.self.key", "encoder.layer.*.attention.self.value",
        "encoder.layer.*.intermediate.dense"}}};
  return kAll;
}

// The name of a parameter without its layer's number and without ".weight": what rules name.
struct Parts {
  std::string stem, layer, suffix;
};

Parts parts_of(const std::string& name) {
  constexpr std::string_view kLayers = "encoder.layer.";
  const std::size_t dot = name.rfind('.');
  Parts parts{name.substr(0, dot), {}, name.substr(dot)};
  if (!parts.stem.starts_with(kLayers)) return parts;
  const std::size_t end = parts.stem.find('.', kLayers.size());
  parts.layer = parts.stem.substr(kLayers.size(), end - kLayers.size());
  parts.stem = std::string(kLayers) + "*" + parts.stem.substr(end);
  return parts;
}

std::string with_layer(std::string_view pattern, const std::string& layer) {
  std::string name(pattern);
  if (const std::size_t star = name.find('*'); star != std::string::npos) name.replace(star, 1, layer);
  return name;
}

}  // namespace

const EncoderGguf* find_encoder_gguf(std::string_view architecture) {
  const auto found = std::ranges::find(architectures(), architecture, &EncoderGguf::architecture);
  return found == architectures().end() ? nullptr : &*found;
}

std::vector<EncoderGgufTensor> encoder_gguf_tensors(const EncoderGguf& gguf, const EncoderConfig& config) {
  const WeightMap map = BertModel::weight_map(config);
  std::vector<EncoderGgufTensor> tensors;
  for (const ParameterShape& parameter : encoder_parameters(config)) {
    const Parts parts = parts_of(parameter.name);
    if (std::ranges::find(gguf.fused, parts.stem) != gguf.fused.end()) continue;
    const auto row = std::ranges::find(gguf.names, parts.stem, &EncoderGgufName::ours);
    tensors.push_back({parameter.name,
                       row == gguf.names.end() ? "" : with_layer(row->gguf, parts.layer) + parts.suffix,
                       map.rule_for(parameter.name)});
  }
  return tensors;
}

}  // namespace ingot
