#pragma once

#include <cstddef>

#include "ingot/models/language/config.h"
#include "ingot/train/language/config.h"

namespace ingot {

/// What buckets of gradients take beside the gradients that stay, at most.
struct BucketPlan {
  std::size_t received = 0;  ///< by one ordered sum
  /// Where gradients pass (ZeRO 2 and 3): of a bucket as it is made and put together, of those before it that
  /// wait and are sent, and what is received.
  std::size_t passing = 0;
};

/// Of a run of several ranks, as GradBuckets lays its parameters out. `own`: bytes of all gradients.
BucketPlan plan_buckets(const TrainConfig& config, const LanguageConfig& model, std::size_t own);

}  // namespace ingot
