#pragma once

#include "ingot/data/packing.h"

namespace ingot {

/// Nats per token that a bigram model, counted on `train`, needs for `validation`: the value that a language
/// model has to beat to have learnt more than which token follows which. Interpolated with unigrams, each
/// estimate backed off by Witten and Bell's rule (1991); a document's first token is not counted, as in
/// training.
double bigram_loss(const data::DocumentSet& train, const data::DocumentSet& validation,
                   std::int64_t vocab_size);

}  // namespace ingot
