#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ingot/base/files.h"

namespace ingot::data {

/// Tokens [begin, end) of a store.
struct TokenRange {
  std::int64_t begin = 0, end = 0;
  std::int64_t size() const { return end - begin; }
  bool operator==(const TokenRange&) const = default;
};

/// The tokens of a data set, document after document: mapped from a file or in memory. Immutable.
class TokenStore {
 public:
  /// In memory. `document_ends` are positions after each document's last token, ascending to tokens.size().
  /// `trained`: for each token whether it is learned; empty: all are.
  TokenStore(std::vector<std::int32_t> tokens, std::vector<std::int64_t> document_ends,
             std::int64_t vocab_size, std::string key = {}, const std::vector<bool>& trained = {});
  /// Maps a file that TokenFileWriter made and checks all of it: lengths, SHA-256, ids below vocab_size,
  /// documents in order. FormatError otherwise.
  static TokenStore open(const std::string& path);

  TokenStore(TokenStore&&) noexcept = default;
  TokenStore& operator=(TokenStore&&) noexcept = default;

  std::int64_t size() const { return size_; }
  std::int64_t documents() const { return static_cast<std::int64_t>(document_ends_.size()); }
  TokenRange document(std::int64_t i) const {
    const auto at = static_cast<std::size_t>(i);
    return {at == 0 ? 0 : document_ends_[at - 1], document_ends_[at]};
  }
  /// Copies tokens [begin, begin + out.size()).
  void read(std::int64_t begin, std::span<std::int32_t> out) const;
  void read(std::int64_t begin, std::span<std::int64_t> out) const;
  std::int32_t at(std::int64_t i) const { return narrow_ != nullptr ? narrow_[i] : wide_[i]; }

  /// Whether some tokens are only read, as the questions of a chat are, and not learned.
  bool masked() const { return mask_ != nullptr; }
  /// Whether a model learns to predict token `i`.
  bool trained(std::int64_t i) const {
    return mask_ == nullptr || ((mask_[i / 8] >> static_cast<unsigned>(i % 8)) & 1U) != 0;
  }

  /// Of the tokenizer that made the tokens.
  std::int64_t vocab_size() const { return vocab_size_; }
  std::int32_t max_token() const { return max_token_; }
  /// Identifies the content: what the tokens were made from, or their hash.
  const std::string& key() const { return key_; }

 private:
  TokenStore() = default;
  template <class T>
  void read_as(std::int64_t begin, std::span<T> out) const;

  MappedFile file_;
  std::vector<std::int32_t> memory_;
  const std::uint16_t* narrow_ = nullptr;  // one of the two is set
  const std::int32_t* wide_ = nullptr;
  std::vector<std::uint8_t> memory_mask_;
  const std::uint8_t* mask_ = nullptr;  // a bit for each token
  std::int64_t size_ = 0;
  std::span<const std::int64_t> document_ends_;
  std::vector<std::int64_t> memory_ends_;
  std::int64_t vocab_size_ = 0;
  std::int32_t max_token_ = -1;
  std::string key_;
};

/// InvalidConfig where the tokens do not fit a model of `model_vocab_size` rows of embeddings.
void check_vocabulary(const TokenStore& store, std::int64_t model_vocab_size);

/// Writes a token file: tokens (2 bytes each where the vocabulary allows, else 4), document ends, a bit for
/// each token where some are not trained, and a trailer with counts, key and SHA-256. The trailer comes last
/// because the counts are known last.
class TokenFileWriter {
 public:
  TokenFileWriter(FileWriter& out, std::int64_t vocab_size);
  ~TokenFileWriter();
  /// `trained`: for each token whether it is learned; empty: all are.
  void add_document(std::span<const std::int32_t> tokens, const std::vector<bool>& trained = {});
  /// `key`: up to 64 characters.
  void finish(const std::string& key);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// SHA-256 over the SHA-256s of 4 MiB pieces, which several threads can make; as hexadecimal digits.
std::string tree_hash(std::span<const std::byte> bytes);

}  // namespace ingot::data
