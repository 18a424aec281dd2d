#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ingot/data/packing.h"
#include "ingot/data/preference.h"
#include "ingot/text/tokenizer.h"
#include "ingot/train/language/config.h"

namespace ingot {

/// The data of a run as token sequences.
struct TrainingData {
  data::DocumentSet train_documents, validation_documents;
  /// Null where the documents are preferences or prompts, which are not packed; `validation` also where none
  /// was set apart.
  std::shared_ptr<const data::PackedSequences> train, validation;
  std::optional<data::PreferenceKind> preferences;
  std::int64_t too_long = 0;                              ///< preferences that were left out or are cut off
  std::vector<data::Prompt> prompts, validation_prompts;  ///< of a run whose answers are rewarded
  bool reused_cache = false;

  /// The largest id in the data.
  std::int32_t max_token() const;
  /// SHA-256 of what the files hold, as tokens or prompts: whatever is trained on first, or held out.
  std::string fingerprint() const;
};

/// The token that ends a document in tokenizers that are trained here.
inline constexpr const char* kEndOfText = "<|endoftext|>";

/// Whether the run's data sets are there, without reading them: IoError for a path that is not, or a
/// directory without text.
void check_data_paths(const TrainConfig& config);

/// Trains a byte-level BPE of config.vocab_size ids on the run's training data sets, which must be text.
text::Tokenizer train_tokenizer(const TrainConfig& config);

/// The tokenizer with what the run says of it: `chat_template`, where it has none or is to have another, and
/// `special_tokens`, and the new ones; a pad token may be missing, since padding is never learned.
text::Tokenizer with_settings(const text::Tokenizer& tokenizer, const SampleConfig& samples);

/// The tokenizer that a run names, or its model's; empty: one is trained.
std::string tokenizer_path(const TrainConfig& config);
/// The tokenizer of a run that begins: the one it names, its model's, or one that is trained here; with the
/// run's chat template.
text::Tokenizer run_tokenizer(const TrainConfig& config);

/// Reads, tokenizes (or takes from the cache), splits and packs the run's data. Errors name the file and what
/// to do; what is left out or cannot work is a warning.
TrainingData prepare_data(const TrainConfig& config, const text::Tokenizer& tokenizer);

}  // namespace ingot
