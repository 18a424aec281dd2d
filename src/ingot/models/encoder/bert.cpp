#include "ingot/models/encoder/bert.h"

#include "ingot/base/error.h"
#include "ingot/nn/module_scope.h"
#include "ingot/ops/attention.h"
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

LayerNormOptions norm_options(const EncoderConfig& c) {
  return {.width = c.hidden_size, .eps = static_cast<float>(c.layer_norm_eps)};
}

EmbeddingOptions table_options(std::int64_t count, const EncoderConfig& c) {
  return {.count = count,
          .width = c.hidden_size,
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
      attention_norm(source.scope("attention.output.LayerNorm"), norm_options(c)),
      intermediate(source.scope("intermediate.dense"), linear_options(c.hidden_size, c.intermediate_size, c)),
      output(source.scope("output.dense"), linear_options(c.intermediate_size, c.hidden_size, c)),
      output_norm(source.scope("output.LayerNorm"), norm_options(c)),
      heads(c.num_attention_heads),
      activation(c.hidden_act) {}

Tensor EncoderLayer::operator()(const Tensor& x, const EncoderInput& input) const {
  const ModuleScope scope(output.weight, 3);
  const AttentionOptions options{.causal = false,
                                 .doc_start = input.doc_start,
                                 .kv_length = input.lengths,
                                 .bf16_products = attention_output.quantizes_input()};
  const Tensor mixed = attention(split_heads(query_key_value(x), heads, heads), options);
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
    : transform(source.scope("transform.dense"), linear_options(c.hidden_size, c.hidden_size, c)),
      norm(source.scope("transform.LayerNorm"), norm_options(c)),
      bias(source.take("bias", {c.vocab_size}, init::kZeros)) {}

void MaskedLmHead::visit(ParamVisitor& v) {
  v("transform.dense", transform);
  v("transform.LayerNorm", norm);
  v("bias", bias);
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
      embedding_norm(source.scope("embeddings.LayerNorm"), norm_options(config)) {
  for (std::int64_t i = 0; i < config.num_hidden_layers; ++i) {
    layers.push_back(std::make_unique<EncoderLayer>(source.scope("encoder.layer", i), config));
  }
  const std::int64_t width = config.hidden_size;
  if (config.pooler) {
    pooler = std::make_unique<Linear>(source.scope("pooler.dense"), linear_options(width, width, config));
  }
  if (config.masked_lm_head) {
    masked_lm = std::make_unique<MaskedLmHead>(source.scope("cls.predictions"), config);
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
  return embedding_norm(x + places);
}

Tensor BertModel::hidden(const EncoderInput& input) const {
  INGOT_CHECK(input.tokens.rank() == 2, DimensionMismatch("an encoder takes tokens [batch, sequence], got " +
                                                          to_string(input.tokens.shape())));
  INGOT_CHECK(
      input.positions.defined() || input.tokens.dim(1) <= config.context(),
      DimensionMismatch("the sequence has " + std::to_string(input.tokens.dim(1)) +
                        " tokens, but the model has positions for " + std::to_string(config.context())));
  Tensor x = embed(input);
  for (const auto& layer : layers) x = (*layer)(x, input);
  return x;
}

Tensor BertModel::pooled(const Tensor& hidden) const {
  INGOT_CHECK(pooler != nullptr, Error("this BERT has no pooler: its checkpoint holds none"));
  return tanh((*pooler)(select(hidden, 1, 0)));
}

Tensor BertModel::logits(const Tensor& hidden) const {
  INGOT_CHECK(masked_lm != nullptr, Error("this BERT has no masked-LM head: its checkpoint holds none"));
  const Tensor x = masked_lm->norm(activate(config.head_act, masked_lm->transform(hidden)));
  return word_embeddings.weight(x, masked_lm->bias.value);
}

void BertModel::visit(ParamVisitor& v) {
  v("embeddings.word_embeddings", word_embeddings);
  v("embeddings.position_embeddings", position_embeddings);
  v("embeddings.token_type_embeddings", token_type_embeddings);
  v("embeddings.LayerNorm", embedding_norm);
  v("encoder.layer", layers);
  v("pooler.dense", pooler);
  v("cls.predictions", masked_lm);
}

}  // namespace ingot
