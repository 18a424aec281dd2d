#pragma once

namespace ingot {

/// A bound on how often something happens that costs (a deal-in in mahjong), kept by a PID controller of its
/// Lagrange multiplier (Stooke, Achiam and Abbeel 2020, "Responsive safety in reinforcement learning by PID
/// Lagrangian methods"): each cost takes the multiplier from the reward.
struct CostLimitOptions {
  double target = 0;  ///< costs an occasion that are allowed, > 0; 0: there is no limit
  double proportional = 0.1, integral = 0.003, derivative = 0.01;
  double most = 10;  ///< of the multiplier, in units of the reward
  /// Throws InvalidConfig naming the key.
  void validate() const;
};

class CostLimit {
 public:
  explicit CostLimit(const CostLimitOptions& options);
  /// What was measured since the last call, costs an occasion.
  void measure(double rate);
  /// What a cost takes from the reward until the next one.
  double multiplier() const { return state_.multiplier; }

  /// What a checkpoint keeps.
  struct State {
    double multiplier = 0;
    double sum = 0;    ///< of the errors, never below 0
    double rate = -1;  ///< the last one; -1: there was none
  };
  const State& state() const { return state_; }
  void restore(const State& state) { state_ = state; }

 private:
  CostLimitOptions options_;
  State state_;
};

}  // namespace ingot
