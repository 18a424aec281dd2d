#pragma once

#include <cstdint>
#include <memory>

#include "ingot/dist/communicator.h"
#include "ingot/infer/session.h"
#include "ingot/models/language/decoder.h"

namespace ingot::infer {

/// The ranks of a communicator as those that have a model together. It has to outlive the group.
std::shared_ptr<const RankGroup> rank_group(dist::Communicator& communicator);

/// Has every pass of the model with KV caches, and every computation of logits, be run by the other ranks,
/// too, which follow(). It ends them with the model. On the first rank.
void lead(LanguageModel& model, dist::Communicator& communicator);
/// Runs what the first rank leads, with this rank's part of the model, until that ends.
void follow(const LanguageModel& model, dist::Communicator& communicator);

/// The ranks that a launcher started, for SessionOptions::tensor_parallel_size of them: over shared memory
/// where they are on one machine. InvalidConfig where they are of another number.
dist::Communicator& tensor_parallel_ranks(std::int64_t size);

/// This rank's part of the model of a session, which leads on the first rank. All ranks call it, and what
/// they were told is compared first. InvalidConfig.
std::unique_ptr<LanguageModel> load_split_model(const SessionOptions& options);

/// What other ranks than the first do: load_split_model() and follow().
void follow(const SessionOptions& options);

}  // namespace ingot::infer
