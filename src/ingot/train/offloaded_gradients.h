#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "ingot/autograd/grad_buckets.h"
#include "ingot/core/backend.h"
#include "ingot/core/tensor.h"
#include "ingot/nn/parameter.h"
#include "ingot/optim/clip.h"
#include "ingot/optim/offload.h"

namespace ingot {

/// Gradients in the host's memory, or in files, from when a backward pass has made them until the optimizer
/// steps. On a device with memory of its own each goes as soon as it is final, on a stream beside the work:
/// those of one layer are on their way at a time. A further pass brings back what it adds to, so that sums
/// have the bits of without. On the CPU they are in mapped files, whose pages the system may write out.
class OffloadedGradients {
 public:
  /// Of a device with memory of its own, or to Offload::disk. Gradients that there are, are dropped. The
  /// parameters outlive this.
  OffloadedGradients(std::span<Parameter* const> parameters, const OffloadConfig& to);
  ~OffloadedGradients();
  OffloadedGradients(const OffloadedGradients&) = delete;
  OffloadedGradients& operator=(const OffloadedGradients&) = delete;

  /// clip_by_global_norm of some of the parameters, with its bits: from sums that were made of each gradient
  /// before it went. Behind it none is on the device. An infinite max_norm clips nothing.
  ClippedNorm norm(std::span<Parameter* const> parameters, double max_norm);

 private:
  // What the backward pass made as one tensor: the gradient of one leaf, or of several (contiguous_slot).
  struct Block {
    std::weak_ptr<Storage> storage;  // on the device, of which the leaves' gradients leave
    Tensor host;                     // bytes
    Tensor device;                   // bytes, while they come back
    Event left{}, loaded{};          // the copies to the host, and from it, have ended
    std::vector<std::size_t> leaves;
    std::weak_ptr<Block> next;  // which left behind it, and will be wanted behind it
    int brought = 0;            // times in this step
  };
  struct Leaf {
    Parameter* parameter = nullptr;
    std::shared_ptr<Block> block;
    std::size_t at = 0;       // in it
    std::size_t partial = 0;  // of the first of its sums
    std::size_t partials = 0;
  };
  struct Leaving {
    Tensor gradient;
    std::shared_ptr<Block> block;
  };

  void keep_in_files();
  void leave(std::size_t leaf);
  void bring(std::size_t leaf);
  void start(Block& block);
  void drop(Block& block);
  void start_next(const Block& block);
  void end_leaving(std::size_t but_bytes);
  void settle();
  bool is_away(const Leaf& leaf) const;
  std::shared_ptr<Block> block_of(const Tensor& gradient, std::size_t leaf);
  std::shared_ptr<Block> block_on(const std::shared_ptr<Storage>& storage) const;
  void move_leaf(std::size_t leaf, const std::shared_ptr<Block>& block);
  std::shared_ptr<Block> make_block(const Tensor& gradient) const;
  void sum_squares(const Leaf& leaf, const Tensor& gradient) const;
  static GradBuffer& buffer_of(const Leaf& leaf) { return leaf.parameter->value.autograd_meta()->grad; }

  Device device_;
  ComputeBackend& owner_;
  bool on_host_;
  OffloadConfig to_;
  std::size_t window_ = 0;  // bytes that are on their way at a time
  Stream up_{}, down_{};
  std::vector<Leaf> leaves_;
  std::unordered_map<const Parameter*, std::size_t> numbers_;        // of leaves
  std::unordered_map<const Storage*, std::weak_ptr<Block>> blocks_;  // by the memory that leaves, of a step
  Tensor partials_, unused_;  // sums of squares of blocks, f64; and a norm that nobody asks for
  std::deque<Leaving> leaving_;
  std::weak_ptr<Block> last_left_;
};

}  // namespace ingot
