#pragma once

#include "ingot/models/policy/dual_pool_net.h"
#include "ingot/rl/rollout.h"

namespace ingot {

/// DualPoolNet's policy and value heads as PPO sees them; the other heads neither run nor learn. The net
/// outlives it.
class DualPoolPlayer : public ActorCritic {
 public:
  explicit DualPoolPlayer(DualPoolNet& net) : net_(net) {}
  ModuleRef module() override { return net_; }
  ActorCriticOutput operator()(const Tensor& observations) override;

 private:
  DualPoolNet& net_;
};

}  // namespace ingot
