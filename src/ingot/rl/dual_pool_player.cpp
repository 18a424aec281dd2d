#include "ingot/rl/dual_pool_player.h"

#include "ingot/ops/view.h"

namespace ingot {

ActorCriticOutput DualPoolPlayer::operator()(const Tensor& observations) {
  const Tensor features = net_.features(observations);
  return {.logits = net_.policy(features), .value = reshape(net_.value(features), {features.dim(0)})};
}

}  // namespace ingot
