#pragma once

#include <algorithm>
#include <chrono>
#include <vector>

#include "ingot/autograd/grad_mode.h"
#include "ingot/ops/matmul.h"

namespace ingot {

/// FLOP/s of a 2048³ f32 product on this machine now (median of five): the limit that benchmarks of one run
/// are compared with.
inline double measured_matmul_rate() {
  static const double rate = [] {
    const NoGrad no_grad;
    const Tensor a = Tensor::zeros({2048, 2048}), b = Tensor::zeros({2048, 2048});
    std::vector<double> seconds;
    for (int i = 0; i < 6; ++i) {
      const auto start = std::chrono::steady_clock::now();
      matmul(a, b);
      if (i > 0)
        seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
    std::ranges::sort(seconds);
    return 2.0 * 2048 * 2048 * 2048 / seconds[seconds.size() / 2];
  }();
  return rate;
}

}  // namespace ingot
