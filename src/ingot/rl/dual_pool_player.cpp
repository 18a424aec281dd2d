#include "ingot/rl/dual_pool_player.h"

#include "ingot/ops/cast.h"
#include "ingot/ops/view.h"

namespace ingot {

ActorCriticOutput DualPoolPlayer::operator()(const Tensor& observations) {
  const Tensor features = net_.features(observations);
  const Tensor value = reshape(net_.value(features), {features.dim(0)});
  return {.logits = to(net_.policy(features), DType::f32), .value = to(value, DType::f32)};
}

}  // namespace ingot
