#include "ingot/train/language/dataset.h"

#include <utility>
#include <vector>

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/base/hash.h"
#include "ingot/base/log.h"
#include "ingot/data/token_cache.h"
#include "ingot/data/tokenizer_encoder.h"
#include "ingot/text/bpe_trainer.h"

namespace ingot {
namespace {

data::SourceOptions source_options(const DatasetConfig& dataset) {
  data::SourceOptions options;
  options.paths = {dataset.path};
  options.text_field = dataset.text_field;
  options.invalid_utf8 = data::InvalidUtf8::stray;
  options.encoding = dataset.encoding;
  if (dataset.type == "text") options.format = data::SourceFormat::text;
  if (dataset.type == "jsonl") options.format = data::SourceFormat::jsonl;
  if (dataset.type == "json") options.format = data::SourceFormat::json;
  return options;
}

void tell_left_out(const data::TokenCacheReport& report) {
  if (!report.left_out.empty()) log(LogLevel::warn, "ingot::data", report.left_out);
}

// The documents of several data sets as one set: a single store, so that shuffling mixes them.
data::DocumentSet load_documents(const TrainConfig& config, const std::vector<DatasetConfig>& datasets,
                                 const data::TokenEncoder& encoder, bool& reused) {
  data::TokenCacheOptions cache;
  cache.directory = config.cache_dir.empty() ? config.output_dir + "/cache" : config.cache_dir;
  if (datasets.size() == 1) {
    data::TokenCacheReport report;
    auto store = data::load_tokens(source_options(datasets.front()), encoder, cache, &report);
    reused = report.reused;
    tell_left_out(report);
    return data::DocumentSet::all(std::move(store));
  }
  std::vector<std::int32_t> tokens;
  std::vector<std::int64_t> ends;
  std::string key;
  reused = true;
  for (const DatasetConfig& dataset : datasets) {
    data::TokenCacheReport report;
    const auto store = data::load_tokens(source_options(dataset), encoder, cache, &report);
    reused = reused && report.reused;
    tell_left_out(report);
    const std::size_t base = tokens.size();
    tokens.resize(base + static_cast<std::size_t>(store->size()));
    store->read(0, std::span(tokens).subspan(base));
    for (std::int64_t i = 0; i < store->documents(); ++i) {
      ends.push_back(static_cast<std::int64_t>(base) + store->document(i).end);
    }
    key += store->key();
  }
  return data::DocumentSet::all(std::make_shared<data::TokenStore>(
      std::move(tokens), std::move(ends), encoder.vocab_size, sha256_hex(std::string_view(key))));
}

}  // namespace

void check_data_paths(const TrainConfig& config) {
  for (const auto* datasets : {&config.datasets, &config.validation_datasets}) {
    for (const DatasetConfig& dataset : *datasets)
      static_cast<void>(data::list_files(source_options(dataset)));
  }
}

text::Tokenizer train_tokenizer(const TrainConfig& config) {
  std::vector<std::string> documents;
  for (const DatasetConfig& dataset : config.datasets) {
    data::for_each_document(source_options(dataset),
                            [&](std::string_view text) { documents.emplace_back(text); });
  }
  std::vector<std::string_view> texts(documents.begin(), documents.end());
  text::BpeTrainerConfig trainer;
  trainer.vocab_size = static_cast<std::int32_t>(config.vocab_size);
  trainer.special_tokens = {kEndOfText};
  text::Tokenizer tokenizer = text::train_bpe(trainer, texts);
  if (tokenizer.vocab_size() < config.vocab_size) {
    log(LogLevel::warn, "ingot::data",
        fmt::format(
            "vocab_size: {} tokens were asked for, but the text gives only {}, which the vocabulary now "
            "has; give more text, or ask for fewer",
            config.vocab_size, tokenizer.vocab_size()));
  }
  return tokenizer;
}

TrainingData prepare_data(const TrainConfig& config, const text::Tokenizer& tokenizer) {
  const data::TokenEncoder encoder = data::encoder_of(tokenizer);
  TrainingData result;
  data::DocumentSet all = load_documents(config, config.datasets, encoder, result.reused_cache);
  if (config.validation_datasets.empty()) {
    data::TrainValidation parts = data::split_documents(all, config.validation_split_ratio, config.seed);
    result.train_documents = std::move(parts.train);
    result.validation_documents = std::move(parts.validation);
  } else {
    result.train_documents = std::move(all);
    bool reused = false;
    result.validation_documents = load_documents(config, config.validation_datasets, encoder, reused);
  }
  data::PackingOptions packing;
  packing.sequence_length = config.sequence_len;
  packing.packing = config.sample_packing ? data::Packing::continuous : data::Packing::none;
  packing.pad_id = tokenizer.pad_id().value_or(tokenizer.eos_id().value_or(0));
  result.train = std::make_shared<data::PackedSequences>(result.train_documents, packing);
  if (!result.validation_documents.documents.empty()) {
    // A small validation set must not fail because it is shorter than a sequence: it is padded instead.
    if (result.validation_documents.tokens() < config.sequence_len) packing.packing = data::Packing::best_fit;
    result.validation = std::make_shared<data::PackedSequences>(result.validation_documents, packing);
  }
  return result;
}

}  // namespace ingot
