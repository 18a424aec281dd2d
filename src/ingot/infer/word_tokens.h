#pragma once

#include <span>
#include <string>
#include <vector>

#include "ingot/infer/logit_processors.h"
#include "ingot/text/tokenizer.h"

namespace ingot::infer {

/// The token sequences that write one of `words`, at the beginning of a text and behind a space (as vLLM's
/// bad_words).
std::vector<TokenSequence> word_sequences(const text::Tokenizer& tokenizer,
                                          std::span<const std::string> words);

/// The token sequences in whose text one of `breakers` ends: single tokens that hold it, and tokens that
/// begin it, followed by those that go on with it (as llama.cpp's DRY sampler).
std::vector<TokenSequence> breaker_sequences(const text::Tokenizer& tokenizer,
                                             std::span<const std::string> breakers);

}  // namespace ingot::infer
