#include "ingot/models/encoder/bert.h"

#include "ingot/base/error.h"
#include "ingot/models/encoder/family.h"
#include "ingot/models/encoder/relative_bias.h"
#include "ingot/nn/module_scope.h"
#include "ingot/ops/attention.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/index.h"
#include "ingot/ops/matmul.h"
#include "ingot/ops/view.h"

namespace ingot {
namespace {

LinearOptions linear_options(std::int64_t in, std::int64_t out, const EncoderConfig& c) {
  return {.in = in,
          .out = out,
          .weight_init = init::Normal{.mean = 0.0, .std = c.initializer_range},
          .bias_init = init::kZeros};
}

LayerNormOptions norm_options(std::int64_t width, const EncoderConfig& c) {
  return {.width = width, .eps = static_cast<float>(c.layer_norm_eps)};
}

EmbeddingOptions table_options(std::int64_t count, const EncoderConfig& c) {
  return {.count = count,
          .width = c.embedding_width(),
          .weight_init = init::Normal{.mean = 0.0, .std = c.initializer_range},
          .quantizable = false};  // a look-up costs nothing, and errors there pass through every layer
}

}  // namespace

EncoderLayer::EncoderLayer(const ParamSource& source, const EncoderConfig& c)
    : query_key_value(source, {{"attention.self.query", linear_options(c.hidden_size, c.hidden_size, c)},
                               {"attention.self.key", linear_options(c.hidden_size, c.hidden_size, c)},
                               {"attention.self.value", linear_options(c.hidden_size, c.hidden_size, c)}}),
      attention_output(source.scope("attention.output.dense"),
                       linear_options(c.hidden_size, c.hidden_size, c)),
      attention_norm(source.scope("attention.output.LayerNorm"), norm_options(c.hidden_size, c)),
      intermediate(source.scope("intermediate.dense"), linear_options(c.hidden_size, c.intermediate_size, c)),
      output(source.scope("output.dense"), linear_options(c.intermediate_size, c.hidden_size, c)),
      output_norm(source.scope("output.LayerNorm"), norm_options(c.hidden_size, c)),
      heads(c.num_attention_heads),
      activation(c.hidden_act) {}

Tensor EncoderLayer::operator()(const Tensor& x, const EncoderInput& input, const Tensor& bias) const {
  const ModuleScope scope(output.weight, 3);
  const Qkv qkv = split_heads(query_key_value(x), heads, heads);
  const AttentionOptions options{.causal = false,
                                 .doc_start = input.doc_start,
                                 .kv_length = input.lengths,
                                 .bf16_products = attention_output.quantizes_input()};
  const Tensor mixed = bias.defined() ? attention_with_bias(qkv, bias, input) : attention(qkv, options);
  const Tensor attended = attention_norm.add(x, attention_output(reshape(mixed, x.shape()))).normed;
  const LinearInput inner({intermediate(attended)},
                          [this](std::span<const Tensor> rows) { return activate(activation, rows[0]); });
  return output_norm.add(attended, output(inner)).normed;
}

void EncoderLayer::visit(ParamVisitor& v) {
  query_key_value.visit(v);
  v("attention.output.dense", attention_output);
  v("attention.output.LayerNorm", attention_norm);
  v("intermediate.dense", intermediate);
  v("output.dense", output);
  v("output.LayerNorm", output_norm);
}

MaskedLmHead::MaskedLmHead(const ParamSource& source, const EncoderConfig& c)
    : transform(source.scope("transform.dense"), linear_options(c.hidden_size, c.embedding_width(), c)),
      norm(source.scope("transform.LayerNorm"), norm_options(c.embedding_width(), c)),
      bias(source.take("bias", {c.vocab_size}, init::kZeros)) {}

void MaskedLmHead::visit(ParamVisitor& v) {
  v("transform.dense", transform);
  v("transform.LayerNorm", norm);
  v("bias", bias);
}

ClassifierHead::ClassifierHead(const ParamSource& source, const EncoderConfig& c)
    : out(source.scope("out"),
          linear_options(c.hidden_size, static_cast<std::int64_t>(c.labels.names.size()), c)),
      activation(Activation::identity) {
  const ClassifierLayout& layout = find_encoder_family(c.model_type)->classifier;
  if (c.labels.of == LabelsOf::tokens || layout.dense.empty()) return;
  dense = std::make_unique<Linear>(source.scope("dense"), linear_options(c.hidden_size, c.hidden_size, c));
  activation = layout.activation;
}

Tensor ClassifierHead::operator()(const Tensor& x) const {
  return out(dense == nullptr ? x : activate(activation, (*dense)(x)));
}

void ClassifierHead::visit(ParamVisitor& v) {
  v("dense", dense);
  v("out", out);
}

BertModel::BertModel(EncoderConfig config_, const ParamSource& source)
    : config([&] {
        config_.validate();
        return std::move(config_);
      }()),
      word_embeddings(source.scope("embeddings.word_embeddings"), table_options(config.vocab_size, config)),
      position_embeddings(source.scope("embeddings.position_embeddings"),
                          table_options(config.max_position_embeddings, config)),
      token_type_embeddings(
          config.type_vocab_size == 0
              ? nullptr
              : std::make_unique<Embedding>(source.scope("embeddings.token_type_embeddings"),
                                            table_options(config.type_vocab_size, config))),
      embedding_norm(source.scope("embeddings.LayerNorm"), norm_options(config.embedding_width(), config)) {
  const std::int64_t width = config.hidden_size;
  if (config.embedding_width() != width) {
    embeddings_project = std::make_unique<Linear>(source.scope("embeddings_project"),
                                                  linear_options(config.embedding_width(), width, config));
  }
  if (config.relative_attention_num_buckets > 0) {
    EmbeddingOptions options = table_options(config.relative_attention_num_buckets, config);
    options.width = config.num_attention_heads;
    relative_attention_bias =
        std::make_unique<Embedding>(source.scope("encoder.relative_attention_bias"), options);
  }
  for (std::int64_t i = 0; i < config.distinct_layers(); ++i) {
    layers.push_back(std::make_unique<EncoderLayer>(source.scope("encoder.layer", i), config));
  }
  if (config.pooler) {
    pooler = std::make_unique<Linear>(source.scope("pooler.dense"), linear_options(width, width, config));
  }
  if (config.masked_lm_head) {
    masked_lm = std::make_unique<MaskedLmHead>(source.scope("cls.predictions"), config);
  }
  if (config.labels.of != LabelsOf::nothing) {
    classifier = std::make_unique<ClassifierHead>(source.scope("classifier"), config);
  }
}

Tensor BertModel::embed(const EncoderInput& input) const {
  const std::int64_t batch = input.tokens.dim(0), sequence = input.tokens.dim(1);
  Tensor positions = input.positions;
  if (!positions.defined()) {
    std::vector<std::int64_t> all(static_cast<std::size_t>(batch * sequence));
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::int64_t>(i) % sequence;
    positions = Tensor::from(all, {batch, sequence}, input.tokens.device());
  }
  Tensor x = word_embeddings(input.tokens);
  if (token_type_embeddings != nullptr) {
    x = x + (input.token_types.defined()
                 ? (*token_type_embeddings)(input.token_types)
                 : narrow(token_type_embeddings->weight.effective(), 0, 0, 1));  // broadcasts
  }
  const Tensor places = config.position_offset == 0
                            ? position_embeddings(positions)
                            : embedding(narrow(position_embeddings.weight.effective(), 0,
                                               config.position_offset, config.context()),
                                        positions);
  const Tensor normed = embedding_norm(x + places);
  return embeddings_project == nullptr ? normed : (*embeddings_project)(normed);
}

Tensor BertModel::attention_bias(const EncoderInput& input) const {
  if (relative_attention_bias == nullptr) return {};
  const Tensor buckets = relative_position_buckets(longest_text(input));
  return permute((*relative_attention_bias)(to(buckets, device())), {2, 0, 1});
}

Tensor BertModel::hidden(const EncoderInput& input) const {
  INGOT_CHECK(input.tokens.rank() == 2, DimensionMismatch("an encoder takes tokens [batch, sequence], got " +
                                                          to_string(input.tokens.shape())));
  INGOT_CHECK(
      input.positions.defined() || input.tokens.dim(1) <= config.context(),
      DimensionMismatch("the sequence has " + std::to_string(input.tokens.dim(1)) +
                        " tokens, but the model has positions for " + std::to_string(config.context())));
  Tensor x = embed(input);
  const Tensor bias = attention_bias(input);
  const std::int64_t in_group = config.num_hidden_layers / config.distinct_layers();
  for (std::int64_t i = 0; i < config.num_hidden_layers; ++i) {
    x = (*layers[static_cast<std::size_t>(i / in_group)])(x, input, bias);
  }
  return x;
}

Tensor BertModel::through_pooler(const Tensor& first_tokens) const {
  INGOT_CHECK(pooler != nullptr,
              Error("this " + config.model_type + " model has no pooler: its checkpoint holds none"));
  return tanh((*pooler)(first_tokens));
}

Tensor BertModel::pooled(const Tensor& hidden) const { return through_pooler(select(hidden, 1, 0)); }

Tensor BertModel::label_logits(const Tensor& hidden) const {
  INGOT_CHECK(classifier != nullptr, Error("this " + config.model_type +
                                           " model is no classifier: config.json names no architecture that "
                                           "ends with ForSequenceClassification or ForTokenClassification"));
  const bool pools = config.labels.of == LabelsOf::texts && classifier->dense == nullptr;
  return (*classifier)(pools ? through_pooler(hidden) : hidden);
}

Tensor BertModel::logits(const Tensor& hidden) const {
  INGOT_CHECK(masked_lm != nullptr, Error("this model has no masked-LM head: its checkpoint holds none"));
  const Tensor x = masked_lm->norm(activate(config.head_act, masked_lm->transform(hidden)));
  return word_embeddings.weight(x, masked_lm->bias.value);
}

void BertModel::visit(ParamVisitor& v) {
  v("embeddings.word_embeddings", word_embeddings);
  v("embeddings.position_embeddings", position_embeddings);
  v("embeddings.token_type_embeddings", token_type_embeddings);
  v("embeddings.LayerNorm", embedding_norm);
  v("embeddings_project", embeddings_project);
  v("encoder.relative_attention_bias", relative_attention_bias);
  v("encoder.layer", layers);
  v("pooler.dense", pooler);
  v("cls.predictions", masked_lm);
  v("classifier", classifier);
}

}  // namespace ingot
