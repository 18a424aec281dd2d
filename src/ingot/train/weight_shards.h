#pragma once

#include <cstdint>
#include <future>
#include <optional>
#include <vector>

#include "ingot/core/backend.h"
#include "ingot/core/tensor.h"
#include "ingot/dist/background.h"
#include "ingot/train/optimizer_shard.h"
#include "ingot/train/prefetched_blocks.h"

namespace ingot {

/// ZeRO stage 3: the weights of a block are gathered from all ranks for the time that the block computes, and
/// those of the next one meanwhile.
///
/// All ranks have to run the same passes over the blocks. What they communicate beside goes through
/// background(), so that it has one order on all ranks.
class WeightShards final : public PrefetchedBlocks {
 public:
  /// Takes the weights of the shard's blocks out of memory. The shard has to outlive this.
  explicit WeightShards(OptimizerShard& shard);
  ~WeightShards() override;

  /// What is in memory is out of date: the optimizer has stepped.
  void reshard_all() { drop_all(); }

  dist::Background& background() { return background_; }

 private:
  struct Block {
    std::vector<std::size_t> buckets;
    std::vector<Tensor> values;  // of the buckets, while they are here or on their way
    std::future<void> gathered;  // valid until somebody has waited for it
    std::optional<Event> ready;  // of a device that works beside the host: the memory of the values is free
  };
  Block& at(std::int64_t block) { return blocks_[static_cast<std::size_t>(block)]; }
  void fetch(std::int64_t block) override;
  void finish(std::int64_t block) override;
  void drop(std::int64_t block) override;

  OptimizerShard& shard_;
  std::vector<Block> blocks_;
  dist::Background background_;
};

}  // namespace ingot
