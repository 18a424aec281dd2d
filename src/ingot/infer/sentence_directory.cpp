#include "ingot/infer/sentence_directory.h"

#include <cstdint>
#include <filesystem>
#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/base/files.h"
#include "ingot/base/json.h"
#include "ingot/infer/sentence_config.h"
#include "ingot/infer/sentence_gguf.h"
#include "ingot/ops/cast.h"
#include "ingot/weights/gguf.h"
#include "ingot/weights/open.h"
#include "ingot/weights/safetensors_writer.h"

namespace ingot {
namespace {

using Json = nlohmann::ordered_json;

void write_json(const std::string& path, const Json& json) {
  write_file_atomically(path, dump_json(json, 2) + "\n");
}

void write_pooling(const SentenceConfig& config, std::int64_t width, const std::string& directory) {
  Json json{{"word_embedding_dimension", width}, {"include_prompt", config.include_prompt}};
  for (const auto& [pooling, flag] : {std::pair{Pooling::mean, "pooling_mode_mean_tokens"},
                                      {Pooling::cls, "pooling_mode_cls_token"},
                                      {Pooling::last, "pooling_mode_lasttoken"}})
    json[flag] = config.poolings.front() == pooling;
  write_json(directory + "/config.json", json);
}

void write_dense(const SentenceStage& stage, std::optional<DType> dtype, const std::string& directory) {
  const Tensor stored = open_weights(stage.path)->load_tensor(stage.tensor + ".weight");
  const Tensor weight = dtype ? to(stored, *dtype) : stored;
  write_json(directory + "/config.json", {{"in_features", weight.dim(1)},
                                          {"out_features", weight.dim(0)},
                                          {"bias", false},
                                          {"activation_function", "torch.nn.modules.linear.Identity"}});
  write_safetensors(directory + "/model.safetensors", {{"linear.weight", weight}});
}

}  // namespace

std::uint64_t sentence_module_bytes(const std::string& gguf, std::optional<DType> dtype) {
  std::uint64_t bytes = 0;
  for (const SentenceStage& stage : read_sentence_gguf(gguf).stages) {
    if (stage.kind != SentenceStage::Kind::dense) continue;
    const auto weights = open_weights(stage.path);
    const TensorInfo& weight = weights->get_metadata(stage.tensor + ".weight");
    const std::optional<DType> written = dtype ? dtype : weight.dtype;
    bytes += written ? static_cast<std::uint64_t>(weight.numel()) * byte_size(*written) : weight.bytes;
  }
  return bytes;
}

void write_sentence_modules(const std::string& gguf, const std::string& directory,
                            std::optional<DType> dtype) {
  const auto source = open_gguf(gguf);
  const GgufMetadata& metadata = source->fields();
  const SentenceConfig config = read_sentence_gguf(gguf);
  const std::string architecture = metadata.text("general.architecture").value_or("");
  const std::int64_t pooling = metadata.integer(architecture + ".pooling_type").value_or(0);
  if (pooling == kRankPooling || (pooling == 0 && config.stages.empty())) return;
  Json modules = Json::array();
  // Returns the module's directory.
  const auto add = [&](const std::string& kind) {
    const std::size_t number = modules.size();
    const std::string place = number == 0 ? "" : fmt::format("{}_{}", number, kind);
    modules.push_back({{"idx", number},
                       {"name", std::to_string(number)},
                       {"path", place},
                       {"type", "sentence_transformers.models." + kind}});
    std::filesystem::create_directories(directory + "/" + place);
    return directory + "/" + place;
  };
  add("Transformer");
  write_pooling(config, metadata.integer(architecture + ".embedding_length").value_or(0), add("Pooling"));
  for (const SentenceStage& stage : config.stages) {
    if (stage.kind == SentenceStage::Kind::dense)
      write_dense(stage, dtype, add("Dense"));
    else
      add("Normalize");
  }
  write_json(directory + "/modules.json", modules);
  Json limits{{"do_lower_case", config.lowercase}};
  if (config.max_seq_length) limits["max_seq_length"] = *config.max_seq_length;
  write_json(directory + "/sentence_bert_config.json", limits);
  Json prompts{{"prompts", config.prompts}, {"default_prompt_name", nullptr}};
  if (!config.default_prompt.empty()) prompts["default_prompt_name"] = config.default_prompt;
  write_json(directory + "/config_sentence_transformers.json", prompts);
}

}  // namespace ingot
