#include "ingot/kernels/cuda/autotune.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "ingot/base/env.h"

namespace ingot::kernels::cuda {

std::size_t fastest(std::size_t candidates, FunctionRef<double(std::size_t)> seconds, int rounds) {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  constexpr double kMargin = 30.0 / 31.0;
  std::vector<double> best(candidates, kNever);
  std::vector<bool> fails(candidates, false);
  for (int round = 0; round <= rounds; ++round) {
    for (std::size_t i = 0; i < candidates; ++i) {
      if (fails[i]) continue;
      const double time = seconds(i);
      fails[i] = time < 0;
      if (round > 0 && !fails[i]) best[i] = std::min(best[i], time);
    }
  }
  std::size_t chosen = 0;
  for (std::size_t i = 0; i < candidates; ++i) {
    if (fails[i]) best[i] = kNever;
    if (best[i] < best[chosen] * (chosen == 0 ? kMargin : 1.0)) chosen = i;
  }
  return chosen;
}

bool autotunes() {
  static const bool on = env_flag("CUDA_AUTOTUNE").value_or(false);
  return on;
}

}  // namespace ingot::kernels::cuda
