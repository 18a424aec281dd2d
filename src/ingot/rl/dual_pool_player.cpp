#include "ingot/rl/dual_pool_player.h"

#include <vector>

#include "ingot/base/error.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/view.h"

namespace ingot {
namespace {

Tensor column(const Tensor& x) { return to(reshape(x, {x.dim(0)}), DType::f32); }

}  // namespace

ActorCriticOutput DualPoolPlayer::operator()(const Tensor& observations) {
  const Tensor features = net_.features(observations);
  return {.logits = to(net_.policy(features), DType::f32), .value = column(net_.value(features))};
}

OracleCriticPlayer::OracleCriticPlayer(DualPoolNet& net, const ParamSource& source,
                                       const OracleCriticConfig& config)
    : DualPoolPlayer(net), both_{.net = net, .critic = OracleCritic(source, config)} {}

void OracleCriticPlayer::Both::visit(ParamVisitor& v) {
  net.visit(v);
  v("oracle", critic);
}

ActorCriticOutput OracleCriticPlayer::with_hidden(const Tensor& observations, const Tensor& hidden) {
  const Tensor features = both_.net.features(observations);
  const Tensor own = column(both_.net.value(features));
  const Tensor added = column(both_.critic(features.detach(), hidden));
  return {.logits = to(both_.net.policy(features), DType::f32),
          .value = own.detach() + added,
          .player_value = own};
}

ActorCriticOutput OraclePlayer::operator()(const Tensor& /*observations*/) {
  throw Error("an oracle sees what is hidden, and cannot play without it: distil it into a player");
}

ActorCriticOutput OraclePlayer::with_hidden(const Tensor& observations, const Tensor& hidden) {
  return player_(concat(std::vector<Tensor>{observations, hidden}, 1));
}

}  // namespace ingot
