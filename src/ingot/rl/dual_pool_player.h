#pragma once

#include "ingot/models/policy/dual_pool_net.h"
#include "ingot/models/policy/oracle_critic.h"
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

/// The same with an oracle critic: in training the value is the player's own and what the critic adds to it.
/// The critic learns from the trunk's features and teaches it nothing, so what is hidden reaches the player
/// through advantages alone. Its parameters are "oracle.*" of module(), and no part of the net.
class OracleCriticPlayer : public DualPoolPlayer {
 public:
  OracleCriticPlayer(DualPoolNet& net, const ParamSource& source, const OracleCriticConfig& config);
  ModuleRef module() override { return both_; }
  bool reads_hidden() const override { return true; }
  ActorCriticOutput with_hidden(const Tensor& observations, const Tensor& hidden) override;

 private:
  struct Both {
    DualPoolNet& net;
    OracleCritic critic;
    void visit(ParamVisitor& v);
  };
  Both both_;
};

/// A net whose input is the observation's channels and behind them the hidden ones: a teacher, which sees
/// everything. It plays in training alone. The net outlives it.
class OraclePlayer : public ActorCritic {
 public:
  explicit OraclePlayer(DualPoolNet& net) : player_(net), net_(net) {}
  ModuleRef module() override { return net_; }
  /// Throws Error: without what is hidden it cannot play.
  ActorCriticOutput operator()(const Tensor& observations) override;
  bool reads_hidden() const override { return true; }
  ActorCriticOutput with_hidden(const Tensor& observations, const Tensor& hidden) override;

 private:
  DualPoolPlayer player_;
  DualPoolNet& net_;
};

}  // namespace ingot
