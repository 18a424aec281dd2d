#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ingot/infer/text_options.h"
#include "ingot/models/config_file.h"
#include "ingot/text/tokenizer.h"

namespace ingot::infer {

/// What a model's files say about generating text: generation_config.json and config.json of a directory, the
/// keys `general.sampling.*` and `tokenizer.ggml.*` of a GGUF file.
class GenerationConfig {
 public:
  /// Of a model directory or a .gguf file. A directory without these files says nothing. FormatError names
  /// file and key.
  static GenerationConfig of_model(const std::string& path);

  /// Ids that end a sequence, each once.
  const std::vector<std::int32_t>& end_tokens() const { return end_tokens_; }

  /// Puts what the files say over `options`. As in transformers and vLLM: `do_sample: false` is greedy;
  /// settings of sampling without a temperature mean temperature 1.
  void apply(TextOptions& options) const;

 private:
  void add_end_tokens(const ConfigFile& file);

  std::vector<std::int32_t> end_tokens_;
  std::optional<ConfigFile> file_;
};

/// What ends a sequence: the ids that the model's files name, the tokenizer's end-of-sequence, end-of-turn
/// and end-of-message tokens, and the token that its chat template puts behind an answer.
std::vector<std::int32_t> find_end_tokens(const GenerationConfig& config, const text::Tokenizer& tokenizer);

}  // namespace ingot::infer
