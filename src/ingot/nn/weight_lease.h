#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>

namespace ingot {

/// Brings the weights of a model's blocks into memory while they run. Between times they are elsewhere: on
/// other ranks (train/weight_shards.h). Whoever computes with a block holds a LeasedBlock; the backward pass
/// asks by itself (save_by_identity).
class WeightLease {
 public:
  WeightLease() = default;
  virtual ~WeightLease() = default;
  WeightLease(const WeightLease&) = delete;
  WeightLease& operator=(const WeightLease&) = delete;

  /// A forward pass over the blocks, from the first to the last, begins.
  virtual void begin() = 0;
  /// The block's weights are in memory from here to release(), and may stay longer.
  virtual void acquire(std::int64_t block) = 0;
  virtual void release(std::int64_t block) = 0;
};

/// Holds a block's weights in memory. Without a lease they always are.
class LeasedBlock {
 public:
  LeasedBlock(WeightLease* lease, std::int64_t block) : lease_(lease), block_(block) {
    if (lease_ != nullptr) lease_->acquire(block_);
  }
  ~LeasedBlock() {
    if (lease_ != nullptr) lease_->release(block_);
  }
  LeasedBlock(const LeasedBlock&) = delete;
  LeasedBlock& operator=(const LeasedBlock&) = delete;

 private:
  WeightLease* lease_;
  std::int64_t block_;
};

/// Holds so many blocks, all there are: for passes that other ranks, which have parts of the weights, do not
/// make as well.
class LeasedBlocks {
 public:
  LeasedBlocks(WeightLease* lease, std::size_t count) {
    if (lease == nullptr) return;
    lease->begin();
    for (std::size_t i = 0; i < count; ++i) held_.emplace_back(lease, static_cast<std::int64_t>(i));
  }

 private:
  std::deque<LeasedBlock> held_;
};

}  // namespace ingot
