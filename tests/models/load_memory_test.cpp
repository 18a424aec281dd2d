// A load holds the model and one tensor more, whatever is done to the tensors on their way: what is mapped of
// a file goes again once its values stand elsewhere.
#include <algorithm>
#include <ostream>

#include "tests/support/peak_memory.h"
#include "tests/support/temporary_directory.h"
#include <gtest/gtest.h>

#include "ingot/models/language/gguf_export.h"
#include "ingot/models/language/model_directory.h"
#include "ingot/nn/visit.h"
#include "ingot/ops/cast.h"
#include "ingot/quant/block_format.h"
#include "ingot/weights/encode.h"
#include "ingot/weights/safetensors_writer.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;  // what a process holds is then mostly the sanitizer's
#else
constexpr bool kSanitized = false;
#endif

namespace ingot {
namespace {

using test::TemporaryDirectory;

// 30 M parameters; the largest tensor has 4 M.
constexpr const char* kLlama = R"({"model_type": "llama", "vocab_size": 8192, "hidden_size": 512,
  "intermediate_size": 1536, "num_hidden_layers": 6, "num_attention_heads": 8, "num_key_value_heads": 4,
  "max_position_embeddings": 128, "tie_word_embeddings": false})";
constexpr const char* kGpt2 = R"({"model_type": "gpt2", "vocab_size": 8192, "n_embd": 512, "n_layer": 6,
  "n_head": 8, "n_positions": 128})";
// 23 M parameters; experts are stored one by one, 0.3 M each, and stacked into tensors of 1 M.
constexpr const char* kMixtral = R"({"model_type": "mixtral", "vocab_size": 2048, "hidden_size": 256,
  "intermediate_size": 1024, "num_hidden_layers": 6, "num_attention_heads": 4, "num_key_value_heads": 4,
  "num_local_experts": 4, "num_experts_per_tok": 2, "max_position_embeddings": 128})";

// For what is not a tensor, and for tensors that are small.
constexpr std::int64_t kRest = std::int64_t{8} << 20;

struct Case {
  const char* name;
  const char* config;
  DType stored = DType::f32;
  const char* blocks = "";  // a GGUF file of this type
  LoadOptions options{};
};
std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.name; }

std::string write_model(const Case& c, const TemporaryDirectory& directory) {
  const LanguageConfig config = LanguageConfig::from_json(c.config, "config.json");
  InitSource init(1);
  LanguageModel model(config, init);
  std::map<std::string, Tensor> weights = parameter_map(model);
  for (auto& [name, tensor] : weights) tensor = to(tensor, c.stored);
  const std::string path = directory.at("model");
  write_language_model(path, config, weights);
  if (*c.blocks == '\0') return path;
  const GgufExport gguf = export_gguf(open_checkpoint(path));
  const auto encoded =
      encode_weights(gguf.weights, {.blocks = quant::find_block_format(c.blocks)}, /*vectors_as_f32=*/true);
  write_gguf(path + ".gguf", gguf.metadata, gguf_tensors(*encoded));
  return path + ".gguf";
}

class LoadMemory : public ::testing::TestWithParam<Case> {};

TEST_P(LoadMemory, PeaksAtTheModelAndOneTensor) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer's own memory hides the program's";
  const TemporaryDirectory directory;
  const std::string path = write_model(GetParam(), directory);
  const test::PeakMemory peak;
  const auto model = load_language_model(path, GetParam().options);
  const auto growth = peak.growth();
  if (!growth) GTEST_SKIP() << "this kernel does not tell how much memory a process held";
  std::int64_t whole = 0, largest = 0;  // the model, and its largest tensor in the file and as it is loaded
  for (const auto& [name, parameter] : named_parameters(*model)) {
    whole += static_cast<std::int64_t>(parameter->value.nbytes());
    const std::int64_t loaded = parameter->value.numel() * (*GetParam().blocks == '\0' ? 0 : 4);
    largest =
        std::max(largest, std::max<std::int64_t>(loaded, parameter->value.nbytes()) + loaded * 34 / 128);
  }
  RecordProperty("model", std::to_string(whole));
  RecordProperty("growth", std::to_string(*growth));
  EXPECT_LE(*growth, whole + largest + kRest)
      << "the model has " << whole << " bytes, one tensor " << largest;
  EXPECT_GE(*growth, GetParam().options.copy ? whole : 0);
}

INSTANTIATE_TEST_SUITE_P(
    Loads, LoadMemory,
    ::testing::Values(Case{"mapped", kLlama, DType::f32, "", {.copy = false, .trainable = false}},
                      Case{"copied", kLlama}, Case{"widened", kLlama, DType::bf16, "", {.dtype = DType::f32}},
                      Case{"narrowed", kLlama, DType::f32, "", {.dtype = DType::bf16}},
                      Case{"transposed", kGpt2},
                      Case{"transposed_and_widened", kGpt2, DType::bf16, "", {.dtype = DType::f32}},
                      Case{"stacked_experts", kMixtral},
                      Case{"stacked_and_widened", kMixtral, DType::bf16, "", {.dtype = DType::f32}},
                      Case{"stacked_and_narrowed", kMixtral, DType::f32, "", {.dtype = DType::bf16}},
                      Case{"dequantized", kLlama, DType::f32, "Q8_0"},
                      Case{"dequantized_and_narrowed", kLlama, DType::f32, "Q8_0", {.dtype = DType::bf16}}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace ingot
