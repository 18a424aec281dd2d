#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ingot/models/language/moe.h"

namespace ingot {

struct LanguageModel;

/// What the routers of a model did in a step's training passes, summed up on the device. Nothing waits for
/// it.
class RouterStatistics {
 public:
  explicit RouterStatistics(const LanguageModel& model);

  /// Forgets the step before.
  void begin();
  /// Of one pass: of each layer with experts, in their order.
  void add(std::span<const RouterLoad> loads);
  /// f32 [layers · (2 · experts + 1)]: of each layer with experts the (token, choice) pairs of each expert,
  /// its probabilities, and log²Σexp of the logits, summed over the tokens. The same memory in every step.
  const Tensor& sums() const { return sums_; }
  /// The layers with experts, from 0.
  const std::vector<std::int64_t>& layers() const { return layers_; }
  std::int64_t experts() const { return experts_; }

 private:
  std::vector<std::int64_t> layers_;
  std::int64_t experts_;
  Tensor sums_;
};

/// One layer's share of RouterStatistics::sums().
struct RouterUse {
  double aux_loss = 0;   ///< load_balancing_loss of this layer alone, over the tokens of the step
  double z_loss = 0;     ///< router_z_loss of this layer alone
  double imbalance = 0;  ///< the pairs of the busiest expert, where 1 is an equal share
  double entropy = 0;    ///< of the experts' shares of the pairs, where 1 is that of equal ones
  double unused = 0;     ///< the share of experts that got no pair
};
/// `sums`: 2 · experts + 1 numbers. All is 0 where there was no token.
RouterUse router_use(std::span<const float> sums, std::int64_t choices);

}  // namespace ingot
