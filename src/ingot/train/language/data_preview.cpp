#include "ingot/train/language/data_preview.h"

#include <algorithm>
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

PreviewSample show(const data::TokenStore& store, data::TokenRange range, const text::Tokenizer& tokenizer) {
  const std::vector<std::int32_t> tokens = tokens_of(store, range);
  PreviewSample sample{.tokens = range.size()};
  std::size_t written = 0;
  for (std::int64_t i = 0; i < range.size(); ++i) {
    const bool trained = store.trained(range.begin + i);
    sample.trained_tokens += trained ? 1 : 0;
    if (i + 1 < range.size() && store.trained(range.begin + i + 1) == trained) continue;
    // Tokens are decoded with those before them: a tokenizer may write a space between two.
    const std::string all = tokenizer.decode(std::span(tokens).first(static_cast<std::size_t>(i) + 1), false);
    sample.pieces.push_back({all.substr(std::min(written, all.size())), trained});
    written = all.size();
  }
  return sample;
}

class Counter {
 public:
  void add(const data::DocumentSet& set) {
    for (const data::TokenRange& range : set.documents) {
      const std::vector<std::int32_t> tokens = tokens_of(*set.store, range);
      const std::string_view bytes(reinterpret_cast<const char*>(tokens.data()),
                                   tokens.size() * sizeof(std::int32_t));
      if (!seen_.insert(std::hash<std::string_view>()(bytes)).second) ++duplicates_;
      lengths_.push_back(range.size());
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

}  // namespace

DataPreview preview_data(const TrainingData& data, const text::Tokenizer& tokenizer, std::int64_t count) {
  const data::DocumentSet& train = data.train_documents;
  DataPreview preview{
      .train_samples = static_cast<std::int64_t>(train.documents.size()),
      .validation_samples = static_cast<std::int64_t>(data.validation_documents.documents.size()),
      .tokens = train.tokens() + data.validation_documents.tokens(),
      .too_long = data.train->too_long() + (data.validation ? data.validation->too_long() : 0),
      .sequences = data.train->size(),
      .sequence_length = data.train->sequence_length()};
  preview.efficiency = static_cast<double>(data.train->tokens()) /
                       static_cast<double>(preview.sequences * preview.sequence_length);
  Counter counter;
  counter.add(train);
  if (data.validation) counter.add(data.validation_documents);
  counter.tell(preview);
  const std::int64_t shown = std::min(count, preview.train_samples);
  for (std::int64_t i = 0; i < shown; ++i) {
    const auto at = static_cast<std::size_t>(i * preview.train_samples / shown);
    data::TokenRange range = train.documents[at];
    range.end = std::min(range.end, range.begin + preview.sequence_length);  // of a long text
    preview.samples.push_back(show(*train.store, range, tokenizer));
  }
  return preview;
}

}  // namespace ingot
