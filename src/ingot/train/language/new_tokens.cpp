#include "ingot/train/language/new_tokens.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "ingot/base/log.h"
#include "ingot/models/language/decoder.h"
#include "ingot/models/open_tokenizer.h"
#include "ingot/train/language/dataset.h"
#include "ingot/train/language/language_trainer.h"

namespace ingot {

std::vector<std::int64_t> new_token_ids(const TrainConfig& config, const text::Tokenizer& tokenizer) {
  const std::string path = tokenizer_path(config);
  if (config.samples.new_tokens.empty() || path.empty()) return {};
  const text::Tokenizer before = open_tokenizer(path);
  std::set<std::int64_t> ids;
  for (const auto& [token, special] : config.samples.new_tokens)
    if (const auto id = tokenizer.token_to_id(token); id && !before.token_to_id(token)) ids.insert(*id);
  return {ids.begin(), ids.end()};
}

void train_new_tokens(TrainConfig& config, const text::Tokenizer& tokenizer, bool tells) {
  const std::vector<std::int64_t> ids = new_token_ids(config, tokenizer);
  if (ids.empty() || config.from_scratch) return;
  if (tells)
    log(LogLevel::info, "ingot::train",
        fmt::format("{} new {}, ids {} to {}", ids.size(), ids.size() == 1 ? "token" : "tokens", ids.front(),
                    ids.back()));
  for (const auto& [name, token] : config.samples.special_tokens)
    if (const auto id = tokenizer.token_to_id(token); tells && id && std::ranges::count(ids, *id) > 0)
      log(LogLevel::warn, "ingot::train",
          fmt::format(
              "special_tokens.{}: '{}' is not in the vocabulary; it is added, and nothing but this run's "
              "data teaches it",
              name, token));
  if (!config.adapter.enabled) return;
  config.adapter.tokens = tokenizer.vocab_size();
  LoraConfig& lora = config.adapter.lora;
  const LanguageConfig model = planned_architecture(config);
  const WeightMap map = LanguageModel::weight_map(model);
  // A head that is not there takes none.
  for (const std::string table : {"model.embed_tokens", "lm_head"}) {
    const std::string theirs = map.rule_for(table + ".weight").theirs;
    const std::string module = theirs.substr(0, theirs.rfind('.'));
    if (!lora.saves(module)) lora.trainable_token_indices[module] = ids;
  }
}

LanguageConfig with_new_tokens(LanguageConfig model, const TrainConfig& config,
                               const text::Tokenizer& tokenizer) {
  if (!new_token_ids(config, tokenizer).empty() || config.adapter.tokens > 0)
    model.vocab_size = std::max<std::int64_t>(model.vocab_size, tokenizer.vocab_size());
  return model;
}

LanguageConfig plan_new_tokens(TrainConfig& config) {
  LanguageConfig model = planned_architecture(config);
  if (config.from_scratch || config.samples.new_tokens.empty()) return model;
  const text::Tokenizer tokenizer = run_tokenizer(config);
  train_new_tokens(config, tokenizer, /*tells=*/false);
  return with_new_tokens(std::move(model), config, tokenizer);
}

}  // namespace ingot
