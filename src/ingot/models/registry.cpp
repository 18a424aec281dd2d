#include "ingot/models/registry.h"

#include <algorithm>
#include <array>
#include <filesystem>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/base/suggest.h"
#include "ingot/models/config_file.h"
#include "ingot/models/encoder/bert.h"
#include "ingot/models/language/decoder.h"

namespace ingot {
namespace {

using enum ModelTask;

const std::vector<ModelInfo>& rows() {
  static const std::vector<ModelInfo> kRows{
      {.name = "llama",
       .summary = "Llama 1 to 3.3, and the many models of its layout",
       .architectures = {"LlamaForCausalLM"},
       .variants = {"tied or own head", "attention and MLP biases", "every RoPE scaling"},
       .repositories = {"meta-llama/Llama-2-7b-hf", "meta-llama/Llama-3.1-8B", "meta-llama/Llama-3.2-1B",
                        "HuggingFaceTB/SmolLM2-135M", "TinyLlama/TinyLlama-1.1B-Chat-v1.0"},
       .tasks = {generate, train}},
      {.name = "mistral",
       .summary = "Mistral 7B and its kin",
       .architectures = {"MistralForCausalLM"},
       .variants = {"sliding window or none", "heads of any size"},
       .repositories = {"mistralai/Mistral-7B-v0.1", "mistralai/Mistral-7B-Instruct-v0.3",
                        "mistralai/Mistral-Nemo-Base-2407"},
       .tasks = {generate, train}},
      {.name = "qwen2",
       .summary = "Qwen 2 and 2.5",
       .architectures = {"Qwen2ForCausalLM"},
       .variants = {"tied or own head", "sliding upper layers", "YaRN"},
       .repositories = {"Qwen/Qwen2-0.5B", "Qwen/Qwen2.5-0.5B-Instruct", "Qwen/Qwen2.5-Coder-7B"},
       .tasks = {generate, train}},
      {.name = "qwen3",
       .summary = "Qwen 3, dense",
       .architectures = {"Qwen3ForCausalLM"},
       .variants = {"tied or own head", "attention biases"},
       .repositories = {"Qwen/Qwen3-0.6B", "Qwen/Qwen3-8B"},
       .tasks = {generate, train}},
      {.name = "qwen3_moe",
       .summary = "Qwen 3, mixture of experts",
       .architectures = {"Qwen3MoeForCausalLM"},
       .variants = {"normalised or plain router weights", "dense layers between"},
       .repositories = {"Qwen/Qwen3-30B-A3B"},
       .tasks = {generate, train}},
      {.name = "mixtral",
       .summary = "Mixtral, mixture of experts",
       .architectures = {"MixtralForCausalLM"},
       .variants = {"sliding window or none"},
       .repositories = {"mistralai/Mixtral-8x7B-v0.1", "mistralai/Mixtral-8x22B-v0.1"},
       .tasks = {generate, train}},
      {.name = "gemma",
       .summary = "Gemma, first generation",
       .architectures = {"GemmaForCausalLM"},
       .variants = {"multi-query or full heads"},
       .repositories = {"google/gemma-2b", "google/gemma-7b"},
       .tasks = {generate, train}},
      {.name = "gemma2",
       .summary = "Gemma 2: soft-capping, alternating sliding layers",
       .architectures = {"Gemma2ForCausalLM"},
       .variants = {"soft-caps on or off"},
       .repositories = {"google/gemma-2-2b", "google/gemma-2-9b-it"},
       .tasks = {generate, train}},
      {.name = "gemma3_text",
       .summary = "Gemma 3, its text part: local and global layers",
       .architectures = {"Gemma3ForCausalLM", "Gemma3ForConditionalGeneration"},
       .variants = {"text alone, or the text part of a model that also sees", "scaled global RoPE"},
       .repositories = {"google/gemma-3-270m", "google/gemma-3-1b-it", "google/gemma-3-4b-it"},
       .tasks = {generate, train}},
      {.name = "phi3",
       .summary = "Phi 3 and 3.5, Phi 4",
       .architectures = {"Phi3ForCausalLM"},
       .variants = {"fused query, key and value", "LongRoPE", "partial rotary heads"},
       .repositories = {"microsoft/Phi-3-mini-4k-instruct", "microsoft/Phi-3.5-mini-instruct",
                        "microsoft/phi-4", "microsoft/Phi-4-mini-instruct"},
       .tasks = {generate, train}},
      {.name = "gpt2",
       .summary = "GPT-2",
       .architectures = {"GPT2LMHeadModel"},
       .variants = {"fused query, key and value, transposed", "with or without the prefix transformer."},
       .repositories = {"openai-community/gpt2", "openai-community/gpt2-xl", "distilbert/distilgpt2"},
       .tasks = {generate, train}},
      {.name = "bert",
       .summary = "BERT, and sentence embeddings made with it",
       .architectures = {"BertModel", "BertForMaskedLM", "BertForPreTraining"},
       .variants = {"pooler", "masked-LM head", "legacy names gamma and beta",
                    "sentence-transformers directories"},
       .repositories = {"google-bert/bert-base-uncased", "sentence-transformers/all-MiniLM-L6-v2",
                        "sentence-transformers/all-MiniLM-L12-v2", "BAAI/bge-small-en-v1.5"},
       .tasks = {embed, masked_lm}},
  };
  return kRows;
}

std::vector<std::string> names_that_can(ModelTask task) {
  std::vector<std::string> names;
  for (const ModelInfo& info : rows()) {
    if (info.can(task)) names.push_back(info.name);
  }
  return names;
}

// A directory's config.json, and the family that it names; null where there is none of either.
struct OpenedConfig {
  const ModelInfo* info = nullptr;
  std::string text, path;
};

OpenedConfig open_config(const std::string& directory) {
  OpenedConfig opened{.path = directory + "/config.json"};
  if (!std::filesystem::exists(opened.path)) return opened;
  opened.text = read_file(opened.path);
  std::string type;
  ConfigFile(opened.text, opened.path).read("model_type", type);
  opened.info = find_model(type == "gemma3" ? "gemma3_text" : type);
  return opened;
}

}  // namespace

std::string_view name(ModelTask task) {
  static constexpr std::array<std::string_view, 6> kNames{"generate",  "train",    "embed",
                                                          "masked_lm", "forecast", "play"};
  return kNames.at(static_cast<std::size_t>(task));
}

bool ModelInfo::can(ModelTask task) const { return std::ranges::find(tasks, task) != tasks.end(); }

std::span<const ModelInfo> model_registry() { return rows(); }

const ModelInfo* find_model(std::string_view wanted) {
  const auto fits = [wanted](const ModelInfo& info) {
    return info.name == wanted || std::ranges::find(info.architectures, wanted) != info.architectures.end();
  };
  const auto found = std::ranges::find_if(rows(), fits);
  return found == rows().end() ? nullptr : &*found;
}

void throw_unsuitable_model(const std::string& model_type, ModelTask task, const std::string& where) {
  const std::vector<std::string> able = names_that_can(task);
  const std::string list = fmt::format("{}", fmt::join(able, ", "));
  if (const ModelInfo* info = find_model(model_type); info != nullptr && !info->can(task)) {
    std::vector<std::string_view> tasks;
    for (const ModelTask can : info->tasks) tasks.push_back(name(can));
    throw InvalidConfig(where, fmt::format("a '{}' model can {}, but not {}; these can: {}", model_type,
                                           fmt::join(tasks, " and "), name(task), list));
  }
  std::vector<std::string> all;
  for (const ModelInfo& info : rows()) {
    all.push_back(info.name);
    all.insert(all.end(), info.architectures.begin(), info.architectures.end());
  }
  throw InvalidConfig(where, fmt::format("model_type '{}' is not known{}; these can {}: {}", model_type,
                                         did_you_mean(model_type, all), name(task), list));
}

std::string describe_model(const std::string& directory) {
  const auto [info, text, path] = open_config(directory);
  if (info == nullptr) return {};
  if (info->can(embed)) {
    const EncoderConfig c = EncoderConfig::from_json(text, path);
    return fmt::format("{}, {} layers, width {}, {} heads, vocabulary {}, context {}", c.model_type,
                       c.num_hidden_layers, c.hidden_size, c.num_attention_heads, c.vocab_size,
                       c.max_position_embeddings);
  }
  if (!info->can(generate)) return {};
  const LanguageConfig c = LanguageConfig::from_json(text, path);
  std::string experts;
  if (c.num_experts > 0)
    experts = fmt::format(", {} experts ({} per token)", c.num_experts, c.num_experts_per_tok);
  return fmt::format("{}, {} layers, width {}, {} heads ({} for keys){}, vocabulary {}, context {}",
                     c.model_type, c.num_hidden_layers, c.hidden_size, c.num_attention_heads,
                     c.num_key_value_heads, experts, c.vocab_size, c.max_position_embeddings);
}

std::optional<ArchitectureReport> check_model(const std::string& directory, const WeightSource& weights) {
  const auto [info, text, path] = open_config(directory);
  if (info == nullptr) return std::nullopt;
  if (info->can(embed)) {
    return BertModel::architecture_check(with_heads_of(EncoderConfig::from_json(text, path), weights),
                                         weights);
  }
  if (!info->can(generate)) return std::nullopt;
  return LanguageModel::architecture_check(LanguageConfig::from_json(text, path), weights);
}

}  // namespace ingot
