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

/// `model` with rows for the run's tokens, where it adds some or train_new_tokens() was called for an
/// adapter.
LanguageConfig with_new_tokens(LanguageConfig model, const TrainConfig& config,
                               const text::Tokenizer& tokenizer);
/// What a plan has to know of a run: its architecture with new tokens, whose rows train beside an adapter.
/// The tokenizer is read where there are some.
LanguageConfig plan_new_tokens(TrainConfig& config);

}  // namespace ingot
