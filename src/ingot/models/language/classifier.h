#pragma once

#include <memory>
#include <utility>

#include "ingot/models/labels.h"
#include "ingot/models/language/checkpoint.h"
#include "ingot/models/language/decoder.h"

namespace ingot {

/// The linear map from a decoder's hidden states to labels: transformers' LlamaForSequenceClassification,
/// Qwen3ForTokenClassification and the like of every family. Of a text it reads the last token's.
struct LabelHead {
  LabelHead(Labels labels_, const ParamSource& source, const LinearOptions& options)
      : labels(std::move(labels_)), score(source, options) {}

  Labels labels;
  Linear score;

  /// [..., hidden] -> [..., labels], without softmax.
  Tensor operator()(const Tensor& hidden) const { return score(hidden); }
};

/// The head of a checkpoint whose config.json names such an architecture; null for others. Throws FormatError
/// where its matrix is missing or does not fit `hidden_size`.
std::unique_ptr<LabelHead> load_label_head(const ModelCheckpoint& checkpoint, std::int64_t hidden_size,
                                           const LoadOptions& options = {});

/// A decoder for its hidden states alone, whether the checkpoint has a language-model head or not.
std::unique_ptr<LanguageModel> load_headless(const ModelCheckpoint& checkpoint,
                                             const LoadOptions& options = {});

}  // namespace ingot
