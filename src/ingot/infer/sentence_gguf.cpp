#include "ingot/infer/sentence_gguf.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/weights/gguf.h"

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

void write_sentence_fields(const SentenceConfig& config, const std::string& place, GgufMetadata& metadata) {
  const bool all_normalize = std::ranges::all_of(
      config.stages, [](const SentenceStage& stage) { return stage.kind == SentenceStage::Kind::normalize; });
  INGOT_CHECK(all_normalize,
              NotImplemented(place + ": a Dense or LayerNorm module in a GGUF file, which has no "
                                     "place for it (Pooling and Normalize are)"));
  metadata.set(key("normalize"), GgufValue::of_bool(config.normalizes()));
  if (config.lowercase) metadata.set(key("lowercase"), GgufValue::of_bool(true));
  if (!config.include_prompt) metadata.set(key("include_prompt"), GgufValue::of_bool(false));
  if (config.max_seq_length)
    metadata.set(key("max_length"), GgufValue::of_u32(static_cast<std::uint32_t>(*config.max_seq_length)));
  if (config.prompts.empty()) return;
  std::vector<std::string> names, texts;
  for (const auto& [each, text] : config.prompts) {
    names.push_back(each);
    texts.push_back(text);
  }
  metadata.set(key("prompt_names"), GgufValue::of_strings(std::move(names)));
  metadata.set(key("prompts"), GgufValue::of_strings(std::move(texts)));
  if (!config.default_prompt.empty())
    metadata.set(key("default_prompt"), GgufValue::of_string(config.default_prompt));
}

SentenceConfig read_sentence_gguf(const std::string& path) {
  const auto source = open_gguf(path);
  const GgufMetadata& metadata = source->fields();
  SentenceConfig config{.encoder = path};
  config.poolings = {read_pooling(metadata, path)};
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
