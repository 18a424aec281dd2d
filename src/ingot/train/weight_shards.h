#pragma once

#include <cstdint>
#include <vector>

#include "ingot/core/tensor.h"
#include "ingot/dist/background.h"
#include "ingot/train/gathered_blocks.h"
#include "ingot/train/optimizer_shard.h"

namespace ingot {

/// ZeRO stage 3: the weights of a block are gathered from all ranks for the time that the block computes, and
/// those of the next one meanwhile.
class WeightShards final : public GatheredBlocks {
 public:
  /// Takes the weights of the shard's blocks out of memory. The shard and the thread have to outlive this.
  WeightShards(OptimizerShard& shard, dist::Background& background);
  ~WeightShards() override;

 private:
  struct Block {
    std::vector<std::size_t> buckets;
    std::vector<Tensor> values;  // of the buckets, while they are here or on their way
  };
  Block& at(std::int64_t block) { return blocks_[static_cast<std::size_t>(block)]; }
  void fetch(std::int64_t block) override;
  void finish(std::int64_t block) override;
  void drop(std::int64_t block) override;

  OptimizerShard& shard_;
  std::vector<Block> blocks_;
};

}  // namespace ingot
