#include "ingot/text/bpe_trainer.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <queue>

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/base/utf8.h"
#include "ingot/text/bpe.h"
#include "ingot/text/byte_level.h"
#include "ingot/text/json_write.h"
#include "ingot/text/pair_map.h"
#include "ingot/text/pre_tokenizer.h"
#include "ingot/text/regex.h"
#include "ingot/text/tokenizer_spec.h"

namespace ingot::text {

namespace {

/// The different words of the texts and how often each occurs, in order of first appearance.
struct WordCounts {
  Vocabulary words;
  std::vector<std::int64_t> counts;

  void add(std::string_view word) {
    if (word.empty()) return;
    std::int32_t index = words.find(word);
    if (index < 0) {
      index = words.size();
      words.add(word, index);
      counts.push_back(0);
    }
    ++counts[static_cast<std::size_t>(index)];
  }
};

/// Calls piece(text) for the pieces that the pattern makes of valid UTF-8, and for each ill-formed run.
void count_words(const Regex& pattern, std::string_view text, WordCounts& out) {
  for (std::size_t i = 0; i < text.size();) {
    std::size_t end = i;
    const bool valid = next_utf8(text, i).valid;
    for (Utf8Step step; end < text.size(); end += step.length) {
      step = next_utf8(text, end);
      if (step.valid != valid) break;
    }
    const std::string_view run = text.substr(i, end - i);
    i = end;
    if (!valid) {
      out.add(run);
      continue;
    }
    std::size_t done = 0;
    pattern.for_each_match(run, [&](std::size_t b, std::size_t e) {
      out.add(run.substr(done, b - done));
      out.add(run.substr(b, e - b));
      done = e;
    });
    out.add(run.substr(done));
  }
}

/// A pair that waits to be merged, with the words that held it when it was put into the queue. `count` may be
/// out of date (too high); it is put right when the entry comes to the top.
struct Entry {
  std::int64_t count;
  Pair pair;
  std::uint32_t words;  // index into word_lists
};

struct LessUrgent {
  bool operator()(const Entry& a, const Entry& b) const {
    return a.count != b.count ? a.count < b.count : b.pair < a.pair;
  }
};

class Trainer {
 public:
  Trainer(const BpeTrainerConfig& config, const WordCounts& words) : config_(config), counts_(words.counts) {
    start_vocabulary();
    start_words(words);
    count_pairs();
  }

  void run() {
    while (vocabulary_.size() < config_.vocab_size && !queue_.empty()) {
      Entry top = queue_.top();
      queue_.pop();
      const std::int64_t count = pair_counts_.find(top.pair)->count;
      if (top.count != count) {
        top.count = count;
        queue_.push(top);
        continue;
      }
      if (count < std::max<std::int64_t>(1, config_.min_frequency)) break;
      merge(top);
      if (config_.progress && vocabulary_.size() % 64 == 0)
        config_.progress(vocabulary_.size(), config_.vocab_size);
    }
    if (config_.progress) config_.progress(vocabulary_.size(), config_.vocab_size);
  }

  Vocabulary vocabulary_;
  MergeTable merges_;

 private:
  struct PairState {
    std::int64_t count = 0;
    std::uint32_t list = kNoList;  // of words gained since the pair was last queued
  };
  static constexpr std::uint32_t kNoList = 0xFFFFFFFF;

  void start_vocabulary() {
    std::int32_t next = 0;
    const auto add = [&](std::string_view token, std::int32_t length) {
      if (vocabulary_.add(token, next) != Vocabulary::Added::yes) return;
      lengths_.push_back(length);
      ++next;
    };
    for (const std::string& token : config_.special_tokens) add(token, 1);
    std::array<int, 256> bytes{};
    std::iota(bytes.begin(), bytes.end(), 0);
    const auto character = [](int b) { return byte_to_char(static_cast<unsigned char>(b)); };
    std::sort(bytes.begin(), bytes.end(), [&](int a, int b) { return character(a) < character(b); });
    for (const int b : bytes) {
      std::string token;
      append_utf8(token, character(b));
      add(token, 1);
      byte_ids_[static_cast<std::size_t>(b)] = vocabulary_.find(token);
    }
  }

  void start_words(const WordCounts& words) {
    for (std::int32_t i = 0; i < words.words.size(); ++i) {
      starts_.push_back(symbols_.size());
      for (const char b : words.words.token(i)) symbols_.push_back(byte_ids_[static_cast<unsigned char>(b)]);
      sizes_.push_back(static_cast<std::uint32_t>(symbols_.size() - starts_.back()));
    }
  }

  void change(Pair pair, std::int64_t by, std::uint32_t word) {
    PairState& state = pair_counts_.find_or_insert(pair, {});
    state.count += by;
    if (by <= 0) return;
    if (state.list == kNoList) {
      state.list = static_cast<std::uint32_t>(word_lists_.size());
      word_lists_.emplace_back();
      touched_.push_back(pair);
    }
    auto& list = word_lists_[state.list];
    if (list.empty() || list.back() != word) list.push_back(word);
  }

  void queue_touched() {
    for (const Pair pair : touched_) {
      PairState& state = *pair_counts_.find(pair);
      if (state.count > 0) queue_.push({state.count, pair, state.list});
      state.list = kNoList;
    }
    touched_.clear();
  }

  void count_pairs() {
    for (std::uint32_t w = 0; w < sizes_.size(); ++w) {
      const std::int32_t* word = symbols_.data() + starts_[w];
      for (std::uint32_t i = 0; i + 1 < sizes_[w]; ++i) change({word[i], word[i + 1]}, counts_[w], w);
    }
    queue_touched();
  }

  void merge(const Entry& top) {
    const std::string token =
        std::string(vocabulary_.token(top.pair.left)) + std::string(vocabulary_.token(top.pair.right));
    std::int32_t id = vocabulary_.find(token);
    if (id < 0) {  // two different pairs can make the same token
      id = vocabulary_.size();
      vocabulary_.add(token, id);
      lengths_.push_back(length(top.pair.left) + length(top.pair.right));
    }
    merges_.find_or_insert(top.pair, {}) = {rank_++, id};
    for (const std::uint32_t word : word_lists_[top.words]) merge_in(word, top.pair, id);
    word_lists_[top.words] = {};
    queue_touched();
  }

  std::int32_t length(std::int32_t id) const { return lengths_[static_cast<std::size_t>(id)]; }
  bool fits(std::int32_t left, std::int32_t right) const {
    return !config_.max_token_length || length(left) + length(right) < *config_.max_token_length;
  }

  void merge_in(std::uint32_t w, Pair pair, std::int32_t id) {
    std::int32_t* word = symbols_.data() + starts_[w];
    const std::uint32_t size = sizes_[w];
    const std::int64_t count = counts_[w];
    std::uint32_t out = 0;
    for (std::uint32_t i = 0; i < size; ++out) {
      if (word[i] != pair.left || i + 1 >= size || word[i + 1] != pair.right) {
        word[out] = word[i++];
        continue;
      }
      if (out > 0) {
        change({word[out - 1], pair.left}, -count, w);
        if (fits(word[out - 1], id)) change({word[out - 1], id}, count, w);
      }
      if (i + 2 < size) {
        change({pair.right, word[i + 2]}, -count, w);
        if (fits(word[i + 2], id)) change({id, word[i + 2]}, count, w);
      }
      word[out] = id;
      i += 2;
    }
    sizes_[w] = out;
  }

  const BpeTrainerConfig& config_;
  const std::vector<std::int64_t>& counts_;
  std::array<std::int32_t, 256> byte_ids_{};
  std::vector<std::int32_t> lengths_;  // of tokens, in bytes
  std::vector<std::int32_t> symbols_;  // of all words, one after the other
  std::vector<std::size_t> starts_;
  std::vector<std::uint32_t> sizes_;
  PairMap<PairState> pair_counts_;
  std::vector<std::vector<std::uint32_t>> word_lists_;
  std::vector<Pair> touched_;
  std::priority_queue<Entry, std::vector<Entry>, LessUrgent> queue_;
  std::int32_t rank_ = 0;
};

}  // namespace

void BpeTrainerConfig::validate() const {
  const auto least = static_cast<std::int64_t>(256 + special_tokens.size());
  INGOT_CHECK(
      vocab_size >= least,
      InvalidConfig("vocab_size", fmt::format("{} is too small: 256 bytes and {} special tokens need {}",
                                              vocab_size, special_tokens.size(), least)));
  INGOT_CHECK(min_frequency >= 0,
              InvalidConfig("min_frequency", fmt::format("{} is negative", min_frequency)));
  INGOT_CHECK(
      !max_token_length || *max_token_length > 0,
      InvalidConfig("max_token_length", fmt::format("{} is not positive", max_token_length.value_or(0))));
  for (const std::string& token : special_tokens)
    INGOT_CHECK(!token.empty() && is_valid_utf8(token),
                InvalidConfig("special_tokens", "a special token is empty or not UTF-8"));
}

Tokenizer train_bpe(const BpeTrainerConfig& config, std::span<const std::string_view> texts) {
  config.validate();
  WordCounts words;
  const Regex pattern(config.pattern.empty() ? kGpt2Pattern : config.pattern.c_str(), "pattern");
  for (const std::string_view text : texts) count_words(pattern, text, words);

  Trainer trainer(config, words);
  trainer.run();

  TokenizerSpec spec;
  for (const std::string& token : config.special_tokens) {
    AddedToken added;
    added.id = trainer.vocabulary_.find(token);
    added.content = token;
    added.special = true;
    spec.added_tokens.push_back(std::move(added));
  }
  const std::string byte_level =
      R"({{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": {}}})";
  if (config.pattern.empty())
    spec.pre_tokenizer = fmt::format(fmt::runtime(byte_level), true);
  else
    spec.pre_tokenizer = fmt::format(
        R"({{"type": "Sequence", "pretokenizers": [{{"type": "Split", "pattern": {{"Regex": {}}},)"
        R"( "behavior": "Isolated", "invert": false}}, {}]}})",
        json_string(config.pattern), fmt::format(fmt::runtime(byte_level), false));
  spec.post_processor = fmt::format(fmt::runtime(byte_level), true);
  spec.decoder = spec.post_processor;
  if (!config.special_tokens.empty()) {
    const std::string& token = config.special_tokens.front();
    spec.config.bos_token = spec.config.eos_token = spec.config.unk_token = token;
  }
  spec.model =
      std::make_shared<BpeModel>(std::move(trainer.vocabulary_), std::move(trainer.merges_), BpeOptions{});
  return Tokenizer(std::move(spec));
}

Tokenizer train_bpe(const BpeTrainerConfig& config, std::string_view text) {
  return train_bpe(config, std::span(&text, 1));
}

}  // namespace ingot::text
