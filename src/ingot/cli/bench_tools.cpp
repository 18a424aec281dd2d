#include <algorithm>
#include <chrono>
#include <vector>

#include "ingot/base/parallel.h"
#include "ingot/cli/bench.h"
#include "ingot/cli/torch_peer.h"
#include "ingot/core/tensor.h"

namespace ingot::cli {

double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double read_bandwidth(double bytes) {
  using Lanes = float __attribute__((vector_size(64)));
  const auto count = static_cast<std::int64_t>(std::clamp(bytes, 1.0e6, 1.0e9)) / 64 / 8 * 8;
  const Tensor block = Tensor::zeros({count * 16});
  const auto* lanes = reinterpret_cast<const Lanes*>(block.data<float>());
  std::vector<float> sums(static_cast<std::size_t>(num_threads()));
  const auto pass = [&] {
    parallel_for(num_threads(), 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t part = begin; part < end; ++part) {
        Lanes sum[8] = {};
        const std::int64_t first = count / 8 * part / num_threads() * 8;
        const std::int64_t last = count / 8 * (part + 1) / num_threads() * 8;
        for (std::int64_t i = first; i < last; i += 8) {
          for (int k = 0; k < 8; ++k) sum[k] += lanes[i + k];
        }
        for (const Lanes& s : sum) sums[static_cast<std::size_t>(part)] += s[0];
      }
    });
  };
  pass();
  std::vector<double> times;
  for (int run = 0; run < 7; ++run) {
    const double start = seconds();
    pass();
    times.push_back(seconds() - start);
  }
  return static_cast<double>(count) * 64 / median(times);
}

}  // namespace ingot::cli
