#include "ingot/train/reporters/metric_names.h"

namespace ingot {

NamedValues tracked_values(const StepRecord& r) {
  NamedValues all{
      {"train/loss", r.loss}, {"train/learning_rate", r.learning_rate}, {"train/grad_norm", r.grad_norm}};
  if (r.tokens_per_second > 0) all.emplace_back("train/tokens_per_second", r.tokens_per_second);
  for (const auto& [name, value] : r.values) all.emplace_back("train/" + name, value);
  return all;
}

NamedValues tracked_values(const EvalRecord& r) {
  const std::string prefix = r.ema ? "eval/ema_" : "eval/";
  NamedValues all{{prefix + "loss", r.loss}};
  for (const auto& [name, value] : r.values) all.emplace_back(prefix + name, value);
  return all;
}

}  // namespace ingot
