#include "ingot/rl/ppo_loss.h"

#include "ingot/ops/cast.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/index.h"
#include "ingot/ops/reduce.h"
#include "ingot/ops/view.h"
#include "ingot/rl/masked_policy.h"

namespace ingot {

namespace {

// KL(policy ‖ anchor) at a temperature, times its square. log_all and anchor: masked log-probabilities, whose
// quotients are as good as those of logits.
Tensor anchor_divergence(const Tensor& log_all, const PpoBatch& batch, double temperature) {
  const auto soften = [&](const Tensor& x) {
    return temperature == 1 ? x : masked_log_softmax(x / temperature, batch.legal);
  };
  const Tensor own = soften(log_all), other = soften(batch.anchor);
  return sum(exp(own) * (own - other)) * (temperature * temperature / static_cast<double>(log_all.dim(0)));
}

}  // namespace

PpoLoss ppo_loss(const Tensor& logits, const Tensor& value, const PpoBatch& batch, const PpoCoefficients& c) {
  const std::int64_t size = logits.dim(0);
  const Tensor log_all = masked_log_softmax(logits, batch.legal);
  const Tensor probability = exp(log_all);
  const Tensor log_taken = reshape(gather_within(log_all, 1, reshape(batch.action, {size, 1})), {size});
  const Tensor log_ratio = log_taken - batch.log_probability;
  const Tensor ratio = exp(log_ratio);
  const Tensor limited = clamp(ratio, 1 - c.clip, 1 + c.clip);

  PpoLoss loss;
  loss.policy = neg(mean(minimum(ratio * batch.advantage, limited * batch.advantage)));
  loss.value = mean(square(value - batch.target)) * 0.5;
  loss.entropy = neg(sum(probability * log_all) / static_cast<double>(size));
  loss.kl = mean((ratio - 1.0) - log_ratio).detach();
  loss.clipped = mean(to(not_equal(ratio.detach(), limited.detach()), DType::f32));
  loss.total = loss.policy + loss.value * c.value - loss.entropy * c.entropy;
  if (batch.anchor.defined()) {
    loss.anchor = anchor_divergence(log_all, batch, c.anchor_temperature);
    loss.total = loss.total + loss.anchor * c.anchor;
  } else {
    loss.anchor = Tensor::zeros({}, DType::f32, logits.device());
  }
  return loss;
}

}  // namespace ingot
