#include "ingot/infer/sentence_gguf.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/ops/cast.h"
#include "ingot/weights/gguf.h"
#include "ingot/weights/open.h"

namespace ingot {
namespace {

constexpr std::pair<Pooling, std::uint32_t> kPoolingTypes[] = {
    {Pooling::mean, 1}, {Pooling::cls, 2}, {Pooling::last, 3}};

std::string key(const char* name) { return std::string("ingot.sentence.") + name; }

Pooling read_pooling(const GgufMetadata& metadata, const std::string& path) {
  const std::string name = metadata.text("general.architecture").value_or("") + ".pooling_type";
  const std::int64_t kind = metadata.integer(name).value_or(0);
  if (kind == 0 || kind == kRankPooling) return Pooling::mean;  // none; a classifier pools by itself
  for (const auto& [pooling, number] : kPoolingTypes) {
    if (kind == number) return pooling;
  }
  throw NotImplemented(
      fmt::format("{}: {} is {}; expected 0 to 4 (none, mean, cls, last, rank)", path, name, kind));
}

}  // namespace

std::uint32_t gguf_pooling_type(const SentenceConfig& config, const std::string& place) {
  for (const auto& [pooling, number] : kPoolingTypes) {
    if (config.poolings == std::vector{pooling}) return number;
  }
  throw NotImplemented(fmt::format("{}: the pooling {}{} in a GGUF file (mean, cls and last are)", place,
                                   config.poolings.empty() ? "" : name(config.poolings.front()),
                                   config.poolings.size() > 1 ? " with others" : ""));
}

namespace {

constexpr const char* kDense[] = {"dense_2", "dense_3"};

// A file says whether vectors have length 1 at the end, and not between modules.
void check_normalize_is_last(const std::vector<SentenceStage>& stages, const std::string& place) {
  const auto is_normalize = [](const SentenceStage& s) { return s.kind == SentenceStage::Kind::normalize; };
  const auto first = std::ranges::find_if(stages, is_normalize);
  INGOT_CHECK(std::all_of(first, stages.end(), is_normalize),
              NotImplemented(place + ": a Normalize module before another one in a GGUF file (the last one "
                                     "may be)"));
}

// llama.cpp's gemma-embedding has two matrices behind the pooling: from hidden_size, and back to it.
std::vector<GgufTensor> write_dense(const std::vector<SentenceStage>& stages, const std::string& place,
                                    GgufMetadata& metadata) {
  check_normalize_is_last(stages, place);
  const std::string architecture = metadata.text("general.architecture").value_or("");
  std::int64_t width = metadata.integer(architecture + ".embedding_length").value_or(0);
  const std::int64_t hidden = width;
  std::vector<GgufTensor> tensors;
  for (const SentenceStage& stage : stages) {
    if (stage.kind == SentenceStage::Kind::normalize) continue;
    const auto weights = open_weights(stage.path);
    const std::string weight = stage.tensor + ".weight";
    const bool plain = architecture == "gemma-embedding" && stage.kind == SentenceStage::Kind::dense &&
                       stage.activation == "Identity" && tensors.size() < std::size(kDense) &&
                       weights->is_available(weight) && !weights->is_available(stage.tensor + ".bias") &&
                       !weights->is_available("residual.weight");
    INGOT_CHECK(plain, NotImplemented(place + ": a Dense or LayerNorm module in a GGUF file, which has no "
                                              "place for it (Pooling, Normalize, and two Dense modules of "
                                              "an EmbeddingGemma without bias and activation are)"));
    const Tensor matrix = to(weights->load_tensor(weight), DType::f32);
    const std::string name = kDense[tensors.size()];
    for (const auto& [end, axis] : {std::pair{"in", 1}, {"out", 0}})
      metadata.set(fmt::format("{}.{}_feat_{}", architecture, name, end),
                   GgufValue::of_u32(static_cast<std::uint32_t>(matrix.dim(axis))));
    tensors.push_back(GgufTensor::of(StoredTensor::of(name + ".weight", matrix)));
    width = matrix.dim(0);
  }
  INGOT_CHECK(tensors.empty() || (tensors.size() == std::size(kDense) && width == hidden),
              NotImplemented(fmt::format("{}: {} Dense modules that end with {} numbers in a GGUF file "
                                         "(two that end with hidden_size {} are)",
                                         place, tensors.size(), width, hidden)));
  return tensors;
}

}  // namespace

std::vector<GgufTensor> write_sentence_fields(const SentenceConfig& config, const std::string& place,
                                              GgufMetadata& metadata) {
  std::vector<GgufTensor> dense = write_dense(config.stages, place, metadata);
  metadata.set(key("normalize"), GgufValue::of_bool(config.normalizes()));
  if (config.lowercase) metadata.set(key("lowercase"), GgufValue::of_bool(true));
  if (!config.include_prompt) metadata.set(key("include_prompt"), GgufValue::of_bool(false));
  if (config.max_seq_length)
    metadata.set(key("max_length"), GgufValue::of_u32(static_cast<std::uint32_t>(*config.max_seq_length)));
  if (config.prompts.empty()) return dense;
  std::vector<std::string> names, texts;
  for (const auto& [each, text] : config.prompts) {
    names.push_back(each);
    texts.push_back(text);
  }
  metadata.set(key("prompt_names"), GgufValue::of_strings(std::move(names)));
  metadata.set(key("prompts"), GgufValue::of_strings(std::move(texts)));
  if (!config.default_prompt.empty())
    metadata.set(key("default_prompt"), GgufValue::of_string(config.default_prompt));
  return dense;
}

SentenceConfig read_sentence_gguf(const std::string& path) {
  const auto source = open_gguf(path);
  const GgufMetadata& metadata = source->fields();
  SentenceConfig config{.encoder = path};
  config.poolings = {read_pooling(metadata, path)};
  for (const char* name : kDense)
    if (source->is_available(fmt::format("{}.weight", name)))
      config.stages.push_back({.kind = SentenceStage::Kind::dense, .path = path, .tensor = name});
  if (metadata.boolean(key("normalize")).value_or(false))
    config.stages.push_back({.kind = SentenceStage::Kind::normalize});
  config.lowercase = metadata.boolean(key("lowercase")).value_or(false);
  config.include_prompt = metadata.boolean(key("include_prompt")).value_or(true);
  config.max_seq_length = metadata.integer(key("max_length"));
  const auto *names = metadata.texts(key("prompt_names")), *texts = metadata.texts(key("prompts"));
  if (names != nullptr && texts != nullptr) {
    for (std::size_t i = 0; i < std::min(names->size(), texts->size()); ++i)
      config.prompts[(*names)[i]] = (*texts)[i];
  }
  config.default_prompt = metadata.text(key("default_prompt")).value_or("");
  INGOT_CHECK(config.default_prompt.empty() || config.prompts.contains(config.default_prompt),
              FormatError(path, -1, key("default_prompt"), "is not one of the prompts"));
  return config;
}

}  // namespace ingot
