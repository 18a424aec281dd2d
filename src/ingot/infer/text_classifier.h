#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ingot/infer/text_encoder.h"
#include "ingot/text/tokenizer.h"

namespace ingot {

struct LabelScore {
  std::string label;
  float score = 0;
};

/// Neighbouring tokens with one label, as a named-entity model finds them.
struct LabelledSpan {
  std::string text, label;
  float score = 0;                        ///< mean of its tokens'
  std::int64_t first_token = 0, end = 0;  ///< [first_token, end) of the text's ids, special tokens counted
};

/// What becomes of logits.
enum class ScoreKind : std::uint8_t {
  automatic,  ///< what the model says: softmax over labels, or sigmoid of each
  raw         ///< the logits
};

/// Texts, or pairs of texts, as ids.
struct EncodedTexts {
  std::vector<std::vector<std::int32_t>> tokens, types;

  std::size_t token_count() const;
};

/// Tells the labels of texts, of pairs of texts, or of tokens: a checkpoint of transformers'
/// ...ForSequenceClassification or ...ForTokenClassification, a cross-encoder of sentence-transformers.
/// Encoders and decoders alike.
class TextClassifier {
 public:
  using Pair = std::pair<std::string_view, std::string_view>;

  TextClassifier(std::unique_ptr<TextEncoder> encoder, text::Tokenizer tokenizer);
  /// Throws InvalidConfig where the directory holds no classifier, and as open_text_encoder does.
  static TextClassifier open(const std::string& directory, const LoadOptions& options = {});

  /// Special tokens included. Texts beyond max_length() are cut; of a pair the longer one is, as
  /// transformers' "longest_first" does. InvalidConfig names a text without tokens.
  EncodedTexts encode(std::span<const std::string_view> texts) const;
  EncodedTexts encode(std::span<const Pair> pairs) const;
  /// f32 [texts, labels] on the host. Needs labels().of texts.
  Tensor scores(const EncodedTexts& texts, ScoreKind kind = ScoreKind::automatic) const;
  /// The labels of a row of scores, best first.
  std::vector<LabelScore> ranked(std::span<const float> scores) const;
  /// How well each document answers the query: the score of the only label, or of the last of several. Needs
  /// labels().of texts.
  std::vector<float> rerank(std::string_view query, std::span<const std::string_view> documents,
                            ScoreKind kind = ScoreKind::automatic) const;
  /// That score of each pair.
  std::vector<float> relevance(const EncodedTexts& pairs, ScoreKind kind = ScoreKind::automatic) const;
  /// What is found in each text. Needs labels().of tokens. Tokens labelled "O" are left out; B- and I- of one
  /// kind are one span.
  std::vector<std::vector<LabelledSpan>> spans(std::span<const std::string_view> texts) const;

  const Labels& labels() const { return encoder_->labels(); }
  /// Tokens of a text or of a pair that count, special ones included.
  std::int64_t max_length() const { return max_length_; }
  const TextEncoder& encoder() const { return *encoder_; }

 private:
  Tensor logits(const EncodedTexts& texts) const;
  Tensor scored(Tensor logits, ScoreKind kind) const;
  std::vector<LabelledSpan> spans_of(const std::vector<std::int32_t>& ids,
                                     std::span<const float> scores) const;
  void require_labels_of(LabelsOf of) const;

  std::unique_ptr<TextEncoder> encoder_;
  text::Tokenizer tokenizer_;
  std::int64_t max_length_;
};

}  // namespace ingot
