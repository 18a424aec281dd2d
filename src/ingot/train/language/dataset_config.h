#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ingot/data/chat_encoder.h"
#include "ingot/data/documents.h"
#include "ingot/data/packing.h"
#include "ingot/data/preference.h"

namespace ingot {

class ConfigReader;
struct ObjectiveConfig;

/// What the records of a data set are.
enum class DatasetKind : std::uint8_t {
  automatic,  ///< as the first record looks
  text,
  chat,
  instruction,
  preference,
};

/// A part of a data set's documents, as in "train[10%:20%]" or "train[:1000]": [begin, end), where less than
/// zero counts from the end.
struct DatasetSlice {
  double begin = 0;
  double end = 0;
  bool has_end = false;
  bool begin_percent = false, end_percent = false;

  /// Of so many documents: first, and one behind the last.
  std::pair<std::int64_t, std::int64_t> of(std::int64_t count) const;
};

/// One source of training data.
struct DatasetConfig {
  std::string path;                     ///< a file of text or of records, a directory of these, or on the Hub
  std::vector<std::string> data_files;  ///< of a directory: only these
  std::string split, name, revision;    ///< of a data set on the Hub: hub::DatasetRequest
  DatasetKind kind = DatasetKind::automatic;
  data::SourceFormat format = data::SourceFormat::automatic;
  std::string text_field = "text";  ///< of records: the key that holds the text
  std::string encoding;             ///< of files that are not UTF-8: latin1, cp1252, shift_jis ...
  std::optional<DatasetSlice> slice;
  data::ChatFields chat;
  data::ChatTraining training;
  data::InstructionFormat instruction;
  data::PreferenceFields preference;
  std::string chat_template;  ///< empty: the tokenizer's
};

/// What all data sets of a run share.
struct SampleConfig {
  /// Records hold preferences of this kind, as the run's objective wants; nothing: what is learned by itself.
  std::optional<data::PreferenceKind> preferences;
  bool prompts = false;  ///< records hold prompts, and whatever rewards look at
  bool train_on_inputs = false;
  std::vector<std::string> eot_tokens;
  std::string template_variables = "{}";  ///< a JSON object
  /// For what tokenizers without a template are given: "" is none, "tokenizer_default"; else the source.
  std::string chat_template;
  bool keep_tokenizers_template = true;               ///< where the tokenizer has one
  std::map<std::string, std::string> special_tokens;  ///< bos_token, eos_token, pad_token, unk_token
  /// Tokens that the tokenizer gets where it lacks them, and whether they are special.
  std::vector<std::pair<std::string, bool>> new_tokens{};
  data::ExcessLength excess_length = data::ExcessLength::drop;
  std::int64_t min_length = 0;   ///< in tokens: shorter samples are left out
  bool drop_duplicates = false;  ///< samples that are equal to an earlier one are left out
};

/// Reads `train_on_inputs`, `chat_template`, `eot_tokens` and their kin.
SampleConfig read_sample_config(const ConfigReader& root, const ObjectiveConfig& objective);
/// Reads the entries of a list of data sets, under axolotl's names.
std::vector<DatasetConfig> read_datasets(const ConfigReader& root, std::string_view key,
                                         const SampleConfig& samples);

}  // namespace ingot
