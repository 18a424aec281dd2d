#include "ingot/infer/word_tokens.h"

#include <algorithm>

namespace ingot::infer {
namespace {

constexpr text::EncodeOptions kPlain{.add_special_tokens = false};

// Where `token` ends with a proper beginning of `breaker`: how long that is; each such position.
std::vector<std::size_t> begun_lengths(std::string_view token, std::string_view breaker) {
  std::vector<std::size_t> lengths;
  for (std::size_t length = 1; length < breaker.size() && length <= token.size(); ++length)
    if (token.ends_with(breaker.substr(0, length))) lengths.push_back(length);
  return lengths;
}

}  // namespace

std::vector<TokenSequence> word_sequences(const text::Tokenizer& tokenizer,
                                          std::span<const std::string> words) {
  std::vector<TokenSequence> sequences;
  for (const std::string& word : words) {
    const std::string bare = word.substr(std::min(word.size(), word.find_first_not_of(' ')));
    TokenSequence plain = tokenizer.encode(bare, kPlain), behind_space = tokenizer.encode(" " + bare, kPlain);
    if (plain.empty()) continue;
    // A space of its own in front, which says nothing of the word.
    const bool another =
        !behind_space.empty() && behind_space.front() != plain.front() && behind_space.size() == plain.size();
    sequences.push_back(std::move(plain));
    if (another) sequences.push_back(std::move(behind_space));
  }
  return sequences;
}

std::vector<TokenSequence> breaker_sequences(const text::Tokenizer& tokenizer,
                                             std::span<const std::string> breakers) {
  std::vector<TokenSequence> sequences;
  for (std::int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    const std::string text = tokenizer.decode_bytes({&id, 1}, false);
    for (const std::string& breaker : breakers) {
      if (breaker.empty()) continue;
      if (text.find(breaker) != std::string::npos) {
        sequences.push_back({id});
        continue;
      }
      for (const std::size_t length : begun_lengths(text, breaker)) {
        TokenSequence sequence = tokenizer.encode(breaker.substr(length), kPlain);
        sequence.insert(sequence.begin(), id);
        sequences.push_back(std::move(sequence));
      }
    }
  }
  return sequences;
}

}  // namespace ingot::infer
