#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "ingot/text/byte_trie.h"
#include "ingot/text/model.h"

namespace ingot::text {

/// The unigram language model (Kudo 2018, arXiv:1804.10959): of all ways to cut a piece into tokens the one
/// whose scores (log probabilities) add up to the most.
class UnigramModel final : public Model {
 public:
  /// `scores` by id. Throws InvalidConfig when `unk_id` is not an id.
  UnigramModel(Vocabulary vocabulary, std::vector<double> scores, std::optional<std::int32_t> unk_id,
               bool byte_fallback);
  void encode(std::string_view piece, std::vector<std::int32_t>& ids, Workspace& work) const override;
  void write_json(const std::function<void(std::string_view)>& write) const override;

 private:
  void best_path(std::string_view piece, Workspace& work) const;
  void emit(std::string_view text, std::vector<std::int32_t>& ids) const;

  std::vector<double> scores_;
  std::optional<std::int32_t> unk_id_;
  bool byte_fallback_;
  double unk_score_ = 0;
  ByteTrie trie_;
  std::array<std::int32_t, 256> fallback_ids_{};
};

}  // namespace ingot::text
