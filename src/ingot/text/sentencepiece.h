#pragma once

#include <string>
#include <string_view>

#include "ingot/text/tokenizer_spec.h"

namespace ingot::text {

/// A SentencePiece model file (google/sentencepiece, sentencepiece_model.proto) as a tokenizer: unigram
/// models, and BPE models with their merges worked out from the scores. `source` names the bytes in errors.
TokenizerSpec parse_sentencepiece(std::string_view bytes, const std::string& source);

}  // namespace ingot::text
