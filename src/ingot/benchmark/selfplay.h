#pragma once

#include <cstdint>
#include <string>

#include "ingot/benchmark/measure.h"
#include "ingot/benchmark/torch_peer.h"

namespace ingot::benchmark {

struct SelfplayOptions {
  std::int64_t channels = 64, blocks = 6;  ///< of the network
  std::int64_t tables = 128, rollout_steps = 32, minibatch = 1024, runs = 5;
  std::string device = "cpu", dtype = "f32";
  bool breakdown = false;
  TorchOptions torch;  ///< a loop of riichienv and PyTorch, in turn with ours; on a CPU
};
/// Mahjong's self-play: the games, the network and PPO's steps, one after another.
Report time_selfplay(const SelfplayOptions& options);

}  // namespace ingot::benchmark
