#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ingot/text/model.h"
#include "ingot/text/pair_map.h"

namespace ingot::text {

struct BpeOptions {
  std::optional<std::string> unk_token;
  std::optional<std::string> continuing_subword_prefix;
  std::optional<std::string> end_of_word_suffix;
  /// Kept for saving; encoding is deterministic and never drops merges.
  std::optional<double> dropout;
  bool fuse_unk = false;
  /// A character outside the vocabulary becomes one token "<0xNN>" per byte, where all of them exist.
  bool byte_fallback = false;
  /// A piece that is itself a token is taken whole, whatever the merges would make of it (Llama 3).
  bool ignore_merges = false;
};

/// What two neighbours become, and how early.
struct Merge {
  std::int32_t rank = 0;
  std::int32_t id = 0;
};
using MergeTable = PairMap<Merge>;

/// Collects merges in order of rank. What add() returns is what is wrong with one; empty: nothing. Of a pair
/// listed twice the later rank counts, as in the `tokenizers` library.
class MergeBuilder {
 public:
  MergeBuilder(const Vocabulary& vocabulary, const BpeOptions& options, std::size_t expected);
  std::string add(std::string_view left, std::string_view right);
  /// "left right"
  std::string add_line(std::string_view line);
  MergeTable take() { return std::move(table_); }

 private:
  std::int32_t joined(std::string_view left, std::string_view right);

  const Vocabulary& vocabulary_;
  std::size_t prefix_;
  MergeTable table_;
  std::string joined_;
  std::int32_t last_ = -1;  // what the last merge made
  std::int32_t rank_ = 0;
};

/// Byte-pair encoding (Sennrich et al. 2016, arXiv:1508.07909): the merge of lowest rank is applied first, on
/// equal ranks the leftmost.
class BpeModel final : public Model {
 public:
  /// Throws InvalidConfig when `unk_token` is not in the vocabulary.
  BpeModel(Vocabulary vocabulary, MergeTable merges, BpeOptions options);

  void encode(std::string_view piece, std::vector<std::int32_t>& ids, Workspace& work) const override;
  void write_json(const std::function<void(std::string_view)>& write) const override;

  /// Whether every byte-level character is a token and nothing is added to characters: encode_bytes() is then
  /// encode() of the byte-level form, without building it.
  bool accepts_bytes() const { return accepts_bytes_; }
  void encode_bytes(std::string_view bytes, std::vector<std::int32_t>& ids, Workspace& work) const;

  const BpeOptions& options() const { return options_; }
  const MergeTable& merges() const { return merges_; }
  /// The merges in order of rank.
  std::vector<Pair> ranked_merges() const;

 private:
  void start_symbols(std::string_view piece, Workspace& work) const;
  void merge(Workspace& work) const;
  void merge_few(Workspace& work) const;
  void merge_many(Workspace& work) const;

  MergeTable merges_;
  BpeOptions options_;
  std::int32_t unk_id_ = -1;
  std::array<std::int32_t, 256> byte_level_ids_{};  // of the character that stands for the byte
  std::array<std::int32_t, 256> fallback_ids_{};    // of "<0xNN>"
  bool accepts_bytes_ = false;
};

}  // namespace ingot::text
