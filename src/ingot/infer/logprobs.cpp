#include "ingot/infer/logprobs.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "ingot/infer/logit_passes.h"

namespace ingot::infer {

DrawnLogprob drawn_logprob(std::span<const float> logits, std::int32_t token, std::int64_t top) {
  const float largest = largest_logit(logits);
  const double log_sum = static_cast<double>(largest) + std::log(sum_exp_weights(logits, largest));
  const auto logprob = [&](std::int32_t id) {
    return static_cast<float>(static_cast<double>(logits[static_cast<std::size_t>(id)]) - log_sum);
  };
  DrawnLogprob drawn{.logprob = logprob(token)};
  if (top == 0) return drawn;
  std::vector<std::int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  const auto likelier = [&](std::int32_t a, std::int32_t b) {
    const float of_a = logits[static_cast<std::size_t>(a)], of_b = logits[static_cast<std::size_t>(b)];
    return of_a != of_b ? of_a > of_b : a < b;
  };
  const auto end = ids.begin() + std::min<std::ptrdiff_t>(top, std::ssize(ids));
  std::ranges::partial_sort(ids, end, likelier);
  for (auto id = ids.begin(); id != end; ++id) drawn.top.push_back({*id, logprob(*id)});
  return drawn;
}

PromptLogprob prompt_logprob(std::span<const float> logits, std::int32_t token, std::int64_t top) {
  const float own = logits[static_cast<std::size_t>(token)];
  return {.drawn = drawn_logprob(logits, token, top),
          .rank = 1 + std::ranges::count_if(logits, [own](float other) { return other > own; })};
}

}  // namespace ingot::infer
