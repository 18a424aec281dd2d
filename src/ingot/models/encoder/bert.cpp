#include "ingot/models/encoder/bert.h"

#include <utility>
#include <vector>

#include "ingot/base/error.h"
#include "ingot/models/encoder/family.h"
#include "ingot/models/encoder/relative_bias.h"
#include "ingot/models/encoder/text_spans.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/index.h"
#include "ingot/ops/matmul.h"
#include "ingot/ops/reduce.h"
#include "ingot/ops/view.h"

namespace ingot {
namespace {

EmbeddingOptions table_options(std::int64_t count, const EncoderConfig& c) {
  return {.count = count,
          .width = c.embedding_width(),
          .weight_init = init::Normal{.mean = 0.0, .std = c.initializer_range},
          .quantizable = false};  // a look-up costs nothing, and errors there pass through every layer
}

}  // namespace

MaskedLmHead::MaskedLmHead(const ParamSource& source, const EncoderConfig& c)
    : transform(source.scope("transform.dense"),
                encoder_linear(c.hidden_size, c.embedding_width(), c, c.head_bias)),
      norm(source.scope("transform.LayerNorm"), encoder_norm(c.embedding_width(), c)),
      bias(c.decoder_bias ? source.take("bias", {c.vocab_size}, init::kZeros) : Parameter{}) {}

void MaskedLmHead::visit(ParamVisitor& v) {
  v("transform.dense", transform);
  v("transform.LayerNorm", norm);
  v("bias", bias);
}

ClassifierHead::ClassifierHead(const ParamSource& source, const EncoderConfig& c)
    : out(source.scope("out"),
          encoder_linear(c.hidden_size, static_cast<std::int64_t>(c.labels.names.size()), c)),
      activation(Activation::identity) {
  const ClassifierLayout& layout = find_encoder_family(c.model_type)->classifier;
  if (!layout.has_dense(c.labels.of)) return;
  dense = std::make_unique<Linear>(source.scope("dense"),
                                   encoder_linear(c.hidden_size, c.hidden_size, c, c.head_bias));
  activation = layout.activation.value_or(c.head_act);
  if (!layout.norm.empty())
    norm = std::make_unique<LayerNorm>(source.scope("norm"), encoder_norm(c.hidden_size, c));
}

Tensor ClassifierHead::operator()(const Tensor& x) const {
  if (dense == nullptr) return out(x);
  const Tensor inner = activate(activation, (*dense)(x));
  return out(norm == nullptr ? inner : (*norm)(inner));
}

void ClassifierHead::visit(ParamVisitor& v) {
  v("dense", dense);
  v("norm", norm);
  v("out", out);
}

BertModel::BertModel(EncoderConfig config_, const ParamSource& source)
    : config([&] {
        config_.validate();
        return std::move(config_);
      }()),
      word_embeddings(source.scope("embeddings.word_embeddings"), table_options(config.vocab_size, config)),
      position_embeddings(
          config.has_position_table()
              ? std::make_unique<Embedding>(source.scope("embeddings.position_embeddings"),
                                            table_options(config.max_position_embeddings, config))
              : nullptr),
      token_type_embeddings(
          config.type_vocab_size == 0
              ? nullptr
              : std::make_unique<Embedding>(source.scope("embeddings.token_type_embeddings"),
                                            table_options(config.type_vocab_size, config))),
      embedding_norm(source.scope("embeddings.LayerNorm"), encoder_norm(config.embedding_width(), config)) {
  const std::int64_t width = config.hidden_size;
  if (config.embedding_width() != width) {
    embeddings_project = std::make_unique<Linear>(source.scope("embeddings_project"),
                                                  encoder_linear(config.embedding_width(), width, config));
  }
  if (config.relative_attention_num_buckets > 0) {
    EmbeddingOptions options = table_options(config.relative_attention_num_buckets, config);
    options.width = config.num_attention_heads;
    relative_attention_bias =
        std::make_unique<Embedding>(source.scope("encoder.relative_attention_bias"), options);
  }
  take_distances(source);
  for (std::int64_t i = 0; i < config.distinct_layers(); ++i) {
    layers.push_back(std::make_unique<EncoderLayer>(source.scope("encoder.layer", i), config, i));
  }
  if (config.norm_first)
    final_norm = std::make_unique<LayerNorm>(source.scope("final_norm"), encoder_norm(width, config));
  if (config.pooler) {
    pooler = std::make_unique<Linear>(source.scope("pooler.dense"), encoder_linear(width, width, config));
  }
  if (config.masked_lm_head) {
    masked_lm = std::make_unique<MaskedLmHead>(source.scope("cls.predictions"), config);
  }
  if (config.labels.of != LabelsOf::nothing) {
    classifier = std::make_unique<ClassifierHead>(source.scope("classifier"), config);
  }
}

void BertModel::take_distances(const ParamSource& source) {
  if (config.relative_attention) {
    EmbeddingOptions options = table_options(2 * config.relative_span(), config);
    options.width = config.hidden_size;
    distance_embeddings = std::make_unique<Embedding>(source.scope("encoder.rel_embeddings"), options);
  }
  if (config.norm_rel_ebd)
    distance_norm = std::make_unique<LayerNorm>(source.scope("encoder.LayerNorm"),
                                                encoder_norm(config.hidden_size, config));
  if (config.conv_kernel_size > 0)
    convolution = std::make_unique<EncoderConvolution>(source.scope("encoder.conv"), config);
}

Tensor BertModel::distances() const {
  if (distance_embeddings == nullptr) return {};
  const Tensor all = distance_embeddings->weight.effective();
  return distance_norm == nullptr ? all : (*distance_norm)(all);
}

// `input` has positions.
Tensor BertModel::embed(const EncoderInput& input) const {
  Tensor x = word_embeddings(input.tokens);
  if (token_type_embeddings != nullptr) {
    x = x + (input.token_types.defined()
                 ? (*token_type_embeddings)(input.token_types)
                 : narrow(token_type_embeddings->weight.effective(), 0, 0, 1));  // broadcasts
  }
  if (position_embeddings != nullptr) {
    x = x + (config.position_offset == 0 ? (*position_embeddings)(input.positions)
                                         : embedding(narrow(position_embeddings->weight.effective(), 0,
                                                            config.position_offset, config.context()),
                                                     input.positions));
  }
  const Tensor normed = embedding_norm(x);
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
  const EncoderContext context = context_of(input);
  Tensor x = embed(context.input);
  const std::int64_t in_group = config.num_hidden_layers / config.distinct_layers();
  for (std::int64_t i = 0; i < config.num_hidden_layers; ++i) {
    const Tensor before = x;
    x = (*layers[static_cast<std::size_t>(i / in_group)])(before, context);
    if (i == 0 && convolution != nullptr) x = (*convolution)(before, x, context.input);
  }
  return final_norm == nullptr ? x : (*final_norm)(x);
}

EncoderContext BertModel::context_of(const EncoderInput& input) const {
  EncoderContext context{.input = input, .rope = {}, .bias = attention_bias(input), .distances = distances()};
  const std::int64_t batch = input.tokens.dim(0), sequence = input.tokens.dim(1);
  if (!input.positions.defined()) {
    std::vector<std::int64_t> all(static_cast<std::size_t>(batch * sequence));
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::int64_t>(i) % sequence;
    context.input.positions = Tensor::from(all, {batch, sequence}, input.tokens.device());
  }
  if (config.is_rotary()) {
    const bool by_length = config.rope_scaling.depends_on_length();
    rope_.prepare(config.rotary(), by_length ? longest_text(input) : sequence, device());
    context.rope = rope_;
  }
  if (!config.sliding_layers.empty()) context.input = with_doc_start(std::move(context.input));
  return context;
}

Tensor BertModel::through_pooler(const Tensor& first_tokens) const {
  INGOT_CHECK(pooler != nullptr,
              Error("this " + config.model_type + " model has no pooler: its checkpoint holds none"));
  return activate(config.pooler_act, (*pooler)(first_tokens));
}

Tensor BertModel::pooled(const Tensor& hidden) const { return through_pooler(select(hidden, 1, 0)); }

Tensor BertModel::text_states(const Tensor& hidden, const EncoderInput& input) const {
  const std::vector<TextSpan> texts = text_spans(input);
  const std::int64_t sequence = hidden.dim(1);
  const Tensor rows = reshape(hidden, {-1, hidden.dim(2)});
  if (config.classifier_pooling == ClassifierPooling::mean) {
    std::vector<Tensor> means;
    means.reserve(texts.size());
    for (const TextSpan& text : texts)
      means.push_back(mean(narrow(rows, 0, text.row * sequence + text.first, text.count), {0}));
    return stack(means);
  }
  std::vector<std::int64_t> first;
  first.reserve(texts.size());
  for (const TextSpan& text : texts) first.push_back(text.row * sequence + text.first);
  return index_select(rows, 0,
                      Tensor::from(first, {static_cast<std::int64_t>(first.size())}, hidden.device()));
}

Tensor BertModel::label_logits(const Tensor& hidden) const {
  INGOT_CHECK(classifier != nullptr,
              Error("this " + config.model_type +
                    " model is not a classifier: config.json names no architecture that "
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
  v("encoder.rel_embeddings", distance_embeddings);
  v("encoder.LayerNorm", distance_norm);
  v("encoder.conv", convolution);
  v("encoder.layer", layers);
  v("final_norm", final_norm);
  v("pooler.dense", pooler);
  v("cls.predictions", masked_lm);
  v("classifier", classifier);
}

}  // namespace ingot
