#include "ingot/rl/advantage.h"

namespace ingot {
namespace {

// What lies behind a stream's decision in time.
struct Successor {
  double value = 0, advantage = 0;
  bool known = false;
};

}  // namespace

Advantages estimate_advantages(std::span<const RolloutDecision> decisions, std::int64_t streams,
                               const AdvantageOptions& options) {
  std::vector<Successor> successors(static_cast<std::size_t>(streams));
  Advantages result{.advantage = std::vector<float>(decisions.size()),
                    .target = std::vector<float>(decisions.size()),
                    .known = std::vector<std::uint8_t>(decisions.size())};
  for (std::size_t i = decisions.size(); i-- > 0;) {
    const RolloutDecision& d = decisions[i];
    Successor& next = successors[static_cast<std::size_t>(d.stream)];
    const double value = static_cast<double>(d.value);
    double advantage = 0;
    if (d.last || next.known) {
      const double later_value = d.last ? 0 : next.value, later = d.last ? 0 : next.advantage;
      advantage = static_cast<double>(d.reward) + options.gamma * later_value - value +
                  options.gamma * options.lambda * later;
      result.known[i] = 1;
    }
    result.advantage[i] = static_cast<float>(advantage);
    result.target[i] = static_cast<float>(advantage + value);
    next = {.value = value, .advantage = advantage, .known = true};
  }
  return result;
}

}  // namespace ingot
