#pragma once

#include <cstdint>

#include "ingot/models/language/decoder.h"

namespace ingot {

/// Gives the embeddings and the head rows for `tokens` tokens, where they have fewer. A new row is the mean
/// of those that are there, as transformers starts it: its logit is like others'. Quantized matrices become
/// dense first. NotImplemented where layers have token tables of their own (Gemma 3n and 4), or ranks have
/// the model together.
void grow_vocabulary(LanguageModel& model, std::int64_t tokens);

}  // namespace ingot
