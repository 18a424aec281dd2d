#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ingot/data/token_store.h"

namespace ingot::data {

/// The target of a token that has none; losses leave it out.
inline constexpr std::int32_t kNoTarget = -100;

/// Some documents, or pieces of documents, of a store.
struct DocumentSet {
  std::shared_ptr<const TokenStore> store;
  std::vector<TokenRange> documents;  ///< ascending, none empty, none shared
  bool samples = false;  ///< the documents are samples, such as chats, which are never cut in two

  /// All documents of a store.
  static DocumentSet all(std::shared_ptr<const TokenStore> store);
  std::int64_t tokens() const;
};

struct TrainValidation {
  DocumentSet train, validation;
};

/// Sets about `fraction` of the tokens apart, drawn by `seed`: whole documents, and of a long document
/// pieces. It does not depend on the sequence length. A fraction of 0 gives an empty validation set.
/// Samples are never cut. InvalidConfig unless 0 <= fraction < 1, or where there is too little data for both.
TrainValidation split_documents(const DocumentSet& all, double fraction, std::uint64_t seed);

enum class Packing : std::uint8_t {
  /// One document after another; one goes on in the next sequence where it meets a sequence's end. No padding
  /// but in the last sequence.
  continuous,
  /// A document that fits into a sequence is never cut; each goes where it leaves the fewest free tokens
  /// (best-fit
  /// decreasing: Ding et al. 2024, "Fewer truncations improve language modeling"). Little padding.
  best_fit,
  /// A document per sequence, long ones in pieces. Much padding.
  none,
};

/// What becomes of a sample that is longer than a sequence.
enum class ExcessLength : std::uint8_t { drop, truncate, raise };
std::string_view name(ExcessLength strategy);
/// InvalidConfig for excess_length_strategy otherwise.
ExcessLength parse_excess_length(std::string_view text);

/// "continuous", "best_fit", "none".
std::string_view name(Packing packing);
Packing parse_packing(std::string_view text);

struct PackingOptions {
  std::int64_t sequence_length = 0;
  Packing packing = Packing::continuous;
  std::int32_t pad_id = 0;
  ExcessLength excess_length =
      ExcessLength::drop;  ///< of samples; other documents go on in the next sequence

  void validate() const;
};

/// One sequence's four rows; each has sequence_length positions, or fewer where the sequence's tokens fit.
template <class T>
struct SequenceRows {
  std::span<T> tokens;
  /// The next token of the same document, also where that stands in another sequence; kNoTarget before a
  /// token that is not trained, after a document's last one and in padding.
  std::span<T> targets;
  /// 0, 1, 2, ... from the start of each document (or of the piece of it that stands here).
  std::span<T> positions;
  /// Index in this sequence of the first token that a token may attend to. Padding is a document of its own.
  std::span<T> doc_start;
};

/// Documents laid into sequences of one length. Every token stands in exactly one position; every trained
/// token but the first of each document is the target of exactly one position. Samples that are too long are
/// left out or cut off.
class PackedSequences {
 public:
  /// InvalidConfig where the documents hold fewer tokens than a sequence (continuous packing), or a sample is
  /// too long and may not be, or all are.
  PackedSequences(DocumentSet documents, const PackingOptions& options);

  std::int64_t size() const { return static_cast<std::int64_t>(first_segment_.size()) - 1; }
  std::int64_t sequence_length() const { return options_.sequence_length; }
  /// Tokens of the documents, without padding.
  std::int64_t tokens() const { return tokens_; }
  std::int64_t padding() const { return size() * sequence_length() - tokens_; }
  /// Tokens of sequence `index`, without padding.
  std::int64_t length(std::int64_t index) const;
  /// Whether no sequence holds pieces of several documents. Causal attention then needs no doc_start: padding
  /// stands behind the document, and no target depends on what it sees. (Only the balance loss of experts
  /// counts padding too, and changes with what that sees.)
  bool one_document_each() const { return size() == static_cast<std::int64_t>(segments_.size()); }
  /// Samples that were longer than a sequence.
  std::int64_t too_long() const { return too_long_; }
  const PackingOptions& options() const { return options_; }
  const DocumentSet& documents() const { return documents_; }
  /// Identifies the sequences: the store's content, the documents and the options.
  std::string fingerprint() const;

  /// Writes sequence `index`; returns how many targets it has.
  std::int64_t fill(std::int64_t index, const SequenceRows<std::int32_t>& rows) const;
  std::int64_t fill(std::int64_t index, const SequenceRows<std::int64_t>& rows) const;

 private:
  struct Segment {
    std::int64_t begin;
    std::int32_t length;
    bool continues;  // the document goes on after it, in another sequence
  };
  void fit_samples();
  void lay_continuous();
  void lay_best_fit();
  void lay_one_each();
  std::vector<Segment> pieces() const;
  template <class T>
  std::int64_t fill_as(std::int64_t index, const SequenceRows<T>& rows) const;

  DocumentSet documents_;
  PackingOptions options_;
  std::int64_t tokens_ = 0;
  std::int64_t too_long_ = 0;
  std::vector<Segment> segments_;
  std::vector<std::int64_t> first_segment_;  // of each sequence; one more at the end
};

}  // namespace ingot::data
