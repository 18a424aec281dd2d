#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ingot/text/tokenizer_spec.h"

namespace ingot::text {

/// One piece of a SentencePiece vocabulary; the numbers of its type are those of sentencepiece_model.proto.
struct SentencePiece {
  enum Type : std::uint64_t {
    kNormal = 1,
    kUnknown = 2,
    kControl = 3,
    kUserDefined = 4,
    kUnused = 5,
    kByte = 6
  };
  std::string text;
  float score = 0;
  std::uint64_t type = kNormal;
};

/// What a SentencePiece model says, wherever it was read.
struct SentencePieceModel {
  enum Kind : std::uint64_t { kUnigram = 1, kBpe = 2 };
  std::vector<SentencePiece> pieces;
  std::uint64_t kind = kUnigram;
  bool byte_fallback = false;
  std::string charsmap;
  bool add_dummy_prefix = true;
  bool remove_extra_whitespaces = true;
  bool escape_whitespaces = true;
};

/// Reads a SentencePiece model file (google/sentencepiece, sentencepiece_model.proto).
SentencePieceModel read_sentencepiece(std::string_view bytes, const std::string& source);

/// The tokenizer of such a model. FormatError for a piece that is listed twice.
TokenizerSpec make_sentencepiece(const SentencePieceModel& model, const std::string& source);

/// A SentencePiece model file (google/sentencepiece, sentencepiece_model.proto) as a tokenizer: unigram
/// models, and BPE models with their merges worked out from the scores. `source` names the bytes in errors.
TokenizerSpec parse_sentencepiece(std::string_view bytes, const std::string& source);

}  // namespace ingot::text
