#pragma once

#include "ingot/data/token_cache.h"
#include "ingot/text/tokenizer.h"

namespace ingot::data {

/// What load_tokens needs of a tokenizer. Documents end with its end-of-text token, where it names one. A
/// special token written in the text counts as that token, as when the model is used.
TokenEncoder encoder_of(const text::Tokenizer& tokenizer);

}  // namespace ingot::data
