#pragma once

#include <string>

#include "ingot/text/model.h"

namespace ingot::text {

struct WordPieceOptions {
  std::string unk_token = "[UNK]";
  std::string continuing_subword_prefix = "##";
  std::int64_t max_input_chars_per_word = 100;
};

/// WordPiece (Schuster and Nakajima 2012) as BERT uses it: the longest token first, from left to right; a
/// word that cannot be covered is one unknown token as a whole.
class WordPieceModel final : public Model {
 public:
  WordPieceModel(Vocabulary vocabulary, WordPieceOptions options);
  void encode(std::string_view piece, std::vector<std::int32_t>& ids, Workspace& work) const override;
  void write_json(const std::function<void(std::string_view)>& write) const override;

 private:
  bool cover(std::string_view piece, Workspace& work) const;

  WordPieceOptions options_;
  std::int32_t unk_id_ = -1;
  std::size_t longest_ = 0;  // token, in bytes
};

/// A word is a token or unknown.
class WordLevelModel final : public Model {
 public:
  WordLevelModel(Vocabulary vocabulary, std::string unk_token);
  void encode(std::string_view piece, std::vector<std::int32_t>& ids, Workspace& work) const override;
  void write_json(const std::function<void(std::string_view)>& write) const override;

 private:
  std::string unk_token_;
  std::int32_t unk_id_ = -1;
};

}  // namespace ingot::text
