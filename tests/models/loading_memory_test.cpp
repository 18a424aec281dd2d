// What loading a checkpoint takes while its matrices are rounded.
#include <cstddef>
#include <string>

#include "tests/support/temporary_directory.h"
#include <gtest/gtest.h>

#include "ingot/core/backend.h"
#include "ingot/models/language/model_directory.h"
#include "ingot/nn/linear_weight.h"
#include "ingot/nn/param_source.h"
#include "ingot/nn/visit.h"
#include "ingot/quant/packed_matrix.h"

namespace ingot {
namespace {

LanguageConfig several_layers() {
  LanguageConfig c;
  c.model_type = "llama";
  c.vocab_size = 2048;
  c.hidden_size = 768;
  c.intermediate_size = 2304;
  c.num_hidden_layers = 12;
  c.num_attention_heads = 12;
  c.num_key_value_heads = 6;
  c.dtype = DType::bf16;
  apply_family(c);
  c.validate();
  return c;
}

// Elements of a layer's matrices.
std::size_t layer_elements(const LanguageConfig& c) {
  const auto width = static_cast<std::size_t>(c.hidden_size),
             inner = static_cast<std::size_t>(c.intermediate_size);
  return width * width * 3 + 3 * width * inner;
}

// A checkpoint of some 170 MB in bf16: rounded all at once, it would take twice that in f32.
TEST(LoadingMemory, RoundingTakesThePackedModelAndNoMoreThanALayerBeside) {
  const test::TemporaryDirectory directory;
  const LanguageConfig config = several_layers();
  {
    InitSource source(1, DType::bf16);
    LanguageModel model(config, source);
    write_language_model(directory.path(), model.config, parameter_map(model));
  }
  MemoryTracker& memory = backend(kCpu).memory();
  for (const std::string format : {"nf4", "q4_k"}) {
    backend(kCpu).trim();
    const std::size_t before = memory.allocated();
    memory.reset_peak();
    LoadOptions options{.dtype = DType::bf16, .device = kCpu, .copy = false, .trainable = false};
    options.keep_quantized = true;
    options.format = format;
    const auto model = load_language_model(directory.path(), options);
    const std::size_t peak = memory.peak() - before, held = memory.allocated() - before;
    std::size_t packed = 0;
    for (const auto& [name, weight] : named_weights(*model))
      if (weight->is_quantized()) packed += weight->packed->nbytes();
    EXPECT_GT(packed, layer_elements(config) * 4) << format;
    EXPECT_LE(packed, held) << format;
    EXPECT_LE(peak, held + layer_elements(config) * sizeof(float)) << format;
  }
}

}  // namespace
}  // namespace ingot
