#pragma once

#include <cstdint>
#include <vector>

#include "ingot/nn/weight_lease.h"

namespace ingot {

/// A lease whose blocks come while the one before computes: at most two are in memory, and what the backward
/// pass still holds. Where they come from is the derived class's.
class PrefetchedBlocks : public WeightLease {
 public:
  void begin() override { step_ = 1; }
  void acquire(std::int64_t block) override;
  void release(std::int64_t block) override { --at(block).users; }
  std::int64_t blocks() const { return std::ssize(blocks_); }

 protected:
  explicit PrefetchedBlocks(std::int64_t blocks) : blocks_(static_cast<std::size_t>(blocks)) {}

  /// A backward pass asks for a block's weights: the one before it is next.
  void acquire_backward(std::int64_t block);
  /// Of all blocks that nobody holds.
  void drop_all();

  /// The block's weights begin to come.
  virtual void fetch(std::int64_t block) = 0;
  /// They are in the parameters on return, for work that comes behind in the current stream.
  virtual void finish(std::int64_t block) = 0;
  /// They leave the memory, whether finish() was called or not.
  virtual void drop(std::int64_t block) = 0;

 private:
  enum class State : std::uint8_t { away, coming, here };
  struct Block {
    State state = State::away;
    std::int64_t users = 0;
  };
  bool has(std::int64_t block) const { return block >= 0 && block < blocks(); }
  Block& at(std::int64_t block) { return blocks_[static_cast<std::size_t>(block)]; }
  void begin_fetch(std::int64_t block);
  void leave(std::int64_t block);
  void use(std::int64_t block);

  std::vector<Block> blocks_;
  std::int64_t step_ = 1;  // to the block that will be asked for next: 1, or -1 in a backward pass
};

}  // namespace ingot
