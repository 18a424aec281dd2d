#pragma once

#include <string>

#include "ingot/models/language/decoder.h"
#include "ingot/models/language/model_directory.h"
#include "ingot/nn/param_source.h"

namespace ingot::test {

/// A model of two layers whose widths every format of blocks of 32, 64 and 128 takes.
inline LanguageConfig small_config(const std::string& family) {
  LanguageConfig c;
  c.model_type = family;
  apply_family(c);
  c.vocab_size = 61;
  c.hidden_size = c.intermediate_size = 128;
  c.num_hidden_layers = 2;
  c.num_attention_heads = 4;
  c.num_key_value_heads = family == "gpt2" ? 4 : 2;
  c.max_position_embeddings = 64;
  // 1 / √128: a product keeps the size of what goes in, and the scores of attention have a deviation of 1, so
  // that errors neither grow nor fade on the way.
  c.initializer_range = 0.0884;
  c.tie_word_embeddings = family == "gpt2";
  if (family == "mixtral") {
    c.num_experts = 4;
    c.num_experts_per_tok = 2;
  }
  return c;
}

/// Writes it with random weights; returns the directory.
inline std::string write_small_model(const std::string& directory, const std::string& family) {
  InitSource init(5);
  LanguageModel model(small_config(family), init);
  write_language_model(directory, model.config, parameter_map(model));
  return directory;
}

}  // namespace ingot::test
