#include "ingot/benchmark/model_shapes.h"

#include <algorithm>
#include <array>

#include "ingot/base/error.h"
#include "ingot/models/language/family.h"

namespace ingot::benchmark {
namespace {

struct ModelShape {
  const char *name, *model_type;
  std::int64_t vocab, hidden, intermediate, layers, heads, kv_heads, head_dim, positions;
  double rope_theta;
  bool tied;
};

// As the configurations of those checkpoints have it.
constexpr std::array<ModelShape, 9> kShapes{{
    {"gpt2", "gpt2", 50257, 768, 3072, 12, 12, 12, 64, 1024, 1e4, true},
    {"demo", "llama", 2048, 192, 512, 6, 6, 2, 32, 2048, 1e4, true},
    {"llama-1b", "llama", 128256, 2048, 8192, 16, 32, 8, 64, 40960, 5e5, true},
    {"llama-8b", "llama", 128256, 4096, 14336, 32, 32, 8, 128, 8192, 5e5, false},
    {"qwen3-0.6b", "qwen3", 151936, 1024, 3072, 28, 16, 8, 128, 40960, 1e6, true},
    {"qwen3-1.7b", "qwen3", 151936, 2048, 6144, 28, 16, 8, 128, 40960, 1e6, true},
    {"qwen3-4b", "qwen3", 151936, 2560, 9728, 36, 32, 8, 128, 40960, 1e6, true},
    {"qwen3-8b", "qwen3", 151936, 4096, 12288, 36, 32, 8, 128, 40960, 1e6, false},
    {"qwen3-32b", "qwen3", 151936, 5120, 25600, 64, 64, 8, 128, 40960, 1e6, false},
}};

}  // namespace

std::vector<std::string> shape_names() {
  std::vector<std::string> names;
  names.reserve(kShapes.size());
  for (const ModelShape& shape : kShapes) names.emplace_back(shape.name);
  return names;
}

LanguageConfig shape_config(const std::string& name, DType dtype) {
  const auto shape = std::ranges::find_if(kShapes, [&](const ModelShape& s) { return name == s.name; });
  INGOT_CHECK(shape != kShapes.end(), InvalidConfig("--shape", "is not one of shape_names(): " + name));
  LanguageConfig c;
  c.dtype = dtype;
  c.model_type = shape->model_type;
  apply_family(c);
  c.vocab_size = shape->vocab;
  c.hidden_size = shape->hidden;
  c.intermediate_size = shape->intermediate;
  c.num_hidden_layers = shape->layers;
  c.num_attention_heads = shape->heads;
  c.num_key_value_heads = shape->kv_heads;
  c.head_dim = shape->head_dim;
  c.max_position_embeddings = shape->positions;
  c.rope_theta = shape->rope_theta;
  c.tie_word_embeddings = shape->tied;
  return c;
}

}  // namespace ingot::benchmark
