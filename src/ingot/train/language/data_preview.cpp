#include "ingot/train/language/data_preview.h"

#include <algorithm>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_set>

namespace ingot {
namespace {

std::vector<std::int32_t> tokens_of(const data::TokenStore& store, data::TokenRange range) {
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(range.size()));
  store.read(range.begin, tokens);
  return tokens;
}

template <class Trained>
PreviewSample show(const std::vector<std::int32_t>& tokens, const Trained& is_trained,
                   const text::Tokenizer& tokenizer) {
  const auto count = static_cast<std::int64_t>(tokens.size());
  PreviewSample sample{.tokens = count};
  std::size_t written = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const bool trained = is_trained(i);
    sample.trained_tokens += trained ? 1 : 0;
    if (i + 1 < count && is_trained(i + 1) == trained) continue;
    // Tokens are decoded with those before them: a tokenizer may write a space between two.
    const std::string all = tokenizer.decode(std::span(tokens).first(static_cast<std::size_t>(i) + 1), false);
    sample.pieces.push_back({all.substr(std::min(written, all.size())), trained});
    written = all.size();
  }
  return sample;
}

PreviewSample show_answer(const data::PromptedAnswer& answer, const char* role,
                          const text::Tokenizer& tokenizer) {
  PreviewSample sample = show(
      answer.tokens, [&](std::int64_t i) { return i >= answer.prompt; }, tokenizer);
  sample.role = role;
  return sample;
}

// Both answers of a pair, or the one.
void show_preference(const data::Preference& row, const text::Tokenizer& tokenizer,
                     std::vector<PreviewSample>& samples) {
  if (row.rejected) {
    samples.push_back(show_answer(row.chosen, "chosen", tokenizer));
    samples.push_back(show_answer(*row.rejected, "rejected", tokenizer));
  } else {
    samples.push_back(show_answer(row.chosen, row.desirable ? "desirable" : "undesirable", tokenizer));
  }
}

class Counter {
 public:
  void add(const data::DocumentSet& set, std::optional<data::PreferenceKind> preferences) {
    for (const data::TokenRange& range : set.documents) {
      const std::vector<std::int32_t> tokens = tokens_of(*set.store, range);
      const std::string_view bytes(reinterpret_cast<const char*>(tokens.data()),
                                   tokens.size() * sizeof(std::int32_t));
      if (!seen_.insert(std::hash<std::string_view>()(bytes)).second) ++duplicates_;
      lengths_.push_back(preferences ? data::read_preference(*set.store, range, *preferences).longest()
                                     : range.size());
      for (std::int64_t i = range.begin; i < range.end; ++i) trained_ += set.store->trained(i) ? 1 : 0;
    }
  }

  void tell(DataPreview& preview) {
    std::ranges::sort(lengths_);
    preview.duplicates = duplicates_;
    preview.trained_tokens = trained_;
    if (lengths_.empty()) return;
    const auto at = [&](double share) {
      return lengths_[static_cast<std::size_t>(share * static_cast<double>(lengths_.size() - 1))];
    };
    preview.shortest = lengths_.front();
    preview.median = at(0.5);
    preview.nine_of_ten = at(0.9);
    preview.longest = lengths_.back();
  }

 private:
  std::unordered_set<std::size_t> seen_;
  std::vector<std::int64_t> lengths_;
  std::int64_t duplicates_ = 0, trained_ = 0;
};

// Prompts, of which nothing is learned: the model's own answers are.
DataPreview preview_prompts(const TrainingData& data, std::int64_t count) {
  DataPreview preview{.train_samples = std::ssize(data.prompts),
                      .validation_samples = std::ssize(data.validation_prompts)};
  std::vector<std::int64_t> lengths;
  lengths.reserve(data.prompts.size());
  for (const data::Prompt& prompt : data.prompts) {
    lengths.push_back(std::ssize(prompt.tokens));
    preview.tokens += lengths.back();
  }
  for (std::int64_t i = 0; i < std::min(count, preview.train_samples); ++i) {
    const data::Prompt& prompt = data.prompts[static_cast<std::size_t>(i)];
    preview.samples.push_back(
        {.role = "prompt", .pieces = {{prompt.text, false}}, .tokens = std::ssize(prompt.tokens)});
  }
  std::ranges::sort(lengths);
  preview.shortest = lengths.front();
  preview.median = lengths[lengths.size() / 2];
  preview.nine_of_ten = lengths[lengths.size() * 9 / 10];
  preview.longest = lengths.back();
  return preview;
}

}  // namespace

DataPreview preview_data(const TrainingData& data, const text::Tokenizer& tokenizer, std::int64_t count) {
  if (!data.prompts.empty()) return preview_prompts(data, count);
  const data::DocumentSet& train = data.train_documents;
  DataPreview preview{
      .train_samples = static_cast<std::int64_t>(train.documents.size()),
      .validation_samples = static_cast<std::int64_t>(data.validation_documents.documents.size()),
      .tokens = train.tokens() + data.validation_documents.tokens(),
      .too_long = data.too_long};
  if (data.train != nullptr) {
    preview.too_long = data.train->too_long() + (data.validation ? data.validation->too_long() : 0);
    preview.sequences = data.train->size();
    preview.sequence_length = data.train->sequence_length();
    preview.efficiency = static_cast<double>(data.train->tokens()) /
                         static_cast<double>(preview.sequences * preview.sequence_length);
  }
  Counter counter;
  counter.add(train, data.preferences);
  if (!data.validation_documents.documents.empty()) counter.add(data.validation_documents, data.preferences);
  counter.tell(preview);
  const std::int64_t shown = std::min(count, preview.train_samples);
  for (std::int64_t i = 0; i < shown; ++i) {
    const auto at = static_cast<std::size_t>(i * preview.train_samples / shown);
    data::TokenRange range = train.documents[at];
    if (data.preferences) {
      show_preference(data::read_preference(*train.store, range, *data.preferences), tokenizer,
                      preview.samples);
      continue;
    }
    range.end = std::min(range.end, range.begin + preview.sequence_length);  // of a long text
    preview.samples.push_back(show(
        tokens_of(*train.store, range),
        [&](std::int64_t token) { return train.store->trained(range.begin + token); }, tokenizer));
  }
  return preview;
}

}  // namespace ingot
