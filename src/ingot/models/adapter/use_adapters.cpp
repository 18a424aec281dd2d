#include "ingot/models/adapter/use_adapters.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <vector>

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/models/adapter/open_adapter.h"
#include "ingot/models/language/tensor_parallel.h"
#include "ingot/models/language/vocabulary.h"
#include "ingot/models/open_tokenizer.h"
#include "ingot/nn/adapter_launch.h"

namespace ingot {
AdapterChoice AdapterChoice::parse(std::string_view text, const std::string& option) {
  const std::size_t equals = text.rfind('=');
  if (equals == std::string_view::npos) return {.path = std::string(text)};
  AdapterChoice choice{.path = std::string(text.substr(0, equals))};
  const std::string_view number = text.substr(equals + 1);
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), choice.weight);
  INGOT_CHECK(error == std::errc() && end == number.data() + number.size() && std::isfinite(choice.weight),
              InvalidConfig(option, fmt::format("'{}' is not a number; write PATH=WEIGHT", number)));
  return choice;
}

NamedAdapter NamedAdapter::parse(std::string_view text, const std::string& option) {
  const std::size_t equals = text.find('=');
  INGOT_CHECK(equals != text.npos && equals > 0 && equals + 1 < text.size(),
              InvalidConfig(option, fmt::format("'{}' names no adapter; write NAME=PATH", text)));
  return {.name = std::string(text.substr(0, equals)), .path = std::string(text.substr(equals + 1))};
}

void use_adapters(LanguageModel& model, std::span<const AdapterChoice> adapters) {
  if (adapters.empty()) return;
  for (const AdapterChoice& adapter : adapters) grow_for_adapter(model, adapter.path);
  const LanguageConfig& config = model.part != nullptr ? model.part->whole_config() : model.config;
  const WeightMap map = LanguageModel::weight_map(config);
  AdaptedParts parts({model, map});
  for (AdaptedWeight& at : parts.weights)
    if (model.part != nullptr) at.part = model.part->part(at.ours + ".weight", at.weight->shape());
  for (AdaptedExperts& at : parts.experts)
    if (model.part != nullptr) at.part = model.part->part(at.ours, at.experts->shape());
  std::size_t number = 0;
  for (const AdapterChoice& adapter : adapters) {
    // One adapter may be given twice.
    put_on(open_adapter({.parts = parts, .map = map, .config = config}, adapter.path,
                        fmt::format("{}:{}", number++, adapter.path), adapter.weight));
  }
}

namespace {

// Tokens behind the base model's, from `first` on, must be the same ones in both.
void check_same_tokens(std::int32_t first, const std::string& path, const text::Tokenizer& tokens,
                       const std::string& other, const text::Tokenizer& others) {
  const std::int32_t end = std::min(tokens.vocab_size(), others.vocab_size());
  for (std::int32_t id = first; id < end; ++id)
    INGOT_CHECK(tokens.id_to_token(id) == others.id_to_token(id),
                InvalidConfig("adapter",
                              fmt::format("token {} is '{}' in {} and '{}' in {}; adapters that "
                                          "are used together have to be trained with the same "
                                          "new tokens, in one order",
                                          id, tokens.id_to_token(id), path, others.id_to_token(id), other)));
}

}  // namespace

text::Tokenizer open_tokenizer(const std::string& model, std::span<const AdapterChoice> adapters) {
  text::Tokenizer tokenizer = open_tokenizer(model);
  const std::int32_t first = tokenizer.vocab_size();
  std::string path = model;
  for (const AdapterChoice& adapter : adapters) {
    if (!is_peft_adapter(adapter.path) || !has_tokenizer(adapter.path)) continue;
    text::Tokenizer own = open_tokenizer(adapter.path);
    check_same_tokens(first, path, tokenizer, adapter.path, own);
    if (own.vocab_size() <= tokenizer.vocab_size()) continue;
    tokenizer = std::move(own);
    path = adapter.path;
  }
  return tokenizer;
}

void infer_with_adapters(LanguageModel& model, std::span<const AdapterChoice> adapters) {
  use_adapters(model, adapters);
  for (const auto& [name, weight] : named_weights(model))
    for (const auto& adapter : weight->adapters) prepare_for_inference(*adapter, *weight);
}

}  // namespace ingot
