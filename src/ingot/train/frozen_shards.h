#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ingot/core/tensor.h"
#include "ingot/dist/background.h"
#include "ingot/dist/communicator.h"
#include "ingot/train/gathered_blocks.h"

namespace ingot {

/// ZeRO stage 3 of weights that do not train: the base below adapters, or a model that a run compares with.
/// Every rank keeps a slice of each block's bytes, dense or quantized. They are gathered as they are for the
/// time that the block computes.
class FrozenShards final : public GatheredBlocks {
 public:
  /// Takes the tensors of the blocks out of memory, which are contiguous and equal on all ranks. They have to
  /// outlive this, and so have communicator and thread.
  FrozenShards(std::span<const std::vector<Tensor*>> blocks, dist::Communicator& communicator,
               dist::Background& background);
  ~FrozenShards() override;

 private:
  struct Item {
    Tensor* place = nullptr;  // a parameter's value, or what a quantized matrix is made of
    std::size_t at = 0;       // in the block's bytes
    bool follows = false;     // the one before in memory, on every rank
  };
  struct Block {
    std::vector<Item> items;
    std::size_t bytes = 0;
    std::vector<dist::Slice> slices;  // by rank
    Tensor own;                       // this rank's slice
    Tensor memory;                    // of all, while they are here or on their way
  };
  static std::vector<Item> items_of(std::span<Tensor* const> places);
  void check_sizes() const;
  void agree_on_neighbours();
  void take(Block& block) const;
  void leave(std::int64_t block);
  Block& at(std::int64_t block) { return blocks_[static_cast<std::size_t>(block)]; }
  dist::Slice own_slice(const Block& block) const;
  void fetch(std::int64_t block) override;
  void finish(std::int64_t block) override;
  void drop(std::int64_t block) override;

  dist::Communicator& communicator_;
  std::vector<Block> blocks_;
};

}  // namespace ingot
