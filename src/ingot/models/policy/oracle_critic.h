#pragma once

#include "ingot/models/policy/dual_pool_net.h"

namespace ingot {

struct OracleCriticConfig {
  std::int64_t hidden_channels = 0;   ///< of what the player may not see
  std::int64_t feature_channels = 0;  ///< of the player's own trunk
  std::int64_t width = 34;
  std::int64_t channels = 32;
  std::int64_t blocks = 2;
  /// Throws InvalidConfig naming the key.
  void validate() const;
};

/// What hidden information adds to a player's value, for training alone: a stem over the trunk's features
/// beside the hidden channels, DualPoolNet's blocks, and a head on their mean. It starts near 0.
struct OracleCritic {
  OracleCritic(const ParamSource& source, const OracleCriticConfig& config);
  /// features: [batch, width, feature_channels], as DualPoolNet::features gives them; hidden: [batch,
  /// hidden_channels, width]. The result: [batch, 1].
  Tensor operator()(const Tensor& features, const Tensor& hidden) const;
  void visit(ParamVisitor& v);

  Conv1d stem;
  std::vector<std::unique_ptr<DualPoolBlock>> blocks;
  GroupNorm norm;
  ReluMlp head;
};

}  // namespace ingot
