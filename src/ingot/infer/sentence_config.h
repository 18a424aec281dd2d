#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ingot {

/// How the vectors of a text's tokens become one. weighted_mean: the n-th token counts n times.
enum class Pooling : std::uint8_t { mean, cls, max, mean_sqrt_length, last, weighted_mean };

std::string_view name(Pooling pooling);

/// What is done to a text's vector after pooling, as modules.json lists it.
struct SentenceStage {
  enum class Kind : std::uint8_t { dense, layer_norm, normalize } kind = Kind::normalize;
  std::string path = {};                ///< directory of its weights, or a GGUF file
  std::string activation = "Identity";  ///< dense: torch's class name, "Tanh"
  std::string tensor = "linear";        ///< dense: what its weights are called there
};

/// What a directory of sentence-transformers says beside the encoder: modules.json, 1_Pooling/config.json,
/// sentence_bert_config.json, config_sentence_transformers.json.
struct SentenceConfig {
  std::string encoder;                           ///< directory of the encoder and its tokenizer
  std::vector<Pooling> poolings{Pooling::mean};  ///< their vectors concatenated
  bool include_prompt = true;                    ///< false: the prompt's tokens are not pooled
  std::vector<SentenceStage> stages;             ///< what follows pooling
  bool lowercase = false;                        ///< texts are made lower case first
  std::optional<std::int64_t> max_seq_length;    ///< tokens of a text that count, special ones included
  std::map<std::string, std::string> prompts;    ///< what is put before a text, by name
  std::string default_prompt;                    ///< name; empty: none

  /// Whether vectors have length 1.
  bool normalizes() const { return !stages.empty() && stages.back().kind == SentenceStage::Kind::normalize; }
  /// The text of a prompt; of the default one where `name` is empty. InvalidConfig lists the names there are.
  const std::string& prompt(const std::string& name) const;

  /// Reads what is there; a plain encoder directory means the mean, not normalized, and so does a GGUF file
  /// that names no pooling. FormatError names file and key; NotImplemented a module or a pooling that Ingot
  /// lacks.
  static SentenceConfig from_directory(const std::string& directory);
};

}  // namespace ingot
