#pragma once

#include <string>

#include "ingot/models/language/decoder.h"
#include "ingot/models/language/model_directory.h"
#include "ingot/nn/param_source.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/random.h"

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
  // 1 / √128: a matmul keeps the size of what goes in, and the scores of attention have a deviation of 1, so
  // that errors neither grow nor fade on the way.
  c.initializer_range = 0.0884;
  c.tie_word_embeddings = family == "gpt2";
  if (family == "mixtral") {
    c.num_experts = 4;
    c.num_experts_per_tok = 2;
  }
  return c;
}

/// Writes it with random weights; returns the directory. `norm_spread`: how far norm weights are from where
/// they start. With 0, rows of embeddings of few bits reach the first layers as multiples of one number, half
/// of them exactly between two steps of eight bits: the last bit of a norm then decides how they are
/// quantized.
inline std::string write_small_model(const std::string& directory, const std::string& family,
                                     double norm_spread = 0) {
  InitSource init(5);
  LanguageModel model(small_config(family), init);
  std::uint64_t stream = 0;
  for (Parameter* parameter : parameters(model)) {
    if (norm_spread == 0 || parameter->value.rank() != 1) continue;
    const Tensor apart = Tensor::empty_like(parameter->value);
    normal_(apart, 0, norm_spread, {.seed = 6, .stream = stream++});
    parameter->replace(parameter->value.detach() + apart);
  }
  write_language_model(directory, model.config, parameter_map(model));
  return directory;
}

}  // namespace ingot::test
