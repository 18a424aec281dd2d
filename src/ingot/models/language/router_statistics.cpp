#include "ingot/models/language/router_statistics.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "ingot/autograd/grad_mode.h"
#include "ingot/base/error.h"
#include "ingot/models/language/decoder.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/view.h"

namespace ingot {

RouterStatistics::RouterStatistics(const LanguageModel& model) : experts_(model.config.num_experts) {
  for (std::size_t i = 0; i < model.layers.size(); ++i)
    if (model.layers[i]->experts != nullptr) layers_.push_back(static_cast<std::int64_t>(i));
  sums_ = Tensor::zeros({std::ssize(layers_) * (2 * experts_ + 1)}, DType::f32, model.device());
}

void RouterStatistics::begin() { zero_(sums_); }

void RouterStatistics::add(std::span<const RouterLoad> loads) {
  INGOT_ASSERT(loads.size() == layers_.size());
  const NoGrad no_grad;
  std::vector<Tensor> parts;
  for (const RouterLoad& load : loads)
    for (const Tensor& part : {load.counts, load.probability.detach(), load.squares.detach()})
      parts.push_back(reshape(part, {-1}));
  add_(sums_, concat(parts));
}

RouterUse router_use(std::span<const float> sums, std::int64_t choices) {
  const std::size_t experts = (sums.size() - 1) / 2;
  const std::vector<double> pairs(sums.begin(), sums.begin() + static_cast<std::ptrdiff_t>(experts));
  const double all = std::accumulate(pairs.begin(), pairs.end(), 0.0);
  if (all == 0) return {};
  const double tokens = all / static_cast<double>(choices), equal = all / static_cast<double>(experts);
  RouterUse use{.z_loss = static_cast<double>(sums.back()) / tokens,
                .imbalance = *std::ranges::max_element(pairs) / equal};
  for (std::size_t e = 0; e < experts; ++e) {
    const double share = pairs[e] / all;
    if (share > 0) use.entropy -= share * std::log(share) / std::log(static_cast<double>(experts));
    if (share == 0) use.unused += 1 / static_cast<double>(experts);
    use.aux_loss += pairs[e] / tokens * static_cast<double>(sums[experts + e]) / tokens;
  }
  use.aux_loss *= static_cast<double>(experts);
  return use;
}

}  // namespace ingot
