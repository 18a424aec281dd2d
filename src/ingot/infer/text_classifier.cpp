#include "ingot/infer/text_classifier.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "ingot/autograd/grad_mode.h"
#include "ingot/base/error.h"
#include "ingot/models/open_tokenizer.h"
#include "ingot/nn/activation.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/reduce.h"
#include "ingot/ops/view.h"

namespace ingot {
namespace {

// sentence-transformers' torch.nn classes of a cross-encoder's scores.
Tensor through(const std::string& activation, const Tensor& logits) {
  if (activation == "Identity") return logits;
  if (activation == "Sigmoid") return activate(Activation::sigmoid, logits);
  if (activation == "Softmax") return softmax(logits);
  if (activation == "Tanh") return activate(Activation::tanh, logits);
  throw NotImplemented(
      fmt::format("config.json: activation_fn {}; known are Identity, Sigmoid, Softmax and Tanh; raw "
                  "scores need none",
                  activation));
}

void require_tokens(const EncodedTexts& texts) {
  for (std::size_t i = 0; i < texts.tokens.size(); ++i)
    INGOT_CHECK(!texts.tokens[i].empty(),
                InvalidConfig("text", fmt::format("number {} has no token", i + 1)));
}

// "B-PER" -> "PER"; labels without such marks stay.
std::string_view kind_of(std::string_view label) {
  return label.starts_with("B-") || label.starts_with("I-") ? label.substr(2) : label;
}

}  // namespace

std::size_t EncodedTexts::token_count() const {
  std::size_t count = 0;
  for (const auto& text : tokens) count += text.size();
  return count;
}

TextClassifier::TextClassifier(std::unique_ptr<TextEncoder> encoder, text::Tokenizer tokenizer)
    : encoder_(std::move(encoder)), tokenizer_(std::move(tokenizer)), max_length_(encoder_->context()) {
  const std::int64_t limit = tokenizer_.config().model_max_length;
  if (limit > 0) max_length_ = std::min(max_length_, limit);
}

TextClassifier TextClassifier::open(const std::string& directory, const LoadOptions& options) {
  auto encoder = open_text_encoder(directory, options);
  INGOT_CHECK(
      encoder->labels().of != LabelsOf::nothing,
      InvalidConfig(
          "model", fmt::format("{} is not a classifier: config.json names no architecture that ends with "
                               "ForSequenceClassification or ForTokenClassification. For embeddings there is "
                               "ingot embed",
                               directory)));
  return {std::move(encoder), open_tokenizer(directory)};
}

void TextClassifier::require_labels_of(LabelsOf of) const {
  INGOT_CHECK(
      labels().of == of,
      InvalidConfig("model",
                    of == LabelsOf::texts
                        ? "labels tokens (ForTokenClassification); expected a model that labels texts"
                        : "labels texts (ForSequenceClassification); expected one that labels tokens"));
}

EncodedTexts TextClassifier::encode(std::span<const std::string_view> texts) const {
  EncodedTexts ids{.tokens = tokenizer_.encode_batch(texts), .types = {}};
  cut_texts(ids.tokens, max_length_, tokenizer_);
  ids.types.resize(ids.tokens.size());
  require_tokens(ids);
  return ids;
}

EncodedTexts TextClassifier::encode(std::span<const Pair> pairs) const {
  EncodedTexts ids;
  for (const auto& [first, second] : pairs) {
    text::Encoding both = tokenizer_.encode_pair(first, second, {.max_pair_length = max_length_});
    ids.tokens.push_back(std::move(both.ids));
    ids.types.push_back(std::move(both.type_ids));
  }
  require_tokens(ids);
  return ids;
}

Tensor TextClassifier::logits(const EncodedTexts& ids) const {
  const NoGrad no_grad;
  std::vector<Tensor> parts;
  for_each_batch(ids.tokens, [&](std::size_t first, std::size_t last) {
    PackedTexts packed;
    for (std::size_t i = first; i < last; ++i) packed.add(ids.tokens[i], ids.types[i]);
    const Tensor hidden = encoder_->hidden(packed);
    const Tensor rows =
        labels().of == LabelsOf::texts ? encoder_->text_states(hidden, packed) : select(hidden, 0, 0);
    parts.push_back(to(to(encoder_->label_logits(rows), DType::f32), kCpu));
  });
  if (parts.empty()) return Tensor::zeros({0, static_cast<std::int64_t>(labels().names.size())});
  return contiguous(concat(parts));
}

Tensor TextClassifier::scored(Tensor logits, ScoreKind kind) const {
  const NoGrad no_grad;
  if (kind == ScoreKind::raw) return logits;
  if (!labels().activation.empty()) return through(labels().activation, logits);
  switch (labels().kind()) {
    case LabelProblem::regression:
      return logits;
    case LabelProblem::multi_label:
      return activate(Activation::sigmoid, logits);
    case LabelProblem::single_label:
      return softmax(logits);
  }
  return logits;
}

Tensor TextClassifier::scores(const EncodedTexts& texts, ScoreKind kind) const {
  require_labels_of(LabelsOf::texts);
  return scored(logits(texts), kind);
}

std::vector<LabelScore> TextClassifier::ranked(std::span<const float> scores) const {
  std::vector<LabelScore> all;
  for (std::size_t i = 0; i < scores.size(); ++i) all.push_back({labels().names.at(i), scores[i]});
  std::ranges::stable_sort(all, [](const LabelScore& a, const LabelScore& b) { return a.score > b.score; });
  return all;
}

std::vector<float> TextClassifier::rerank(std::string_view query, std::span<const std::string_view> documents,
                                          ScoreKind kind) const {
  std::vector<Pair> pairs;
  for (const std::string_view document : documents) pairs.emplace_back(query, document);
  return relevance(encode(pairs), kind);
}

std::vector<float> TextClassifier::relevance(const EncodedTexts& pairs, ScoreKind kind) const {
  const Tensor all = scores(pairs, kind);
  return contiguous(select(all, 1, all.dim(1) - 1)).to_vector<float>();
}

std::vector<LabelledSpan> TextClassifier::spans_of(const std::vector<std::int32_t>& ids,
                                                   std::span<const float> scores) const {
  const std::size_t count = labels().names.size();
  std::vector<LabelledSpan> found;
  for (std::size_t token = 0; token < ids.size(); ++token) {
    if (tokenizer_.is_special(ids[token])) continue;
    const auto row = scores.subspan(token * count, count);
    const auto best = std::ranges::max_element(row);
    const std::string& label = labels().names[static_cast<std::size_t>(best - row.begin())];
    if (label == "O") continue;
    const auto at = static_cast<std::int64_t>(token);
    const bool goes_on = !found.empty() && found.back().end == at && found.back().label == kind_of(label) &&
                         !label.starts_with("B-");
    if (!goes_on) found.push_back({.text = {}, .label = std::string(kind_of(label)), .first_token = at});
    found.back().score += *best;
    found.back().end = at + 1;
  }
  for (LabelledSpan& span : found) {
    span.score /= static_cast<float>(span.end - span.first_token);
    span.text = tokenizer_.decode(std::span(ids).subspan(
        static_cast<std::size_t>(span.first_token), static_cast<std::size_t>(span.end - span.first_token)));
    if (span.text.starts_with(' ')) span.text.erase(0, 1);
  }
  return found;
}

std::vector<std::vector<LabelledSpan>> TextClassifier::spans(std::span<const std::string_view> texts) const {
  require_labels_of(LabelsOf::tokens);
  const NoGrad no_grad;
  const EncodedTexts ids = encode(texts);
  const std::vector<float> all = softmax(logits(ids)).to_vector<float>();
  std::vector<std::vector<LabelledSpan>> found;
  std::size_t at = 0;
  for (const std::vector<std::int32_t>& text : ids.tokens) {
    const std::size_t length = text.size() * labels().names.size();
    found.push_back(spans_of(text, std::span(all).subspan(at, length)));
    at += length;
  }
  return found;
}

}  // namespace ingot
