#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ingot/models/encoder/bert.h"
#include "ingot/models/labels.h"
#include "ingot/text/tokenizer.h"

namespace ingot {

/// Texts packed into one row, without padding.
struct PackedTexts {
  std::vector<std::int32_t> tokens, token_types, starts;  ///< of each token; starts: where its text begins
  std::vector<std::int64_t> positions;
  std::vector<std::int64_t> first, last;  ///< of each text: its first and last token
  std::int64_t longest = 0;

  void add(const std::vector<std::int32_t>& text, const std::vector<std::int32_t>& types = {});
};

/// Calls `batch` with as many texts as fit a batch at a time, in order: first and behind the last.
void for_each_batch(const std::vector<std::vector<std::int32_t>>& texts,
                    const std::function<void(std::size_t first, std::size_t last)>& batch);

/// Cuts texts of more than `limit` tokens; a special token at the end ([SEP]) ends a text that was cut, too.
void cut_texts(std::vector<std::vector<std::int32_t>>& texts, std::int64_t limit,
               const text::Tokenizer& tokenizer);

/// What makes hidden states of texts for embeddings, classifiers and rerankers: an encoder like BERT, or a
/// decoder.
class TextEncoder {
 public:
  virtual ~TextEncoder() = default;

  /// [1, tokens, hidden_size].
  virtual Tensor hidden(const PackedTexts& texts) const = 0;
  virtual std::int64_t hidden_size() const = 0;
  /// Tokens that a text may have, special ones included.
  virtual std::int64_t context() const = 0;
  virtual Device device() const = 0;
  /// LabelsOf::nothing where the checkpoint is not a classifier.
  virtual const Labels& labels() const = 0;
  /// [n, hidden_size] -> [n, labels]: of what tells of texts, or of all tokens (labels().of).
  virtual Tensor label_logits(const Tensor& hidden) const = 0;
  /// What the labels of each text are told from: [texts, hidden_size] of hidden [1, tokens, hidden_size].
  virtual Tensor text_states(const Tensor& hidden, const PackedTexts& texts) const = 0;
  /// The weights, for what looks at them.
  virtual void visit(ParamVisitor& v) = 0;
};

/// Opens the model of a directory: an encoder, or a decoder of any family. Throws as load_bert and
/// LanguageModel::from_weights do.
std::unique_ptr<TextEncoder> open_text_encoder(const std::string& directory, const LoadOptions& options = {});
std::unique_ptr<TextEncoder> as_text_encoder(std::unique_ptr<BertModel> encoder);

}  // namespace ingot
