#include "ingot/train/language/dataset.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <optional>
#include <set>
#include <span>
#include <unordered_set>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "ingot/base/error.h"
#include "ingot/base/hash.h"
#include "ingot/base/log.h"
#include "ingot/base/shuffle.h"
#include "ingot/data/record.h"
#include "ingot/data/samples.h"
#include "ingot/data/token_cache.h"
#include "ingot/data/tokenizer_encoder.h"
#include "ingot/models/adapter/use_adapters.h"
#include "ingot/models/open_tokenizer.h"
#include "ingot/text/bpe_trainer.h"

namespace ingot {
namespace {

void warn(const std::string& text) {
  if (!text.empty()) log(LogLevel::warn, "ingot::data", text);
}

data::SourceOptions source_options(const DatasetConfig& dataset) {
  data::SourceOptions options;
  options.paths = {dataset.path};
  if (!dataset.data_files.empty()) options.paths.clear();
  for (const std::string& file : dataset.data_files) {
    const std::string below = dataset.path + "/" + file;
    options.paths.push_back(std::filesystem::exists(below) ? below : file);
  }
  options.records = dataset.kind != DatasetKind::automatic && dataset.kind != DatasetKind::text;
  options.format = dataset.format;
  options.text_field = dataset.text_field;
  options.invalid_utf8 = data::InvalidUtf8::stray;
  options.encoding = dataset.encoding;
  return options;
}

// The first record of a source; nothing where it is text.
std::optional<nlohmann::ordered_json> first_record(const DatasetConfig& dataset,
                                                   data::SourceOptions& options) {
  std::vector<data::SourceFile> files;
  try {
    files = data::list_files(options);
  } catch (const IoError&) {
    if (!std::filesystem::is_directory(dataset.path)) throw;
    options.records = true;  // no text in this directory: tables, then, or JSON
    files = data::list_files(options);
  }
  // A data set of the Hub is a README.md beside Parquet files.
  const auto holds_rows = [](const data::SourceFile& file) {
    return file.format == data::SourceFormat::parquet || file.format == data::SourceFormat::arrow;
  };
  if (!options.records && std::ranges::any_of(files, holds_rows)) {
    options.records = true;
    files = data::list_files(options);
  }
  if (files.front().format == data::SourceFormat::text) return std::nullopt;
  const auto is_record = [&](const data::Record& record) {
    return dataset.chat.found_in(record) || record.json.contains(dataset.text_field);
  };
  std::optional<nlohmann::ordered_json> first;
  try {
    data::for_each_record(options, files, is_record,
                          [&](const data::Record& record, const data::RecordLocation&) {
                            first = record.json;
                            return false;
                          });
  } catch (const FormatError& error) {
    if (error.field != "records") throw;  // plain text
  }
  return first;
}

// A data set whose kind is known: that of its first record, where it is not named.
DatasetConfig with_kind(DatasetConfig dataset) {
  if (dataset.kind != DatasetKind::automatic) return dataset;
  data::SourceOptions options = source_options(dataset);
  const std::optional<nlohmann::ordered_json> record = first_record(dataset, options);
  dataset.kind = DatasetKind::text;
  if (!record || record->contains(dataset.text_field)) return dataset;
  if (dataset.chat.found_in(*record)) {
    dataset.kind = DatasetKind::chat;
    return dataset;
  }
  for (const std::string& name : data::instruction_formats()) {
    dataset.instruction = *data::instruction_format(name);
    if (!dataset.instruction.found_in(*record)) continue;
    dataset.kind = DatasetKind::instruction;
    return dataset;
  }
  std::vector<std::string> keys;
  for (const auto& [key, value] : record->items()) keys.push_back(key);
  INGOT_CHECK(
      !record->contains("chosen"),
      InvalidConfig("datasets.type", fmt::format("{} holds preferences (chosen, rejected), which need "
                                                 "an objective: set rl, as in rl: dpo",
                                                 dataset.path)));
  throw InvalidConfig(
      "datasets.type",
      fmt::format(
          "what the records of {} are cannot be seen from their members: {}. Set type: text with text_field, "
          "chat_template with field_messages, or alpaca and its kin, or a mapping with field_instruction and "
          "field_output",
          dataset.path, fmt::join(keys, ", ")));
}

// One data set as documents.
struct Loaded {
  std::shared_ptr<const data::TokenStore> store;
  bool samples = false;
  bool reused = false;
};

data::SampleEncoder sample_encoder(const DatasetConfig& dataset, const text::Tokenizer& tokenizer,
                                   std::optional<data::PreferenceKind> preferences) {
  if (dataset.kind == DatasetKind::instruction)
    return data::instruction_encoder(tokenizer, dataset.instruction, dataset.training.train_on_inputs);
  const std::string& source =
      dataset.chat_template.empty() ? tokenizer.config().chat_template : dataset.chat_template;
  if (preferences)
    return data::preference_encoder(tokenizer, source, dataset.preference, *preferences,
                                    dataset.training.variables);
  return data::chat_encoder(tokenizer, source, dataset.chat, dataset.training);
}

void tell(const DatasetConfig& dataset, const data::SampleReport& report) {
  warn(report.cache.left_out);
  if (report.all_masked > 0)
    warn(fmt::format("{}: {} samples are left out: every token of theirs is masked", dataset.path,
                     report.all_masked));
  if (report.unterminated > 0)
    warn(fmt::format(
        "{}: in {} of {} samples no token that ends a turn is trained, so the model does not learn to "
        "stop; eot_tokens names what ends a turn in this template",
        dataset.path, report.unterminated, report.samples));
}

Loaded load_dataset(const TrainConfig& config, const DatasetConfig& given, const text::Tokenizer& tokenizer) {
  const data::TokenCacheOptions cache{.directory = config.cache_dir.empty() ? config.output_dir + "/cache"
                                                                            : config.cache_dir};
  const DatasetConfig dataset = with_kind(given);
  if (dataset.kind == DatasetKind::text) {
    data::TokenCacheReport report;
    auto store = data::load_tokens(source_options(dataset), data::encoder_of(tokenizer), cache, &report);
    warn(report.left_out);
    return {std::move(store), false, report.reused};
  }
  data::SampleReport report;
  auto store = data::load_samples(
      source_options(dataset), sample_encoder(dataset, tokenizer, config.samples.preferences), cache, report);
  tell(dataset, report);
  return {std::move(store), true, report.cache.reused};
}

// All documents of several stores as one, so that shuffling mixes them.
std::shared_ptr<const data::TokenStore> joined(const std::vector<Loaded>& parts, std::int64_t vocab_size) {
  std::vector<std::int32_t> tokens;
  std::vector<std::int64_t> ends;
  std::vector<bool> trained;
  std::string key;
  bool masked = false;
  for (const Loaded& part : parts) {
    const auto base = static_cast<std::int64_t>(tokens.size());
    tokens.resize(tokens.size() + static_cast<std::size_t>(part.store->size()));
    part.store->read(0, std::span(tokens).subspan(static_cast<std::size_t>(base)));
    for (std::int64_t i = 0; i < part.store->documents(); ++i)
      ends.push_back(base + part.store->document(i).end);
    for (std::int64_t i = 0; i < part.store->size(); ++i) trained.push_back(part.store->trained(i));
    masked = masked || part.store->masked();
    key += part.store->key();
  }
  if (!masked) trained.clear();
  return std::make_shared<data::TokenStore>(std::move(tokens), std::move(ends), vocab_size,
                                            sha256_hex(std::string_view(key)), trained);
}

// Where texts stand beside samples, which are never cut, those of more than a sequence go in pieces.
void cut_texts(data::DocumentSet& set, const std::vector<Loaded>& parts, std::int64_t length) {
  std::vector<data::TokenRange> documents;
  std::int64_t base = 0;
  std::size_t at = 0;
  for (const Loaded& part : parts) {
    base += part.store->size();
    for (; at < set.documents.size() && set.documents[at].end <= base; ++at) {
      data::TokenRange rest = set.documents[at];
      for (; !part.samples && rest.size() > length; rest.begin += length)
        documents.push_back({rest.begin, rest.begin + length});
      documents.push_back(rest);
    }
  }
  set.documents = std::move(documents);
}

// Documents [first, last) of a store as a store of their own.
std::shared_ptr<const data::TokenStore> part_of(const data::TokenStore& store, std::int64_t first,
                                                std::int64_t last) {
  const std::int64_t begin = first == store.documents() ? store.size() : store.document(first).begin;
  const std::int64_t end = last == first ? begin : store.document(last - 1).end;
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(end - begin));
  store.read(begin, tokens);
  std::vector<std::int64_t> ends;
  for (std::int64_t i = first; i < last; ++i) ends.push_back(store.document(i).end - begin);
  std::vector<bool> trained;
  for (std::int64_t i = begin; store.masked() && i < end; ++i) trained.push_back(store.trained(i));
  return std::make_shared<data::TokenStore>(std::move(tokens), std::move(ends), store.vocab_size(),
                                            sha256_hex(fmt::format("{} {} {}", store.key(), first, last)),
                                            trained);
}

// Leaves out what is too short, and what is there already.
void filter_samples(data::DocumentSet& set, const SampleConfig& samples) {
  if (!set.samples || (samples.min_length == 0 && !samples.drop_duplicates)) return;
  std::unordered_set<std::string> seen;
  const std::size_t before = set.documents.size();
  std::erase_if(set.documents, [&](const data::TokenRange& range) {
    if (range.size() < samples.min_length) return true;
    if (!samples.drop_duplicates) return false;
    std::vector<std::int32_t> tokens(static_cast<std::size_t>(range.size()));
    set.store->read(range.begin, tokens);
    return !seen.insert(sha256_hex(std::as_bytes(std::span(tokens)))).second;
  });
  INGOT_CHECK(!set.documents.empty(),
              InvalidConfig("min_sample_length",
                            fmt::format("is {}, and every sample is shorter", samples.min_length)));
  if (set.documents.size() < before)
    warn(fmt::format("{} samples are left out: shorter than min_sample_length, or the same as an earlier one",
                     before - set.documents.size()));
}

data::DocumentSet load_documents(const TrainConfig& config, const std::vector<DatasetConfig>& datasets,
                                 const text::Tokenizer& tokenizer, bool& reused) {
  std::vector<Loaded> parts;
  bool samples = false;
  reused = true;
  for (const DatasetConfig& dataset : datasets) {
    parts.push_back(load_dataset(config, dataset, tokenizer));
    Loaded& part = parts.back();
    if (dataset.slice) {
      const auto [first, last] = dataset.slice->of(part.store->documents());
      INGOT_CHECK(first < last,
                  InvalidConfig("datasets.split", fmt::format("takes none of the {} documents of {}",
                                                              part.store->documents(), dataset.path)));
      part.store = part_of(*part.store, first, last);
    }
    samples = samples || parts.back().samples;
    reused = reused && parts.back().reused;
  }
  data::DocumentSet set =
      data::DocumentSet::all(parts.size() == 1 ? parts.front().store : joined(parts, tokenizer.vocab_size()));
  set.samples = samples;
  if (samples) cut_texts(set, parts, config.sequence_len);
  filter_samples(set, config.samples);
  return set;
}

void tell_too_long(const data::PackedSequences& sequences, const data::PackingOptions& options) {
  if (sequences.too_long() == 0) return;
  warn(fmt::format(
      "sequence_len: {} samples are longer than {} tokens and are {} (excess_length_strategy: {})",
      sequences.too_long(), options.sequence_length,
      options.excess_length == data::ExcessLength::drop ? "left out" : "cut off",
      name(options.excess_length)));
}

// Leaves out preferences that a sequence does not hold, or, where they are cut off, whose prompt leaves no
// tokens for an answer. Gives how many are too long.
std::int64_t fit_preferences(data::DocumentSet& set, const TrainConfig& config) {
  const data::PreferenceKind kind = *config.samples.preferences;
  std::int64_t too_long = 0, longest = 0;
  const bool cuts = config.samples.excess_length == data::ExcessLength::truncate;
  std::erase_if(set.documents, [&](const data::TokenRange& range) {
    const data::Preference row = data::read_preference(*set.store, range, kind);
    if (row.longest() <= config.sequence_len) return false;
    ++too_long;
    longest = std::max(longest, row.longest());
    const std::int64_t prompt = std::max(row.chosen.prompt, row.rejected ? row.rejected->prompt : 0);
    return !cuts || prompt >= config.sequence_len;
  });
  if (too_long == 0) return 0;
  INGOT_CHECK(config.samples.excess_length != data::ExcessLength::raise && !set.documents.empty(),
              InvalidConfig("sequence_len",
                            fmt::format("is {}, but {} preferences are longer, the longest of {} tokens; "
                                        "raise it, or set excess_length_strategy to drop or truncate",
                                        config.sequence_len, too_long, longest)));
  warn(fmt::format(
      "sequence_len: {} preferences are longer than {} tokens and are {} "
      "(excess_length_strategy: {})",
      too_long, config.sequence_len, cuts ? "cut off" : "left out", name(config.samples.excess_length)));
  return too_long;
}

// Prompts that leave tokens for an answer.
std::vector<data::Prompt> load_all_prompts(const TrainConfig& config,
                                           const std::vector<DatasetConfig>& datasets,
                                           const text::Tokenizer& tokenizer) {
  std::vector<data::Prompt> all;
  for (const DatasetConfig& dataset : datasets) {
    const std::string& source =
        dataset.chat_template.empty() ? tokenizer.config().chat_template : dataset.chat_template;
    std::vector<data::Prompt> prompts = data::load_prompts(source_options(dataset), tokenizer, source,
                                                           dataset.preference, dataset.training.variables);
    if (dataset.slice) {
      const auto [first, last] = dataset.slice->of(std::ssize(prompts));
      prompts = {prompts.begin() + first, prompts.begin() + last};
    }
    std::ranges::move(prompts, std::back_inserter(all));
  }
  const std::int64_t most = config.sequence_len - config.objective.grpo.max_completion_length;
  const auto too_long = std::erase_if(all, [&](const auto& p) { return std::ssize(p.tokens) > most; });
  if (too_long > 0)
    warn(
        fmt::format("sequence_len: {} prompts are left out: they have more than the {} tokens that "
                    "trl.max_completion_length leaves",
                    too_long, most));
  INGOT_CHECK(!all.empty(),
              InvalidConfig("sequence_len", fmt::format("no prompt has at most {} tokens", most)));
  return all;
}

TrainingData prepare_prompts(const TrainConfig& config, const text::Tokenizer& tokenizer) {
  TrainingData result;
  result.prompts = load_all_prompts(config, config.datasets, tokenizer);
  if (!config.validation_datasets.empty()) {
    result.validation_prompts = load_all_prompts(config, config.validation_datasets, tokenizer);
    return result;
  }
  const auto apart =
      static_cast<std::size_t>(config.validation_split_ratio * static_cast<double>(result.prompts.size()));
  const Permutation order(result.prompts.size(), config.seed, ~std::uint64_t{0});
  std::vector<bool> chosen(result.prompts.size());
  for (std::size_t i = 0; i < apart; ++i) chosen[order(i)] = true;
  std::vector<data::Prompt> train;
  for (std::size_t i = 0; i < chosen.size(); ++i)
    (chosen[i] ? result.validation_prompts : train).push_back(std::move(result.prompts[i]));
  result.prompts = std::move(train);
  return result;
}

}  // namespace

std::int32_t TrainingData::max_token() const {
  if (train_documents.store != nullptr) return train_documents.store->max_token();
  std::int32_t most = 0;
  for (const data::Prompt& prompt : prompts) most = std::max(most, std::ranges::max(prompt.tokens));
  return most;
}

std::string TrainingData::fingerprint() const {
  std::set<std::string> parts;
  for (const auto* documents : {&train_documents, &validation_documents})
    if (documents->store != nullptr) parts.insert(documents->store->key());
  for (const auto* some : {&prompts, &validation_prompts})
    for (const data::Prompt& prompt : *some) parts.insert(prompt.text + "\n" + prompt.record);
  std::string all;
  for (const std::string& part : parts) all += part + "\n";
  return sha256_hex(all);
}

void check_data_paths(const TrainConfig& config) {
  for (const auto* datasets : {&config.datasets, &config.validation_datasets}) {
    for (const DatasetConfig& dataset : *datasets) {
      if (dataset.kind == DatasetKind::automatic)
        static_cast<void>(with_kind(dataset));
      else
        static_cast<void>(data::list_files(source_options(dataset)));
    }
  }
}

text::Tokenizer with_settings(const text::Tokenizer& before, const SampleConfig& samples) {
  const text::Tokenizer tokenizer =
      samples.new_tokens.empty() ? before : before.with_tokens(samples.new_tokens);
  text::TokenizerConfig config = tokenizer.config();
  if (!samples.chat_template.empty() && (!samples.keep_tokenizers_template || config.chat_template.empty()))
    config.chat_template = samples.chat_template;
  for (const auto& [name, token] : samples.special_tokens) {
    if (!tokenizer.token_to_id(token).has_value()) continue;  // a pad token
    (name == "bos_token"   ? config.bos_token
     : name == "eos_token" ? config.eos_token
     : name == "pad_token" ? config.pad_token
                           : config.unk_token) = token;
  }
  return tokenizer.with_config(config);
}

text::Tokenizer train_tokenizer(const TrainConfig& config) {
  std::vector<std::string> documents;
  for (const DatasetConfig& dataset : config.datasets) {
    INGOT_CHECK(
        with_kind(dataset).kind == DatasetKind::text,
        InvalidConfig("tokenizer", fmt::format("is missing, and one cannot be trained on the chats or "
                                               "instructions of {}; name a tokenizer",
                                               dataset.path)));
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

std::string tokenizer_path(const TrainConfig& config) {
  if (!config.tokenizer.empty()) return config.tokenizer;
  return config.from_scratch ? "" : config.model;
}

text::Tokenizer run_tokenizer(const TrainConfig& config) {
  const std::string path = tokenizer_path(config);
  if (path.empty()) return with_settings(train_tokenizer(config), config.samples);
  // The adapter that a run goes on from may have more tokens than its base.
  std::vector<AdapterChoice> adapters;
  if (config.adapter.enabled && !config.adapter.start_from.empty() && config.tokenizer.empty())
    adapters.push_back({.path = config.adapter.start_from});
  return with_settings(open_tokenizer(path, adapters), config.samples);
}

TrainingData prepare_data(const TrainConfig& config, const text::Tokenizer& tokenizer) {
  if (config.samples.prompts) return prepare_prompts(config, tokenizer);
  TrainingData result;
  data::DocumentSet all = load_documents(config, config.datasets, tokenizer, result.reused_cache);
  if (config.validation_datasets.empty()) {
    data::TrainValidation parts = data::split_documents(all, config.validation_split_ratio, config.seed);
    result.train_documents = std::move(parts.train);
    result.validation_documents = std::move(parts.validation);
  } else {
    result.train_documents = std::move(all);
    bool reused = false;
    result.validation_documents = load_documents(config, config.validation_datasets, tokenizer, reused);
  }
  if (config.samples.preferences) {
    result.preferences = config.samples.preferences;
    result.too_long = fit_preferences(result.train_documents, config);
    if (!result.validation_documents.documents.empty())
      result.too_long += fit_preferences(result.validation_documents, config);
    return result;
  }
  data::PackingOptions packing;
  packing.sequence_length = config.sequence_len;
  packing.packing = !config.sample_packing           ? data::Packing::none
                    : result.train_documents.samples ? data::Packing::best_fit
                                                     : data::Packing::continuous;
  packing.pad_id = tokenizer.pad_id().value_or(tokenizer.eos_id().value_or(0));
  packing.excess_length = config.samples.excess_length;
  result.train = std::make_shared<data::PackedSequences>(result.train_documents, packing);
  tell_too_long(*result.train, packing);
  if (!result.validation_documents.documents.empty()) {
    // A small validation set must not fail because it is shorter than a sequence: it is padded instead.
    if (packing.packing == data::Packing::continuous &&
        (result.validation_documents.samples || result.validation_documents.tokens() < config.sequence_len))
      packing.packing = data::Packing::best_fit;
    result.validation = std::make_shared<data::PackedSequences>(result.validation_documents, packing);
  }
  return result;
}

}  // namespace ingot
