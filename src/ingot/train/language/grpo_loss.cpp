#include "ingot/train/language/grpo_loss.h"

#include <cmath>
#include <limits>
#include <numeric>

#include "ingot/ops/cast.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/reduce.h"

namespace ingot {
namespace {

constexpr double kStdEpsilon = 1e-4;  // trl's

struct Moments {
  double mean = 0, std = 0;
};

// With Bessel's correction.
Moments moments(std::span<const double> values) {
  Moments m;
  const auto count = static_cast<double>(values.size());
  m.mean = std::accumulate(values.begin(), values.end(), 0.0) / count;
  double squares = 0;
  for (const double value : values) squares += (value - m.mean) * (value - m.mean);
  m.std = count > 1 ? std::sqrt(squares / (count - 1)) : 0;
  return m;
}

bool is_zero(double std) { return std <= 1e-8; }

// Each reward by itself, then all of them over the batch (GDPO).
void normalize_then_sum(const GrpoConfig& config, std::span<const std::vector<double>> rewards,
                        GroupAdvantages& result) {
  const auto size = static_cast<std::size_t>(config.num_generations);
  const std::vector<double> weights = config.weights();
  std::vector<double>& sums = result.rewards;
  for (std::size_t r = 0; r < rewards.size(); ++r)
    for (std::size_t begin = 0; begin < sums.size(); begin += size) {
      const Moments m = moments(std::span(rewards[r]).subspan(begin, size));
      for (std::size_t i = begin; i < begin + size; ++i)
        sums[i] += weights[r] * (rewards[r][i] - m.mean) / (m.std + kStdEpsilon);
    }
  const Moments all = moments(sums);
  for (const double sum : sums) result.advantages.push_back((sum - all.mean) / (all.std + kStdEpsilon));
  result.groups_alike = is_zero(all.std) ? 1 : 0;
}

void sum_then_normalize(const GrpoConfig& config, std::span<const std::vector<double>> rewards,
                        GroupAdvantages& result) {
  const auto size = static_cast<std::size_t>(config.num_generations);
  const std::vector<double> weights = config.weights();
  std::vector<double>& sums = result.rewards;
  for (std::size_t r = 0; r < rewards.size(); ++r)
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += weights[r] * rewards[r][i];
  const Moments all = moments(sums);
  double alike = 0;
  for (std::size_t begin = 0; begin < sums.size(); begin += size) {
    const Moments m = moments(std::span(sums).subspan(begin, size));
    const double std = config.scale_rewards == RewardScale::batch ? all.std : m.std;
    const double scale = config.scale_rewards == RewardScale::none ? 1 : std + kStdEpsilon;
    for (std::size_t i = begin; i < begin + size; ++i)
      result.advantages.push_back((sums[i] - m.mean) / scale);
    if (is_zero(std)) alike += static_cast<double>(size);
  }
  result.groups_alike = alike / static_cast<double>(sums.size());
}

Tensor at_least_one(const Tensor& count) { return clamp(count, 1, std::numeric_limits<float>::max()); }

Tensor reduced(const GrpoConfig& config, const GrpoBatch& batch, const Tensor& masked) {
  const auto micro_batches = static_cast<double>(batch.micro_batches);
  switch (config.loss_type) {
    case GrpoLossType::grpo:
      return mean(sum(masked, {1}) / at_least_one(sum(batch.mask, {1}))) / micro_batches;
    case GrpoLossType::bnpo:
      return sum(masked) / at_least_one(sum(batch.mask)) / micro_batches;
    case GrpoLossType::dr_grpo:
      return sum(masked) / static_cast<double>(batch.mask.dim(0) * config.max_completion_length) /
             micro_batches;
    case GrpoLossType::dapo:
      return sum(masked) / std::max(batch.step_tokens, 1.0);
  }
  return {};
}

}  // namespace

GroupAdvantages group_advantages(const GrpoConfig& config, std::span<const std::vector<double>> rewards) {
  GroupAdvantages result;
  result.rewards.resize(rewards.front().size());
  result.advantages.reserve(result.rewards.size());
  if (config.normalize_then_sum)
    normalize_then_sum(config, rewards, result);
  else
    sum_then_normalize(config, rewards, result);
  result.std_of_rewards = moments(result.rewards).std;
  return result;
}

GrpoLoss grpo_loss(const GrpoConfig& config, const GrpoBatch& batch) {
  const Tensor old = batch.old_log_probs.defined() ? batch.old_log_probs : batch.log_probs.detach();
  const Tensor ratio = exp(batch.log_probs - old);
  const Tensor limited = clamp(ratio, 1 - config.epsilon, 1 + config.epsilon_high);
  const Tensor plain = ratio * batch.advantages, clipped = limited * batch.advantages;
  Tensor loss = -minimum(plain, clipped);
  GrpoLoss result;
  const Tensor tokens = at_least_one(sum(batch.mask));
  result.clipped = sum(to(greater(plain.detach(), clipped.detach()), DType::f32) * batch.mask) / tokens;
  if (batch.reference.defined()) {
    const Tensor ahead = batch.reference - batch.log_probs;
    const Tensor kl = exp(ahead) - ahead - 1.0;
    loss = loss + kl * config.beta;
    result.kl = sum(kl.detach() * batch.mask) / tokens;
  }
  result.loss = reduced(config, batch, loss * batch.mask);
  return result;
}

}  // namespace ingot
