#pragma once

#include <cstdint>
#include <vector>

#include "ingot/text/tokenizer.h"
#include "ingot/train/language/config.h"

namespace ingot {

/// The ids of the tokens of a run that `tokenizer`, its own, has and the one that it began with lacks.
std::vector<std::int64_t> new_token_ids(const TrainConfig& config, const text::Tokenizer& tokenizer);
/// Lets the rows of these tokens train beside an adapter, where the whole matrix does not, and `tells` how
/// many there are. A run without an adapter trains them with the rest.
void train_new_tokens(TrainConfig& config, const text::Tokenizer& tokenizer, bool tells);

}  // namespace ingot
