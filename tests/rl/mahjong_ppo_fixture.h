#pragma once

#include <string>
#include <vector>

#include "tests/support/temporary_directory.h"
#include <gtest/gtest.h>

#include "ingot/base/config.h"
#include "ingot/models/policy/dual_pool_net.h"
#include "ingot/rl/mahjong_training.h"

namespace ingot::test {

// PPO in mahjong with all that a league has, from a network that knows nothing.
class MahjongPpoTest : public ::testing::Test {
 protected:
  void SetUp() override {
    InitSource source(2);
    DualPoolNet net(source,
                    {.input_channels = 96, .channels = 8, .blocks = 1, .norm_groups = 4, .se_reduction = 4});
    save_dual_pool_net(directory_.at("base"), net);
  }
  MahjongTrainConfig config(const std::string& output, const std::vector<std::string>& changes = {}) const {
    Config file = Config::parse(
        "phase: ppo\nthreads: 1\ntables: 4\nrollout_steps: 10\nminibatch_size: 12\nppo_epochs: 1\nmax_steps: "
        "6\n"
        "learning_rate: 0.01\nlr_scheduler_type: constant\nsave_steps: 2\neval_walls: 0\ndevice: cpu\n"
        "target_kl: 0\nreport_to: [jsonl]\n"
        "league: {past: 0.4, past_selves: 2, past_every: 1, players: {rule-based: 0.3}}\n",
        "ppo.yaml");
    file.set("base_model=" + directory_.at("base"));
    file.set("output_dir=" + directory_.at(output));
    for (const std::string& change : changes) file.set(change);
    return read_mahjong_train_config(file);
  }
  std::vector<float> weights(const std::string& output) const {
    const auto net = open_dual_pool_net(directory_.at(output) + "/model");
    std::vector<float> all;
    for (const auto& [name, parameter] : named_parameters(*net)) {
      const std::vector<float> values = parameter->value.detach().to_vector<float>();
      all.insert(all.end(), values.begin(), values.end());
    }
    return all;
  }
  TemporaryDirectory directory_;
};

}  // namespace ingot::test
