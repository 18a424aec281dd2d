#include "ingot/cli/model_shapes.h"

#include "ingot/models/language/family.h"

namespace ingot::cli {
namespace {

// The shapes of Llama 3.2 1B and Qwen3 8B.
void set_large_shape(LanguageConfig& c) {
  const bool qwen = c.model_type == "qwen3";
  c.vocab_size = qwen ? 151936 : 128256;
  c.hidden_size = qwen ? 4096 : 2048;
  c.intermediate_size = qwen ? 12288 : 8192;
  c.num_hidden_layers = qwen ? 36 : 16;
  c.num_attention_heads = 32;
  c.num_key_value_heads = 8;
  c.head_dim = qwen ? 128 : 64;
  c.max_position_embeddings = 40960;
  c.rope_theta = qwen ? 1e6 : 5e5;
  c.tie_word_embeddings = !qwen;
}

}  // namespace

std::vector<std::string> shape_names() { return {"gpt2", "demo", "llama-1b", "qwen3-8b"}; }

LanguageConfig shape_config(const std::string& shape, DType dtype) {
  LanguageConfig c;
  c.dtype = dtype;
  c.model_type = shape == "gpt2" ? "gpt2" : shape == "qwen3-8b" ? "qwen3" : "llama";
  apply_family(c);
  if (shape == "llama-1b" || shape == "qwen3-8b") {
    set_large_shape(c);
    return c;
  }
  if (shape == "gpt2") {  // 124M
    c.vocab_size = 50257;
    c.hidden_size = 768;
    c.intermediate_size = 3072;
    c.num_hidden_layers = c.num_attention_heads = 12;
    c.max_position_embeddings = 1024;
    return c;
  }
  c.vocab_size = 2048;  // the demo's
  c.hidden_size = 192;
  c.intermediate_size = 512;
  c.num_hidden_layers = c.num_attention_heads = 6;
  c.num_key_value_heads = 2;
  return c;
}

}  // namespace ingot::cli
