#include "ingot/models/language/context.h"

#include <algorithm>

namespace ingot {

std::int64_t context_length(const LanguageConfig& config) {
  const RopeScaling& rope = config.rope_scaling;
  const bool extends = rope.type == "yarn" || rope.type == "linear" || rope.type == "dynamic";
  if (config.position != PositionKind::rope || !extends) return config.max_position_embeddings;
  const std::int64_t trained = rope.original_max_position_embeddings > 0
                                   ? rope.original_max_position_embeddings
                                   : config.max_position_embeddings;
  const auto extended = static_cast<std::int64_t>(static_cast<double>(trained) * rope.factor);
  return std::max(config.max_position_embeddings, extended);
}

}  // namespace ingot
