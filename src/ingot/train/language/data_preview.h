#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ingot/train/language/dataset.h"

namespace ingot {

/// A stretch of a sample's text that is learned, or is not.
struct PreviewPiece {
  std::string text;
  bool trained = false;
};

struct PreviewSample {
  std::string role;  ///< of preferences: "chosen", "rejected"; "desirable", "undesirable"
  std::vector<PreviewPiece> pieces;
  std::int64_t tokens = 0, trained_tokens = 0;
};

/// What a run would train on.
struct DataPreview {
  std::int64_t train_samples = 0, validation_samples = 0;  ///< documents, of text
  std::int64_t tokens = 0, trained_tokens = 0;
  std::int64_t shortest = 0, median = 0, longest = 0;  ///< tokens of a sample; of a pair, those
                                                       ///< of its longer answer and the prompt
  std::int64_t nine_of_ten = 0;                        ///< 90 % of the samples have at most so many
  std::int64_t duplicates = 0;                         ///< samples that are equal to an earlier one
  std::int64_t too_long = 0;                           ///< for sequence_len
  /// Of the training set; preferences are not packed, so that there are no sequences.
  std::int64_t sequences = 0, sequence_length = 0;
  double efficiency = 0;               ///< share of the sequences that is not padding
  std::vector<PreviewSample> samples;  ///< of the training set, spread over it
};

/// `count`: how many samples are shown.
DataPreview preview_data(const TrainingData& data, const text::Tokenizer& tokenizer, std::int64_t count);

}  // namespace ingot
