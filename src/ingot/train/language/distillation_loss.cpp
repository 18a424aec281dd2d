#include "ingot/train/language/distillation_loss.h"

#include <cmath>

#include "ingot/ops/elementwise.h"
#include "ingot/ops/index.h"
#include "ingot/ops/reduce.h"

namespace ingot {
namespace {

Tensor at_temperature(const Tensor& logits, double temperature) {
  return log_softmax(temperature == 1 ? logits : logits / temperature);
}

// KL(a ‖ b) of log-probabilities.
Tensor kl(const Tensor& a, const Tensor& b) { return sum(exp(a) * (a - b), {-1}); }

}  // namespace

Tensor distillation_divergence(const Tensor& logits, const Tensor& teacher_logits, double beta,
                               double temperature) {
  const Tensor model = at_temperature(logits, temperature),
               teacher = at_temperature(teacher_logits.detach(), temperature);
  if (beta == 0) return kl(teacher, model);
  if (beta == 1) return kl(model, teacher);
  // log((1 − β)·e^model + β·e^teacher)
  const Tensor weighted = model + std::log1p(-beta);
  const Tensor mixture = weighted + softplus(teacher + std::log(beta) - weighted);
  return kl(teacher, mixture) * beta + kl(model, mixture) * (1 - beta);
}

Tensor top_k_divergence(const Tensor& logits, const Tensor& indices, const Tensor& log_probs,
                        double temperature) {
  const Tensor model = gather_within(at_temperature(logits, temperature), 1, indices);
  return kl(at_temperature(log_probs.detach(), temperature), model);
}

}  // namespace ingot
