#pragma once

#include <cstdint>

#include "ingot/benchmark/measure.h"
#include "ingot/benchmark/torch_peer.h"

namespace ingot::benchmark {

struct PolicyOptions {
  std::int64_t batch = 1, runs = 21;
  bool train = false;  ///< whole training steps, else inference
  bool breakdown = false;
  TorchOptions torch{};
};
/// The SE-ResNet policy network, beside what matmuls reach.
Report time_policy(const PolicyOptions& options);

}  // namespace ingot::benchmark
