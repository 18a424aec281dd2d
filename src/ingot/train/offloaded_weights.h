#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <unordered_set>
#include <vector>

#include "ingot/base/parallel.h"
#include "ingot/core/backend.h"
#include "ingot/core/tensor.h"
#include "ingot/nn/visit.h"
#include "ingot/optim/offload.h"
#include "ingot/train/prefetched_blocks.h"

namespace ingot {

/// The matrices of a model's blocks, in the host's memory or in files between the times that their block
/// computes or is stepped. On a device with memory of its own they are copied to it, those of the next block
/// on a stream beside the work. On the CPU they are read where they lie, in mapped files, whose pages the
/// system reads ahead and may take back.
class OffloadedWeights final : public PrefetchedBlocks {
 public:
  /// `model` is on the host: its blocks' matrices stay, and all else moves to `device`. Those of
  /// Offload::disk that do not lie in a mapped file yet go to one in to.directory. The model outlives this.
  OffloadedWeights(ModuleRef model, std::span<const ModuleRef> blocks, Device device,
                   const OffloadConfig& to);
  ~OffloadedWeights() override;

  /// Of all blocks, where they lie.
  std::size_t bytes() const;
  bool trains() const;
  /// Those that train, by name, where they lie. The next update() changes them.
  std::map<std::string, Tensor> trained() const;
  /// Calls step(some of the parameters), with their values on the device, until it was called with all: those
  /// of no block, then block by block. Keeps what it made of them.
  void update(std::span<Parameter* const> parameters, FunctionRef<void(std::span<Parameter* const>)> step);

 private:
  struct Item {
    Tensor* place = nullptr;       // a parameter's value, or what a quantized matrix is made of
    Tensor home;                   // on the host
    std::size_t at = 0;            // in the block's memory
    Parameter* trained = nullptr;  // null: it does not change
  };
  struct Block {
    std::vector<Item> items;
    std::size_t bytes = 0;
    Tensor memory;  // on the device, while they are there or on their way
    Event event{};  // the memory is free; then, what was copied has arrived
  };
  void take(Block& block, ModuleRef module);
  void add(Block& block, Tensor& place, Parameter* trained = nullptr);
  void move_rest(ModuleRef model) const;
  void move_vectors(std::span<Parameter* const> vectors) const;
  Tensor keep(const Tensor& value, bool changes) const;
  void store(std::int64_t block);
  void leave_home(std::int64_t block);
  Block& at(std::int64_t block) { return blocks_[static_cast<std::size_t>(block)]; }
  void fetch(std::int64_t block) override;
  void finish(std::int64_t block) override;
  void drop(std::int64_t block) override;

  Device device_;
  ComputeBackend& owner_;
  bool on_host_;
  OffloadConfig to_;
  bool trains_whole_;  // not adapters
  Stream up_{};
  std::unordered_set<const void*> taken_;  // weights and experts of blocks
  std::vector<Block> blocks_;
};

}  // namespace ingot
