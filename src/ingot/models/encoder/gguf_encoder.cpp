#include "ingot/models/encoder/gguf_encoder.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ingot/base/error.h"
#include "ingot/models/encoder/bert.h"
#include "ingot/models/encoder/gguf_encoder_names.h"
#include "ingot/models/language/gguf_facts.h"
#include "ingot/weights/transform.h"

namespace ingot {
namespace {

/// Reads one encoder's metadata and tensors.
class EncoderFile : private GgufFacts {
 public:
  explicit EncoderFile(const GgufSource& source)
      : GgufFacts(source),
        names_(*find_encoder_gguf(source.fields().text("general.architecture").value_or(""))) {}

  EncoderConfig config() const {
    EncoderConfig c;
    c.model_type = names_.model_type;
    c.vocab_size = source_.get_metadata("token_embd.weight").shape.at(0);
    c.hidden_size = required("embedding_length");
    c.intermediate_size = required("feed_forward_length");
    c.num_hidden_layers = required("block_count");
    c.num_attention_heads = required("attention.head_count");
    c.max_position_embeddings = required("context_length");
    c.layer_norm_eps = number("attention.layer_norm_epsilon").value_or(c.layer_norm_eps);
    const TensorInfo* types = source_.find("token_types.weight");
    c.type_vocab_size = types == nullptr ? 0 : types->shape.at(0);
    c.pad_token_id = fields_.integer("tokenizer.ggml.padding_token_id").value_or(0);
    c.pooler = false;
    c.dtype = source_.get_metadata("token_embd.weight").dtype.value_or(DType::f32);
    if (names_.architecture == "bert") add_bert(c);
    if (names_.architecture == "nomic-bert") add_nomic(c);
    if (names_.architecture == "modern-bert") add_modern(c);
    c.validate();
    return c;
  }

  /// The tensors under the directory's names.
  std::vector<TensorRecipe> recipes(const EncoderConfig& config) const {
    std::vector<TensorRecipe> recipes;
    std::set<std::string> used;
    for (const EncoderGgufTensor& tensor : encoder_gguf_tensors(names_, config)) {
      if (source_.is_available(tensor.gguf)) {
        used.insert(tensor.gguf);
        recipes.push_back({tensor.rule.theirs, {tensor.gguf}, {}});
      } else if (const std::string fused = fused_name(tensor.gguf); source_.is_available(fused)) {
        used.insert(fused);
        recipes.push_back(
            {tensor.rule.theirs, {fused}, {Transform::part(0, place_in_fused(tensor.gguf), 3)}});
      }
    }
    std::vector<std::string> unknown;
    for (const TensorInfo& info : source_.tensors()) {
      if (!used.contains(info.name)) unknown.push_back(info.name);
    }
    INGOT_CHECK(unknown.empty(), NotImplemented(fmt::format("{}: {} in a {} file", source_.location(),
                                                            fmt::join(unknown, ", "), names_.architecture)));
    return recipes;
  }

 private:
  // Files may have queries, keys and values in one matrix.
  static std::string fused_name(const std::string& name) {
    for (const std::string_view part : {".attn_q.", ".attn_k.", ".attn_v."}) {
      if (const std::size_t at = name.find(part); at != std::string::npos)
        return name.substr(0, at) + ".attn_qkv." + name.substr(at + part.size());
    }
    return {};
  }
  static std::int64_t place_in_fused(const std::string& name) {
    return name.find(".attn_q.") != std::string::npos   ? 0
           : name.find(".attn_k.") != std::string::npos ? 1
                                                        : 2;
  }

  Activation activation() const {
    const std::string name = key("hidden_activation");
    return parse_activation(fields_.text(name).value_or("gelu"), name);
  }

  void add_bert(EncoderConfig& c) const {
    c.hidden_act = activation();
    if (!source_.is_available("cls.output.weight")) return;
    INGOT_CHECK(source_.is_available("cls.weight"),
                NotImplemented(source_.location() + ": a bert file with cls.output and without cls"));
    c.pooler = true;
    c.labels.of = LabelsOf::texts;
    if (const auto* labels = fields_.texts(key("classifier.output_labels"))) c.labels.names = *labels;
    c.labels.activation = fields_.text(kGgufClassifierActivation).value_or("");
    if (const auto problem = fields_.text(kGgufClassifierProblem))
      c.labels.problem = parse_label_problem(*problem, path(), kGgufClassifierProblem);
    c.labels.resize(source_.get_metadata("cls.output.weight").shape.at(0));
  }

  void add_nomic(EncoderConfig& c) const {
    c.gated_mlp = true;
    c.attention_bias = c.mlp_bias = false;
    c.hidden_act = c.head_act = Activation::silu;
    c.rope_theta = number("rope.freq_base").value_or(10000);
  }

  void add_modern(EncoderConfig& c) const {
    c.norm_first = c.gated_mlp = true;
    c.attention_bias = c.mlp_bias = c.norm_bias = c.head_bias = false;
    c.type_vocab_size = 0;
    c.hidden_act = activation();
    c.rope_theta = number("rope.freq_base").value_or(10000);
    c.rope_local_theta = number("rope.freq_base_swa").value_or(10000);
    const std::int64_t tokens = integer("attention.sliding_window").value_or(0);
    c.sliding_window = tokens / 2 + 1;
    // Whether each slides, or every how many one does not.
    const std::vector<std::int64_t> slides = of_layers("attention.sliding_window_pattern");
    const std::int64_t period =
        slides.empty() ? integer("attention.sliding_window_pattern").value_or(3) : std::int64_t{1};
    for (std::int64_t layer = 0; layer < c.num_hidden_layers; ++layer) {
      const auto i = static_cast<std::size_t>(layer);
      const bool one = i < slides.size() ? slides[i] != 0 : layer % std::max<std::int64_t>(period, 1) != 0;
      c.sliding_layers.push_back(tokens > 0 && one);
    }
  }

  const EncoderGguf& names_;
};

}  // namespace

bool is_encoder_gguf(const GgufMetadata& metadata) {
  return find_encoder_gguf(metadata.text("general.architecture").value_or("")) != nullptr;
}

ModelCheckpoint encoder_gguf_checkpoint(const std::shared_ptr<const GgufSource>& source) {
  INGOT_CHECK(is_encoder_gguf(source->fields()),
              NotImplemented(fmt::format(
                  "{}: general.architecture '{}' is not an encoder that is read (bert, "
                  "nomic-bert and modern-bert are)",
                  source->location(), source->fields().text("general.architecture").value_or(""))));
  const EncoderFile file(*source);
  const EncoderConfig config = file.config();
  return {config.to_json(), source->location(),
          std::make_shared<TransformedSource>(source, file.recipes(config))};
}

}  // namespace ingot
